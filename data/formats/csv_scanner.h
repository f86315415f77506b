// CsvScanner: splits a stream of text into rows of fields (RFC 4180). csv.h uses it and interprets the
// fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/core/files/input_stream.h"

namespace isochron::data {

/// The position of the next row of a CSV file, from which another process can continue.
struct CsvPosition {
  uint64_t offset = 0;     // in the decompressed content
  int64_t line = 1;        // of the next row
  int64_t blank_rows = 0;  // empty lines before `offset` that are still to be returned as rows
};

class CsvScanner {
 public:
  /// `stream` must outlive the scanner. Rows of more than `max_row_bytes` are refused.
  CsvScanner(InputStream& stream, char separator, size_t max_row_bytes)
      : stream_(stream), separator_(separator), max_row_bytes_(max_row_bytes) {}

  /// Reads the next row; false at the end. Empty lines are rows of one empty field, but are ignored at the
  /// end of the file. Throws kBadFormat, with the line, for an open quote, text after a closing quote or a
  /// row that is too long; and what InputStream throws.
  bool next_row();
  /// Line of the file, from 1, on which the present row begins.
  int64_t line() const { return line_; }
  size_t fields() const { return ends_.size(); }
  /// Whether the present row ends with the file, without a newline.
  bool ends_without_newline() const { return ends_without_newline_; }
  /// Valid until the next row is read.
  std::string_view field(size_t index) const {
    const size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(row_).substr(begin, ends_[index] - begin);
  }

  CsvPosition position() const;
  void seek(const CsvPosition& position);

 private:
  bool find_row();
  bool next_field();
  void take_quoted();
  void require_end_of_field();
  void append(std::string_view text);
  int peek_char();

  InputStream& stream_;
  const char separator_;
  const size_t max_row_bytes_;
  std::string row_;           // its fields, one after another
  std::vector<size_t> ends_;  // of the fields in row_
  int64_t line_ = 0, next_line_ = 1;
  bool ends_without_newline_ = false;

  bool found_ = false;       // the next row has been found, at row_offset_
  uint64_t row_offset_ = 0;  // of its first byte
  size_t returns_ = 0;       // carriage returns at its beginning, already consumed
  int64_t blank_rows_ = 0;   // to be returned before it
};

}  // namespace isochron::data
