// CSV and gzipped CSV files of numbers, as a whole table or row by row.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/core/tensor/tensor.h"
#include "isochron/data/formats/csv_scanner.h"

namespace isochron::data {

/// What an empty field means.
enum class MissingValue { kError, kNan };

struct CsvOptions {
  bool header = false;  // the first row names the columns
  char separator = ',';
  MissingValue missing = MissingValue::kError;
  bool allow_non_finite = false;  // accept the texts nan, inf, -inf
  /// The columns to give, in this order: by name, or without a header by number from 0. Empty: all. The
  /// others may hold any text.
  std::vector<std::string> columns = {};
  size_t max_row_bytes = size_t{1} << 20;
  size_t limit_bytes = size_t{1} << 32;  // refuse files larger than this, after decompression too
};

struct CsvTable {
  std::vector<std::string> names;  // one per selected column; empty without a header
  Tensor values;                   // f64 (rows, columns)
  std::string where;               // the file, for messages

  int64_t rows() const { return values.extent(0); }
  int64_t columns() const { return values.extent(1); }
  /// The index of the column called `name`. Throws kBadFormat listing the names.
  int64_t column(std::string_view name) const;
};

/// Reads a table of numbers; gzip is recognized by its first bytes. Fields may be quoted (RFC 4180), lines
/// may end in CRLF; spaces around a number and empty lines at the end are ignored. Throws kIo; kBadFormat
/// with line and column for a short or long row, text instead of a number, a missing value, an open quote, a
/// row beyond max_row_bytes, no row at all, no such column, damaged gzip, or NaN and infinities unless
/// allowed; kOutOfMemory for a table beyond the memory budget (data/element/pipeline_memory.h). There is no
/// partial result.
CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options = {});

/// Reads such files row by row, for files that don't fit in memory. After the longest row has been read,
/// reading allocates nothing.
class CsvReader {
 public:
  /// Reads as far as the first row, to learn how many columns there are. Throws as `read_csv`.
  explicit CsvReader(const std::filesystem::path& path, const CsvOptions& options = {});

  /// The names of the selected columns; empty without a header.
  const std::vector<std::string>& names() const { return names_; }
  /// The number of columns that a row returns.
  size_t columns() const { return selected_.size(); }

  /// Reads the next row's numbers into `row` (columns() of them); false at the end. Throws as `read_csv`, and
  /// kInvalidArgument for a row of another size; after an error only `seek` may be called.
  bool next(std::span<double> row);
  /// The line of the file, from 1, at which the row that `next` read begins.
  int64_t line() const { return scanner_.line(); }
  /// The text of field `column` of the file, from 0, in the row that `next` read. Throws kOutOfRange.
  std::string_view text(size_t column) const;

  /// Where the next row begins.
  CsvPosition position() const { return waiting_ ? first_row_ : scanner_.position(); }
  /// Goes to a position; compressed files are decompressed up to it. Throws as InputStream::seek.
  void seek(const CsvPosition& position);

 private:
  void read_header();
  void select_columns();
  double number(size_t column) const;

  CsvOptions options_;
  InputStream stream_;
  CsvScanner scanner_;
  std::vector<std::string> names_;
  std::vector<size_t> selected_;  // columns of the file
  size_t file_columns_ = 0;
  CsvPosition first_row_;
  bool waiting_ = false;  // the scanner holds the first row, which `next` hasn't returned yet
};

}  // namespace isochron::data
