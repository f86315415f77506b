// Text as files hold it: what is not in UTF-8 is recognized before it is mistaken for something else.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace isochron {

/// Throws kBadFormat for `where`, saying how to convert the text, if the text that begins with `begin` is in
/// UTF-16 or UTF-32, according to its byte order mark or the positions of its zero bytes.
void refuse_wide_text(std::span<const std::byte> begin, const std::string& where);

/// The byte order mark of UTF-8.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
/// `text` without its byte order mark, if it begins with one.
constexpr std::string_view without_byte_order_mark(std::string_view text) {
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
}

/// `text` with the letters A to Z as a to z.
std::string in_lower_case(std::string_view text);
/// `text` without the characters of `blanks` at either end.
std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r");

}  // namespace isochron
