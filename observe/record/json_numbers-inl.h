// Numbers in documents, and whole ones out of those that anybody may have written. The library's
// own get() cuts off fractions, and converting what fits no 64 bits is undefined.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

namespace isochron::observe {

/// So that sums of many fit, and doubles hold them: a run of a hundred days has fewer ns.
inline constexpr int64_t kLargestWhole = int64_t{1} << 53;

/// A whole number in [low, kLargestWhole]; throws std::invalid_argument naming it otherwise.
template <typename Json>
int64_t whole_of(const Json& value, std::string_view name, int64_t low = 0) {
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() || value.template get<uint64_t>() <= static_cast<uint64_t>(kLargestWhole));
  if (!fits || value.template get<int64_t>() < low || value.template get<int64_t>() > kLargestWhole)
    throw std::invalid_argument(fmt::format("'{}' is not a whole number in [{}, 2^53]", name, low));
  return value.template get<int64_t>();
}

/// Throws std::invalid_argument: of a document that is read, whose reader says which.
inline void expect(bool condition, const std::string& text) {
  if (!condition) throw std::invalid_argument(text);
}

/// That of the member `name`; throws as `at` too.
template <typename Json>
int64_t whole(const Json& json, const char* name, int64_t low = 0) {
  return whole_of(json.at(name), name, low);
}

/// JSON has no NaN and no infinity; they become strings.
template <typename Json>
Json number_json(double number) {
  if (std::isfinite(number)) return number;
  return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

/// What an error says of a document, for people: without the library's own name of it, and not too long.
inline std::string complaint(const std::exception& error) {
  constexpr size_t kMost = 200;
  std::string_view text = error.what();
  if (text.starts_with("[json.exception.")) text.remove_prefix(std::min(text.find(']') + 2, text.size()));
  return std::string(text.substr(0, kMost));
}

}  // namespace isochron::observe
