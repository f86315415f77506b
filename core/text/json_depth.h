#pragma once

#include <string_view>

namespace isochron {

/// How deep lists and objects may be nested in a JSON file that is read.
inline constexpr int kDeepestJson = 64;

/// Whether the text nests lists and objects deeper than kDeepestJson. Libraries copy and print documents
/// recursively, so a few bytes per level would use up the stack.
bool json_too_deep(std::string_view text);

}  // namespace isochron
