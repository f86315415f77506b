#include "isochron/data/formats/csv.h"

#include <fmt/ranges.h>
#include <locale.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>

#include "isochron/core/base/error.h"
#include "isochron/data/element/pipeline_memory.h"
#include "isochron/memory/allocators/buffer.h"

namespace isochron::data {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

constexpr size_t kBlockBytes = size_t{1} << 18;  // of a table that is being read

/// The beginning of a field, escaped for a terminal.
std::string shown(std::string_view text) {
  constexpr size_t kMost = 40;
  std::string result(text.substr(0, kMost));
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return result;
}

size_t place_of(std::string_view name, const std::vector<std::string>& names, const std::string& where) {
  const auto found = std::ranges::find(names, name);
  require(found != names.end(), ErrorCode::kBadFormat, where, "no column '{}'; the columns are: {}", name,
          fmt::join(names, ", "));
  return static_cast<size_t>(found - names.begin());
}

}  // namespace

int64_t CsvTable::column(std::string_view name) const {
  return static_cast<int64_t>(place_of(name, names, where));
}

CsvReader::CsvReader(const std::filesystem::path& path, const CsvOptions& options)
    : options_(options),
      stream_(path, {.limit_bytes = options.limit_bytes}),
      scanner_(stream_, options.separator, options.max_row_bytes) {
  if (options_.header && scanner_.next_row()) read_header();
  first_row_ = scanner_.position();
  waiting_ = scanner_.next_row();
  require(waiting_, ErrorCode::kBadFormat, stream_.where(), "has no rows of data");
  if (file_columns_ == 0) file_columns_ = scanner_.fields();
  select_columns();
}

void CsvReader::read_header() {
  file_columns_ = scanner_.fields();
  for (size_t i = 0; i < file_columns_; ++i) names_.emplace_back(scanner_.field(i));
  std::vector<std::string> sorted = names_;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  require(twice == sorted.end(), ErrorCode::kBadFormat, stream_.where(), "two columns are called '{}'",
          twice == sorted.end() ? "" : *twice);
}

void CsvReader::select_columns() {
  for (const std::string& wanted : options_.columns) {
    if (options_.header) {
      selected_.push_back(place_of(wanted, names_, stream_.where()));
      continue;
    }
    size_t column = 0;
    const auto [stop, status] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), column);
    require(status == std::errc() && stop == wanted.data() + wanted.size() && column < file_columns_,
            ErrorCode::kBadFormat, stream_.where(), "no column '{}'; without a header they are 0 to {}",
            wanted, file_columns_ - 1);
    selected_.push_back(column);
  }
  if (options_.columns.empty()) {
    selected_.resize(file_columns_);
    std::iota(selected_.begin(), selected_.end(), size_t{0});
  } else if (options_.header) {
    names_ = options_.columns;
  }
}

bool CsvReader::next(std::span<double> row) {
  require(row.size() == columns(), ErrorCode::kInvalidArgument, stream_.where(),
          "rows have {} numbers, but there is room for {}", columns(), row.size());
  if (!waiting_ && !scanner_.next_row()) return false;
  waiting_ = false;
  require(scanner_.fields() == file_columns_, ErrorCode::kBadFormat, stream_.where(),
          "line {}: expected {} columns, got {}", scanner_.line(), file_columns_, scanner_.fields());
  for (size_t i = 0; i < row.size(); ++i) row[i] = number(selected_[i]);
  return true;
}

namespace {

/// Converts a number that is too large or too small for f64: to infinity or 0. Uses the C locale, whatever
/// the program's locale is.
double beyond_range(std::string_view text) {
  static const locale_t plain = ::newlocale(LC_ALL_MASK, "C", nullptr);
  return ::strtod_l(std::string(text).c_str(), nullptr, plain);
}

}  // namespace

double CsvReader::number(size_t column) const {
  const std::string& where = stream_.where();
  const int64_t line = scanner_.line();
  std::string_view text = trimmed(scanner_.field(column));
  if (text.empty()) {
    require(options_.missing == MissingValue::kNan, ErrorCode::kBadFormat, where,
            "line {}, column {}: no value, expected a number", line, column + 1);
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc::result_out_of_range) value = beyond_range(text);
  if (status == std::errc::invalid_argument || stop != text.data() + text.size()) {
    fail(ErrorCode::kBadFormat, where, "line {}, column {}: expected a number, got '{}'{}", line, column + 1,
         shown(text), line == 1 ? "; is the first row a header?" : "");
  }
  if (!std::isfinite(value) && !options_.allow_non_finite) {
    fail(ErrorCode::kBadFormat, where, "line {}, column {}: expected a finite number, got '{}'", line,
         column + 1, shown(text));
  }
  return value;
}

std::string_view CsvReader::text(size_t column) const {
  require(column < scanner_.fields(), ErrorCode::kOutOfRange, stream_.where(),
          "no column {}; the row on line {} has {}", column, scanner_.line(), scanner_.fields());
  return scanner_.field(column);
}

void CsvReader::seek(const CsvPosition& position) {
  scanner_.seek(position);
  waiting_ = false;
}

CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options) {
  CsvReader reader(path, options);
  CsvTable table;
  table.where = path.string();
  table.names = reader.names();
  const size_t columns = reader.columns(), row_bytes = columns * sizeof(double);
  const size_t block_rows = std::max<size_t>(kBlockBytes / row_bytes, 1);
  ReadMemory memory(table.where, "data::CsvReader, which reads row by row");
  std::vector<std::unique_ptr<double[]>> blocks;
  size_t rows = 0;
  for (;; ++rows) {
    if (rows % block_rows == 0) {
      memory.add(block_rows * row_bytes);
      blocks.push_back(std::make_unique_for_overwrite<double[]>(block_rows * columns));
    }
    if (!reader.next({blocks.back().get() + rows % block_rows * columns, columns})) break;
  }
  table.values = empty({DType::kF64, {static_cast<int64_t>(rows), static_cast<int64_t>(columns)}}, "csv");
  std::byte* to = table.values.raw();
  for (size_t copied = 0, at = 0; copied < rows;
       ++at) {  // block by block, so that no content is in memory twice
    const size_t count = std::min(block_rows, rows - copied);
    std::memcpy(to, blocks[at].get(), count * row_bytes);
    blocks[at].reset();
    to += count * row_bytes;
    copied += count;
  }
  return table;
}

}  // namespace isochron::data
