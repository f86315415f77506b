#include "isochron/apps/compare/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "isochron/observe/plot.h"

namespace isochron::apps {
namespace {

/// A cell that begins as a number does stands flush right, with those above and below it.
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
  std::string text = fmt::format("  {}\n{}", table.title, line(table.columns));
  for (const std::vector<std::string>& row : table.rows) text += line(row);
  return text + fmt::format("  {}\n", table.says);
}

nlohmann::json table_json(const Table& table) {
  return {{"title", table.title}, {"columns", table.columns}, {"rows", table.rows}, {"says", table.says}};
}

std::string table_markup(const Table& table) {
  using observe::escape_markup;
  const std::vector<bool> right = flush_right(table);
  const auto line = [&](const std::vector<std::string>& cells, const char* tag) {
    std::string text = "<tr>";
    for (size_t c = 0; c < cells.size(); ++c) {
      text += fmt::format("<{0}{1}>{2}</{0}>", tag, right[c] || c == 0 ? "" : " class=\"prose\"",
                          escape_markup(cells[c]));
    }
    return text + "</tr>\n";
  };
  std::string text = fmt::format("<h3>{}</h3>\n<div class=\"scroll\"><table>\n{}", escape_markup(table.title),
                                 line(table.columns, "th"));
  for (const std::vector<std::string>& row : table.rows) text += line(row, "td");
  return text + fmt::format("</table></div>\n<p>{}</p>\n", escape_markup(table.says));
}

}  // namespace isochron::apps
