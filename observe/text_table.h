// Rows of text in columns, for the console.
#pragma once

#include <string>
#include <vector>

namespace isochron::observe {

/// A line a row, two blanks between columns; the first column and each row's last flush left, the others
/// right.
std::string aligned_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace isochron::observe
