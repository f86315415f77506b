#include "isochron/data/csv.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "isochron/core/file.h"
#include "isochron/data/inflate.h"
#include "isochron/memory/buffer.h"

namespace isochron::data {
namespace {

/// Splits text into rows of fields, reusing its field strings.
class CsvScanner {
 public:
  CsvScanner(std::string_view text, char separator, const std::string& where)
      : text_(text), separator_(separator), where_(where) {
    if (text_.starts_with("\xef\xbb\xbf")) text_.remove_prefix(3);  // byte order mark
    while (!text_.empty() && (text_.back() == '\n' || text_.back() == '\r')) text_.remove_suffix(1);
  }

  /// Reads the next row; false at the end.
  bool next_row() {
    if (done_ || text_.empty()) return false;
    line_ = next_line_++;
    field_count_ = 0;
    for (bool row_ended = false; !row_ended;) {
      if (field_count_ == fields_.size()) fields_.emplace_back();
      row_ended = next_field(fields_[field_count_++]);
    }
    return true;
  }
  /// Line of the file, from 1, on which the present row begins.
  int64_t line() const { return line_; }
  std::span<const std::string> fields() const { return {fields_.data(), field_count_}; }

 private:
  /// True when the row ends with this field.
  bool next_field(std::string& field) {
    field.clear();
    if (at_ < text_.size() && text_[at_] == '"') take_quoted(field);
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == separator_) return false;
      if (c == '\n') {
        if (!field.empty() && field.back() == '\r') field.pop_back();
        return true;
      }
      field.push_back(c);
    }
    done_ = true;
    return true;
  }

  void take_quoted(std::string& field) {
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        ++at_;
        if (at_ >= text_.size() || text_[at_] != '"') return require_end_of_field();
      }
      if (text_[at_] == '\n') ++next_line_;
      field.push_back(text_[at_]);
    }
    fail(ErrorCode::kBadFormat, where_, "line {}: the quote that opens field {} never closes", line_,
         field_count_);
  }

  void require_end_of_field() const {
    const bool ends =
        at_ >= text_.size() || text_[at_] == separator_ || text_[at_] == '\n' || text_[at_] == '\r';
    require(ends, ErrorCode::kBadFormat, where_, "line {}: text follows the quote that closes field {}",
            line_, field_count_);
  }

  std::string_view text_;
  char separator_;
  const std::string& where_;
  size_t at_ = 0;
  bool done_ = false;
  int64_t line_ = 0, next_line_ = 1;
  std::vector<std::string> fields_;
  size_t field_count_ = 0;
};

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

struct FieldPlace {
  const std::string& where;
  int64_t line;
  size_t column;  // from 1
};

double parse_field(const std::string& field, const CsvOptions& options, const FieldPlace& place) {
  constexpr size_t kShown = 40;
  std::string_view text = trimmed(field);
  if (text.empty()) {
    require(options.missing == MissingValue::kNan, ErrorCode::kBadFormat, place.where,
            "line {}, column {}: no value; fill it in or read with MissingValue::kNan", place.line,
            place.column);
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc::result_out_of_range) value = std::strtod(field.c_str(), nullptr);  // 0 or infinity
  if (status == std::errc::invalid_argument || stop != text.data() + text.size()) {
    fail(ErrorCode::kBadFormat, place.where, "line {}, column {}: expected a number, got '{}'{}", place.line,
         place.column, text.substr(0, kShown), place.line == 1 ? "; is the first row a header?" : "");
  }
  if (!std::isfinite(value) && !options.allow_non_finite) {
    fail(ErrorCode::kBadFormat, place.where,
         "line {}, column {}: expected a finite number, got '{}' (CsvOptions::allow_non_finite accepts it)",
         place.line, place.column, text.substr(0, kShown));
  }
  return value;
}

std::vector<std::byte> read_text(const std::filesystem::path& path, size_t limit_bytes) {
  std::vector<std::byte> bytes = read_file(path, limit_bytes);
  return is_gzip(bytes) ? gunzip(bytes, limit_bytes, path.string()) : bytes;
}

}  // namespace

int64_t CsvTable::column(std::string_view name) const {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<int64_t>(i);
  }
  fail(ErrorCode::kBadFormat, where, "no column '{}'; the columns are: {}", name, fmt::join(names, ", "));
}

CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options) {
  const std::string where = path.string();
  const std::vector<std::byte> bytes = read_text(path, options.limit_bytes);
  CsvScanner scanner({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, options.separator, where);
  CsvTable table;
  table.where = where;
  size_t columns = 0;
  if (options.header && scanner.next_row()) {
    table.names.assign(scanner.fields().begin(), scanner.fields().end());
    columns = table.names.size();
    for (auto name = table.names.begin(); name != table.names.end(); ++name) {
      require(std::find(table.names.begin(), name, *name) == name, ErrorCode::kBadFormat, where,
              "two columns are called '{}'", *name);
    }
  }
  std::vector<double> values;
  int64_t rows = 0;
  while (scanner.next_row()) {
    const auto fields = scanner.fields();
    if (columns == 0) columns = fields.size();
    require(fields.size() == columns, ErrorCode::kBadFormat, where, "line {}: expected {} columns, got {}",
            scanner.line(), columns, fields.size());
    for (size_t i = 0; i < columns; ++i) {
      values.push_back(parse_field(fields[i], options, {where, scanner.line(), i + 1}));
    }
    ++rows;
  }
  require(rows > 0, ErrorCode::kBadFormat, where, "has no row of data");
  table.values = empty({DType::kF64, {rows, static_cast<int64_t>(columns)}}, "csv");
  std::memcpy(table.values.raw(), values.data(), table.values.size_bytes());
  return table;
}

}  // namespace isochron::data
