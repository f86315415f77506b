// Text that isn't in UTF-8, told before it is taken for something else.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace isochron {

/// Throws kBadFormat for `where` if what begins with `begin` is in UTF-16 or UTF-32, by its byte order mark
/// or by where its zero bytes are, saying how to convert it.
void refuse_wide_text(std::span<const std::byte> begin, const std::string& where);

/// Of UTF-8.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
/// `text`, which may begin with it, without.
constexpr std::string_view without_byte_order_mark(std::string_view text) {
  return text.starts_with(kByteOrderMark) ? text.substr(kByteOrderMark.size()) : text;
}

}  // namespace isochron
