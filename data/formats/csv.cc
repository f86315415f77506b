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
#include <set>

#include "isochron/core/base/error.h"
#include "isochron/core/text/encoding.h"
#include "isochron/core/text/terminal_text.h"
#include "isochron/data/element/pipeline_memory.h"
#include "isochron/memory/allocators/buffer.h"

namespace isochron::data {
namespace {

constexpr std::string_view kBlanks = " \t";
constexpr size_t kShown = 40;                    // maximum bytes of a quotation in a message
constexpr size_t kBlockBytes = size_t{1} << 18;  // of a table that is being read

bool is_missing(std::string_view text, const CsvOptions& options) {
  return text.empty() || std::ranges::find(options.missing_texts, text) != options.missing_texts.end();
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
  require(options_.dtype == DType::kF64 || options_.dtype == DType::kF32, ErrorCode::kInvalidArgument,
          stream_.where(), "CSV files are read as f64 or f32, not as {}", dtype_name(options_.dtype));
  if (options_.header && scanner_.next_row()) read_header();
  first_row_ = scanner_.position();
  waiting_ = scanner_.next_row();
  require(waiting_, ErrorCode::kBadFormat, stream_.where(), "has no rows of data");
  if (file_columns_ == 0) file_columns_ = scanner_.fields();
  select_columns();
  index_categories();
}

void CsvReader::read_header() {
  file_columns_ = scanner_.fields();
  for (size_t i = 0; i < file_columns_; ++i) file_names_.emplace_back(trimmed(scanner_.field(i), kBlanks));
  std::vector<std::string> sorted = file_names_;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(sorted);
  require(twice == sorted.end(), ErrorCode::kBadFormat, stream_.where(), "two columns are called '{}'",
          twice == sorted.end() ? "" : *twice);
}

size_t CsvReader::column(const std::string& name) const {
  if (options_.header) return place_of(name, file_names_, stream_.where());
  size_t column = 0;
  const auto [stop, status] = std::from_chars(name.data(), name.data() + name.size(), column);
  require(status == std::errc() && stop == name.data() + name.size() && column < file_columns_,
          ErrorCode::kBadFormat, stream_.where(), "no column '{}'; without a header they are 0 to {}", name,
          file_columns_ - 1);
  return column;
}

void CsvReader::select_columns() {
  for (const std::string& wanted : options_.columns) selected_.push_back(column(wanted));
  if (options_.columns.empty()) {
    selected_.resize(file_columns_);
    std::iota(selected_.begin(), selected_.end(), size_t{0});
  }
  if (options_.header) names_ = options_.columns.empty() ? file_names_ : options_.columns;
}

void CsvReader::index_categories() {
  for (const auto& [name, texts] : options_.categories) {
    const size_t its_column = column(name);
    require(std::ranges::find(selected_, its_column) != selected_.end(), ErrorCode::kInvalidArgument,
            stream_.where(), "categories are given for column '{}', which isn't among those to read", name);
    auto& places = categories_[its_column];
    for (const std::string& text : texts) {
      require(places.try_emplace(text, static_cast<double>(places.size())).second,
              ErrorCode::kInvalidArgument, stream_.where(), "column '{}' has the category '{}' twice", name,
              quotation(text, kShown));
    }
  }
}

bool CsvReader::next_row() {
  if (!waiting_ && !scanner_.next_row()) return false;
  waiting_ = false;
  require(scanner_.fields() == file_columns_, ErrorCode::kBadFormat, stream_.where(),
          "line {}: expected {} columns, got {}", scanner_.line(), file_columns_, scanner_.fields());
  return true;
}

bool CsvReader::next(std::span<double> row) {
  require(row.size() == columns(), ErrorCode::kInvalidArgument, stream_.where(),
          "rows have {} numbers, but there is room for {}", columns(), row.size());
  if (!next_row()) return false;
  for (size_t i = 0; i < row.size(); ++i) {
    row[i] = categories_.contains(selected_[i]) ? category(selected_[i]) : number(selected_[i]);
  }
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

double CsvReader::category(size_t column) const {
  const std::string_view text = trimmed(scanner_.field(column), kBlanks);
  const auto& places = categories_.at(column);
  if (const auto found = places.find(text); found != places.end()) return found->second;
  if (is_missing(text, options_)) return missing_value(column, "a category");
  if (options_.unknown_categories) return static_cast<double>(places.size());
  std::vector<std::string> some;
  for (const auto& [known, place] : places) {
    if (some.size() < 5) some.push_back("'" + quotation(known, kShown) + "'");
  }
  fail(ErrorCode::kBadFormat, stream_.where(),
       "line {}, column {}: '{}' is none of the {} categories of this column: {}{}; unknown_categories gives "
       "such "
       "texts a number of their own",
       scanner_.line(), column + 1, quotation(text, kShown), places.size(), fmt::join(some, ", "),
       places.size() > some.size() ? ", ..." : "");
}

double CsvReader::missing_value(size_t column, std::string_view expected) const {
  require(options_.missing == MissingValue::kNan, ErrorCode::kBadFormat, stream_.where(),
          "line {}, column {}: no value, expected {}", scanner_.line(), column + 1, expected);
  return std::numeric_limits<double>::quiet_NaN();
}

double CsvReader::number(size_t column) const {
  const std::string& where = stream_.where();
  const int64_t line = scanner_.line();
  std::string_view text = trimmed(scanner_.field(column), kBlanks);
  if (is_missing(text, options_)) return missing_value(column, "a number");
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc::result_out_of_range) value = beyond_range(text);
  if (status == std::errc::invalid_argument || stop != text.data() + text.size()) {
    fail(ErrorCode::kBadFormat, where, "line {}, column {}: expected a number, got '{}'{}", line, column + 1,
         quotation(text, kShown),
         line == 1 ? "; is the first row a header?"
                   : "; CsvOptions takes columns of text as categories, and texts for missing values");
  }
  const bool finite = std::isfinite(options_.dtype == DType::kF32 ? static_cast<float>(value) : value);
  if (!finite && !options_.allow_non_finite) {
    fail(ErrorCode::kBadFormat, where, "line {}, column {}: expected a finite number, got '{}'", line,
         column + 1, quotation(text, kShown));
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

std::vector<std::string> csv_categories(std::span<const std::filesystem::path> files,
                                        const std::string& column, const CsvOptions& options) {
  require(!files.empty(), ErrorCode::kInvalidArgument, "csv_categories", "the list of files is empty");
  CsvOptions plain = options;
  plain.categories.clear();
  std::set<std::string, std::less<>> texts;
  ReadMemory memory("csv_categories", "categories of your own");
  for (const std::filesystem::path& file : files) {
    CsvReader reader(file, plain);
    for (const size_t its_column = reader.column(column); reader.next_row();) {
      const std::string_view text = trimmed(reader.text(its_column), kBlanks);
      if (is_missing(text, options) || texts.contains(text)) continue;
      memory.add(sizeof(std::string) + text.size() + 3 * kHeapBlockBytes);
      texts.emplace(text);
    }
  }
  return {texts.begin(), texts.end()};
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
  table.values = empty({options.dtype, {static_cast<int64_t>(rows), static_cast<int64_t>(columns)}}, "csv");
  std::byte* to = table.values.raw();
  for (size_t copied = 0, at = 0; copied < rows;
       ++at) {  // block by block, so that no content is in memory twice
    const size_t count = std::min(block_rows, rows - copied);
    const std::span numbers(blocks[at].get(), count * columns);
    if (options.dtype == DType::kF64) {
      std::memcpy(to, numbers.data(), numbers.size_bytes());
    } else {
      std::ranges::transform(numbers, reinterpret_cast<float*>(to),
                             [](double x) { return static_cast<float>(x); });
    }
    blocks[at].reset();
    to += numbers.size() * dtype_size(options.dtype);
    copied += count;
  }
  return table;
}

}  // namespace isochron::data
