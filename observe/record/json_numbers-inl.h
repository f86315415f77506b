// Documents that anybody may have written, and the whole numbers in them. The library's own get() cuts off
// fractions, and converting what fits no 64 bits is undefined.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>

#include "isochron/core/text/json_depth.h"

namespace isochron::observe {

/// Of ns 146 years, the longest run that can be recorded. Sums of more than one number are checked (add_up).
inline constexpr int64_t kLargestWhole = int64_t{1} << 62;

/// Of bytes and counts: a thousand of them can be added up.
inline constexpr int64_t kLargestCount = int64_t{1} << 52;

/// A whole number in [low, high]; throws std::invalid_argument naming it otherwise.
template <typename Json>
int64_t whole_of(const Json& value, std::string_view name, int64_t low = 0, int64_t high = kLargestWhole) {
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() || value.template get<uint64_t>() <= static_cast<uint64_t>(high));
  if (!fits || value.template get<int64_t>() < low || value.template get<int64_t>() > high)
    throw std::invalid_argument(fmt::format("'{}' is not a whole number in [{}, {}]", name, low, high));
  return value.template get<int64_t>();
}
/// A number of bytes or of things, 0 or more, or with either sign.
template <typename Json>
int64_t count_of(const Json& value, std::string_view name, bool is_signed = false) {
  return whole_of(value, name, is_signed ? -kLargestCount : 0, kLargestCount);
}

/// Throws std::invalid_argument: of a document that is read, whose reader says which.
inline void expect(bool condition, const std::string& text) {
  if (!condition) throw std::invalid_argument(text);
}

/// Adds one of several numbers that are later added up, as the times of a run's windows are; throws as
/// `expect` if the sum is above kLargestWhole. Neither is below 0.
inline void add_up(int64_t& sum, int64_t value, const char* name) {
  expect(value <= kLargestWhole - sum, fmt::format("'{}' adds up to more than 2^62", name));
  sum += value;
}

/// Parses a document; throws as the library does, and if it is nested too deep.
template <typename Json>
Json parse_json(std::string_view text) {
  expect(!json_too_deep(text), fmt::format("it is nested more than {} levels deep", kDeepestJson));
  return Json::parse(text);
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
