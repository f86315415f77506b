// Tables, in one form for the console and the page.
#pragma once

#include <string>
#include <vector>

namespace isochron::observe {

/// A row has as many cells as there are columns; the first column names the row. A column of numbers stands
/// flush right.
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

/// A line a row, two blanks between columns; the first column and each row's last flush left, the others
/// right.
std::string aligned_text(const std::vector<std::vector<std::string>>& rows);

}  // namespace isochron::observe
