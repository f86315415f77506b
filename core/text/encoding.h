// Text that isn't in UTF-8, told before it is taken for something else.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace isochron {

/// Throws kBadFormat for `where` if what begins with `begin` is in UTF-16 or UTF-32, by its byte order mark
/// or by where its zero bytes are, saying how to convert it.
void refuse_wide_text(std::span<const std::byte> begin, const std::string& where);

}  // namespace isochron
