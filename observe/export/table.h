// A table that can be shown on the console and on a page.
#pragma once

#include <string>
#include <vector>

namespace isochron::observe {

/// Every row has one cell per column; the first cell names the row. Columns of numbers are right-aligned.
struct Table {
  std::string title = {};
  std::vector<std::string> columns = {};
  std::vector<std::vector<std::string>> rows = {};
  int own_row = -1;       // the row that the others are compared with; -1: none
  std::string says = {};  // one sentence that states what the table shows
};

/// For the console: title, aligned columns, the sentence. Ends with a newline.
std::string table_text(const Table& table);
/// A heading, a <table> and a paragraph.
std::string table_markup(const Table& table);

/// One line per row, with two spaces between columns. The first column and the last cell of each row are
/// left-aligned, the others right-aligned.
std::string aligned_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace isochron::observe
