// Reads what a program wrote to a log or terminal, update by update.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "isochron/core/files/input_stream.h"

namespace isochron::apps {

/// Splits text at newlines, carriage returns and backspaces, where a terminal would return to the start of
/// the line or move back. So each update of a progress bar is returned separately, even if it rewrites its
/// line.
class LogReader {
 public:
  static constexpr size_t kMaxBytes = size_t{1} << 20;  // per update

  /// `stream` must outlive the reader.
  explicit LogReader(InputStream& stream) : stream_(stream) {}

  /// Reads the next update that isn't blank into `update`, reusing its memory. Terminal control sequences
  /// (colors, moves of the cursor, titles) are left out. False at the end. Throws kBadFormat with the line
  /// for an update of more than kMaxBytes, and whatever InputStream throws.
  bool next(std::string& update);
  /// The line of the file, from 1, that contains the present update.
  int64_t line() const { return line_; }
  /// The number of lines in the file, once all of it has been read.
  int64_t lines() const { return next_line_ - 1 + unfinished_; }
  /// Whether the latest update is the end of the file without a newline, so that it may be cut off.
  bool unfinished() const { return unfinished_; }

 private:
  bool take_piece(std::string& piece);

  InputStream& stream_;
  int64_t line_ = 1, next_line_ = 1;
  bool unfinished_ = false;  // the file has text after its last newline
};

/// Removes a terminal's escape sequences (ECMA-48) from a text. An unterminated one extends to the end.
void remove_escapes(std::string& text);

}  // namespace isochron::apps
