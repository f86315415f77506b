// Lines of text files, plain or gzipped, from front to back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "isochron/core/files/input_stream.h"

namespace isochron::data {

struct TextLineOptions {
  Compression compression = Compression::kAuto;
  size_t max_line_bytes = size_t{1} << 20;
};

class TextLineReader {
 public:
  /// The position of the next line, from which another process can continue.
  struct Position {
    uint64_t offset = 0;  // in the decompressed content
    int64_t lines = 0;    // before it
  };

  /// Throws kIo.
  explicit TextLineReader(const std::filesystem::path& path, const TextLineOptions& options = {});

  /// Reads the next line into `line`, reusing its memory, without the line ending: a newline, or a carriage
  /// return and a newline. The last line needs no ending. False at the end. Throws kBadFormat with line and
  /// offset for a line of more than `max_line_bytes`, and any error of InputStream.
  bool next(std::string& line);

  Position position() const { return {stream_.position(), lines_}; }
  /// Goes to a position; compressed files are decompressed up to it. Throws like InputStream::seek.
  void seek(const Position& position);

 private:
  InputStream stream_;
  size_t max_line_bytes_;
  int64_t lines_ = 0;
};

}  // namespace isochron::data
