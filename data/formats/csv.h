// CSV and gzipped CSV files of numbers and categories, as a whole table or row by row.
#pragma once

#include <filesystem>
#include <map>
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
  /// Texts that mean "no value", like an empty field, such as "NA" or "?".
  std::vector<std::string> missing_texts = {};
  bool allow_non_finite = false;  // accept the texts nan, inf, -inf
  /// The columns to read, in this order: by name or, without a header, by number from 0. Empty: all columns.
  /// Columns that aren't read may hold any text.
  std::vector<std::string> columns = {};
  /// Columns of text, by name or number as above: each field becomes the index of its text in the column's
  /// list. csv_categories() makes such a list.
  std::map<std::string, std::vector<std::string>> categories = {};
  /// Whether a text that isn't in its column's list becomes the number after the last index instead of an
  /// error.
  bool unknown_categories = false;
  /// The dtype of the tensors that read_csv and from_csv return: kF64 or kF32.
  DType dtype = DType::kF64;
  size_t max_row_bytes = size_t{1} << 20;
  size_t limit_bytes = size_t{1} << 32;  // refuse files larger than this, after decompression too
};

struct CsvTable {
  std::vector<std::string> names;  // one per selected column; empty without a header
  Tensor values;                   // (rows, columns), of CsvOptions::dtype
  std::string where;               // the file, for messages

  int64_t rows() const { return values.extent(0); }
  int64_t columns() const { return values.extent(1); }
  /// The index of the column called `name`. Throws kBadFormat listing the names.
  int64_t column(std::string_view name) const;
};

/// Reads a table of numbers; gzip is recognized by its first bytes. Fields may be quoted (RFC 4180), lines
/// may end in CRLF; spaces around fields and empty lines at the end are ignored. Throws kIo; kBadFormat with
/// line and column for a short or long row, text instead of a number, a text that isn't among a column's
/// categories, a missing value, an open quote, a row beyond max_row_bytes, no row at all, no such column,
/// damaged gzip, or NaN and infinities unless allowed; kInvalidArgument for a list of categories with a text
/// twice or of a column that isn't read, or another dtype; kOutOfMemory for a table beyond the memory budget
/// (data/element/pipeline_memory.h). There is no partial result.
CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options = {});

/// The distinct texts of a column of CSV files, without missing values. They are sorted by their bytes, so
/// that the list doesn't depend on the order of files or rows. `column` and `options` as in CsvOptions.
/// Throws like `read_csv`, and kOutOfMemory for texts beyond the memory budget.
std::vector<std::string> csv_categories(std::span<const std::filesystem::path> files,
                                        const std::string& column, const CsvOptions& options = {});

/// Reads a CSV file row by row, for files that don't fit in memory. After the longest row has been read,
/// reading allocates nothing.
class CsvReader {
 public:
  /// Reads as far as the first row, to learn how many columns there are. Throws like `read_csv`.
  explicit CsvReader(const std::filesystem::path& path, const CsvOptions& options = {});

  /// The names of the selected columns; empty without a header.
  const std::vector<std::string>& names() const { return names_; }
  /// The number of columns that a row returns.
  size_t columns() const { return selected_.size(); }

  /// Reads the next row's numbers into `row` (columns() of them); false at the end. Throws like `read_csv`,
  /// and kInvalidArgument for a row of another size; after an error only `seek` may be called.
  bool next(std::span<double> row);
  /// Reads the next row without converting its fields; `text` returns them. Otherwise like `next`.
  bool next_row();
  /// The line of the file, from 1, at which the row that was read last begins.
  int64_t line() const { return scanner_.line(); }
  /// The text of field `column` of the file, from 0, in the row that was read last. Throws kOutOfRange.
  std::string_view text(size_t column) const;
  /// The column of the file, from 0, by its name or number, as in CsvOptions. Throws kBadFormat listing them.
  size_t column(const std::string& name) const;

  /// Where the next row begins.
  CsvPosition position() const { return waiting_ ? first_row_ : scanner_.position(); }
  /// Goes to a position; compressed files are decompressed up to it. Throws like InputStream::seek.
  void seek(const CsvPosition& position);

 private:
  void read_header();
  void select_columns();
  void index_categories();
  double missing_value(size_t column, std::string_view expected) const;
  double number(size_t column) const;
  double category(size_t column) const;

  CsvOptions options_;
  InputStream stream_;
  CsvScanner scanner_;
  std::vector<std::string> names_;                                           // of the selected columns
  std::vector<std::string> file_names_;                                      // of all; empty without a header
  std::vector<size_t> selected_;                                             // columns of the file
  std::map<size_t, std::map<std::string, double, std::less<>>> categories_;  // by column of the file
  size_t file_columns_ = 0;
  CsvPosition first_row_;
  bool waiting_ = false;  // the scanner holds the first row, which `next` hasn't returned yet
};

}  // namespace isochron::data
