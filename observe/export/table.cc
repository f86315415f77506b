#include "isochron/observe/export/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "isochron/observe/export/plot.h"

namespace isochron::observe {
namespace {

/// Whether a cell begins like a number. Columns of such cells are right-aligned.
bool is_number(const std::string& cell) {
  return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell.front())) || cell.front() == '-' ||
                           cell.front() == '+');
}

/// Whether a column holds numbers.
std::vector<bool> flush_right(const Table& table) {
  std::vector<bool> right(table.columns.size(), !table.rows.empty());
  for (const std::vector<std::string>& row : table.rows) {
    for (size_t c = 0; c < right.size(); ++c) right[c] = right[c] && is_number(row.at(c));
  }
  if (!right.empty()) right[0] = false;
  return right;
}

}  // namespace

std::string table_text(const Table& table) {
  const std::vector<bool> right = flush_right(table);
  std::vector<size_t> widths;
  for (const std::string& column : table.columns) widths.push_back(column.size());
  for (const std::vector<std::string>& row : table.rows) {
    for (size_t c = 0; c < widths.size(); ++c) widths[c] = std::max(widths[c], row.at(c).size());
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text = " ";
    for (size_t c = 0; c < widths.size(); ++c) {
      text += fmt::format(
          "{}{}", c == 0 ? " " : "  ",
          right[c] ? fmt::format("{:>{}}", cells[c], widths[c]) : fmt::format("{:<{}}", cells[c], widths[c]));
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string text = table.title.empty() ? "" : fmt::format("  {}\n", table.title);
  text += line(table.columns);
  for (const std::vector<std::string>& row : table.rows) text += line(row);
  return text + (table.says.empty() ? "" : fmt::format("  {}\n", table.says));
}

std::string table_markup(const Table& table) {
  const std::vector<bool> right = flush_right(table);
  const auto line = [&](const std::vector<std::string>& cells, const char* tag) {
    std::string text;
    for (size_t c = 0; c < cells.size(); ++c) {
      text += fmt::format("<{0}{1}>{2}</{0}>", tag, right[c] || c == 0 ? "" : " class=\"prose\"",
                          escape_markup(cells[c]));
    }
    return text + "</tr>\n";
  };
  std::string text = table.title.empty() ? "" : fmt::format("<h3>{}</h3>\n", escape_markup(table.title));
  text += "<div class=\"scroll\"><table>\n<tr>" + line(table.columns, "th");
  for (size_t r = 0; r < table.rows.size(); ++r) {
    text += static_cast<int>(r) == table.own_row ? "<tr class=\"own\">" : "<tr>";
    text += line(table.rows[r], "td");
  }
  text += "</table></div>\n";
  return text + (table.says.empty() ? "" : fmt::format("<p>{}</p>\n", escape_markup(table.says)));
}

std::string aligned_text(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const bool left = c == 0 || c + 1 == row.size();
      const std::string padding(widths[c] - row[c].size(), ' ');
      line += (c == 0 ? "" : "  ") + (left ? row[c] + padding : padding + row[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace isochron::observe
