// CSV and gzipped CSV files of numbers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "isochron/core/tensor.h"

namespace isochron::data {

/// What an empty field means.
enum class MissingValue { kError, kNan };

struct CsvOptions {
  bool header = false;  // the first row names the columns
  char separator = ',';
  MissingValue missing = MissingValue::kError;
  bool allow_non_finite = false;         // accept the texts nan, inf, -inf
  size_t limit_bytes = size_t{1} << 32;  // refuse files larger than this, after decompression too
};

struct CsvTable {
  std::vector<std::string> names;  // one a column; empty without a header
  Tensor values;                   // f64 (rows, columns)
  std::string where;               // the file, for messages

  int64_t rows() const { return values.extent(0); }
  int64_t columns() const { return values.extent(1); }
  /// Number of the column called `name`. Throws kBadFormat listing the names.
  int64_t column(std::string_view name) const;
};

/// Reads a table of numbers; gzip is recognised by its first bytes. Fields may be quoted (RFC 4180), lines
/// may end in CRLF, spaces around a number don't count, empty lines at the end are ignored. Throws kIo;
/// kBadFormat (line and column: a short or long row, text where a number belongs, a missing value, an open
/// quote, no row at all, damaged gzip, NaN and infinities unless allowed). Nothing is half
/// read.
CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options = {});

}  // namespace isochron::data
