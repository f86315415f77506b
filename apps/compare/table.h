// A chapter's tables: what it measures beside its loops and judges nobody by, in one form for the console,
// the JSON and the page.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace isochron::apps {

struct Table {
  std::string title;
  std::vector<std::string> columns;            // the first names the row
  std::vector<std::vector<std::string>> rows;  // as many cells as columns
  std::string says;                            // one sentence on what is seen
};

/// For the console: title, aligned columns, the sentence. Ends with a newline.
std::string table_text(const Table& table);
/// {title, columns, rows, says}
nlohmann::json table_json(const Table& table);
/// A heading, a <table> and a paragraph.
std::string table_markup(const Table& table);

}  // namespace isochron::apps
