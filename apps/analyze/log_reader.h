// What a program wrote to a log or terminal, update by update.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "isochron/core/files/input_stream.h"

namespace isochron::apps {

/// Splits text where a terminal would begin to write from the left again or backwards: at newlines, carriage
/// returns and backspaces. So each text of a progress bar that rewrites its line comes by itself.
class LogReader {
 public:
  static constexpr size_t kMostBytes = size_t{1} << 20;  // of an update

  /// `stream` must outlive the reader.
  explicit LogReader(InputStream& stream) : stream_(stream) {}

  /// Reads the next update that isn't blank into `update`, whose memory is used again, without what a
  /// terminal acts on (colors, moves of the cursor, titles). False at the end. Throws kBadFormat with the
  /// line for one of more than kMostBytes, and what InputStream throws.
  bool next(std::string& update);
  /// Of the file, from 1, that the present update is in.
  int64_t line() const { return line_; }
  /// How many the file has, once all is read.
  int64_t lines() const { return next_line_ - 1 + unfinished_; }

 private:
  bool take_piece(std::string& piece);

  InputStream& stream_;
  int64_t line_ = 1, next_line_ = 1;
  bool unfinished_ = false;  // something stands behind the last newline
};

/// Takes a terminal's escape sequences (ECMA-48) out of a text; one that doesn't end goes as far as the text.
void remove_escapes(std::string& text);

}  // namespace isochron::apps
