#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace isochron {

/// "1 row", "2 rows".
template <typename N>
std::string count_text(N count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

}  // namespace isochron
