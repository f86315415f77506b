#include "isochron/core/text/encoding.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

#include "isochron/core/base/error.h"

namespace isochron {
namespace {

/// The encoding that the byte order mark shows, as iconv names it; empty if there is no such mark.
std::string_view marked_encoding(std::span<const std::byte> begin) {
  const auto starts = [&](std::initializer_list<uint8_t> mark) {
    return begin.size() >= mark.size() &&
           std::equal(mark.begin(), mark.end(), begin.begin(),
                      [](uint8_t a, std::byte b) { return std::byte{a} == b; });
  };
  if (starts({0xff, 0xfe, 0, 0}) || starts({0, 0, 0xfe, 0xff})) return "UTF-32";
  if (starts({0xff, 0xfe}) || starts({0xfe, 0xff})) return "UTF-16";
  return {};
}

/// The encoding that the positions of zero bytes show: in UTF-16 and UTF-32, all bytes of a Latin letter or
/// digit but one are zero. Empty if the text has no such pattern.
std::string_view unmarked_encoding(std::span<const std::byte> begin) {
  std::array<size_t, 4> zeroes{};  // by position modulo 4
  for (size_t i = 0; i < begin.size(); ++i) zeroes[i % 4] += begin[i] == std::byte{0};
  const size_t half = begin.size() / 8;  // half of the bytes at one of the four positions
  std::array<bool, 4> zero{};
  for (size_t i = 0; i < zero.size(); ++i) zero[i] = zeroes[i] > half;
  using Places = std::array<bool, 4>;
  if (zero == Places{false, true, true, true}) return "UTF-32LE";
  if (zero == Places{true, true, true, false}) return "UTF-32BE";
  if (zero == Places{false, true, false, true}) return "UTF-16LE";
  if (zero == Places{true, false, true, false}) return "UTF-16BE";
  return {};
}

}  // namespace

void refuse_wide_text(std::span<const std::byte> begin, const std::string& where) {
  const std::string_view marked = marked_encoding(begin);
  require(marked.empty(), ErrorCode::kBadFormat, where,
          "is text in {0}; expected UTF-8: convert it with `iconv -f {0} -t UTF-8`", marked);
  const std::string_view unmarked = unmarked_encoding(begin);
  require(unmarked.empty(), ErrorCode::kBadFormat, where,
          "looks like text in {0} without a byte order mark; expected UTF-8: try `iconv -f {0} -t UTF-8`",
          unmarked);
}

std::string in_lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

std::string_view trimmed(std::string_view text, std::string_view blanks) {
  const size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace isochron
