// Reads untrusted JSON documents and the whole numbers in them. The JSON library's own get() silently drops
// fractions, and its conversion of numbers that don't fit into 64 bits is undefined behavior.
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

/// The limit for times in ns: 146 years, the longest run that can be recorded. Sums are checked (add_up).
inline constexpr int64_t kLargestWhole = int64_t{1} << 62;

/// The limit for bytes and counts: a thousand such numbers can be added without overflow.
inline constexpr int64_t kLargestCount = int64_t{1} << 52;

/// Returns a whole number in [low, high]; throws std::invalid_argument, naming `name`, for anything else.
template <typename Json>
int64_t whole_of(const Json& value, std::string_view name, int64_t low = 0, int64_t high = kLargestWhole) {
  const bool fits =
      value.is_number_integer() &&
      (!value.is_number_unsigned() || value.template get<uint64_t>() <= static_cast<uint64_t>(high));
  if (!fits || value.template get<int64_t>() < low || value.template get<int64_t>() > high)
    throw std::invalid_argument(fmt::format("'{}' is not a whole number in [{}, {}]", name, low, high));
  return value.template get<int64_t>();
}
/// A number of bytes or things: at least 0, or of either sign if `is_signed`.
template <typename Json>
int64_t count_of(const Json& value, std::string_view name, bool is_signed = false) {
  return whole_of(value, name, is_signed ? -kLargestCount : 0, kLargestCount);
}

/// Throws std::invalid_argument if `condition` is false. The caller that reads the document adds its name.
inline void expect(bool condition, const std::string& text) {
  if (!condition) throw std::invalid_argument(text);
}

/// Checks that numbers which are added up later, such as the times of a run's windows, can't overflow: adds
/// `value` to `sum`, both at least 0, and throws like `expect` if the result is above kLargestWhole.
inline void add_up(int64_t& sum, int64_t value, const char* name) {
  expect(value <= kLargestWhole - sum, fmt::format("'{}' adds up to more than 2^62", name));
  sum += value;
}

/// Parses a document. Throws like the JSON library, and also if the document is nested too deeply.
template <typename Json>
Json parse_json(std::string_view text) {
  expect(!json_too_deep(text), fmt::format("it is nested more than {} levels deep", kDeepestJson));
  return Json::parse(text);
}

/// whole_of for the member `name`. Also throws like `at` if there is no such member.
template <typename Json>
int64_t whole(const Json& json, const char* name, int64_t low = 0) {
  return whole_of(json.at(name), name, low);
}

/// A number as JSON. NaN and infinity, which JSON lacks, become strings.
template <typename Json>
Json number_json(double number) {
  if (std::isfinite(number)) return number;
  return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

/// The message of a parse error for people: without the library's prefix, and not too long.
inline std::string complaint(const std::exception& error) {
  constexpr size_t kMax = 200;
  std::string_view text = error.what();
  if (text.starts_with("[json.exception.")) text.remove_prefix(std::min(text.find(']') + 2, text.size()));
  return std::string(text.substr(0, kMax));
}

}  // namespace isochron::observe
