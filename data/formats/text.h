// Text as tokens for language models: every byte value that occurs is a token.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron::data {

struct TextOptions {
  /// The extensions of files to read from folders, e.g. ".md"; empty: all. A file named directly may have
  /// any extension.
  std::vector<std::string> extensions = {};
  /// The share of each file, at its end, used for validation, so that both parts contain all kinds of text.
  double validation_share = 0.1;
  size_t limit_bytes = size_t{1} << 30;  // of all files together
};

struct Text {
  std::string vocabulary;  // the bytes that occur, ascending; a token is an index into it
  Tensor train;            // u8 (N), tokens
  Tensor validation;       // u8 (M)
  int64_t files = 0;

  /// Throws kOutOfRange for a byte outside the vocabulary.
  std::vector<int64_t> encode(std::string_view text) const;
  /// Throws kOutOfRange for a token outside the vocabulary.
  std::string decode(std::span<const int64_t> tokens) const;
};

/// Reads the given files and all files below the given folders, in the order of their paths. In folders,
/// hidden files and folders, links, and files with a NUL byte (which aren't text) are skipped. Sizes are
/// added up before anything is read. Throws kInvalidArgument for a share outside [0, 1); kIo for a path that
/// can't be read; kBadFormat for a directly named file with a NUL byte (with its offset), no text at all, or
/// more than `limit_bytes`; kOutOfMemory beyond the memory budget (data/element/pipeline_memory.h).
Text read_text(std::span<const std::filesystem::path> places, const TextOptions& options = {});

/// `count` places where a window of `length` tokens may begin, drawn with a seed (several may be equal):
/// i64 (count). Throws kInvalidArgument: sizes below 1, `tokens` shorter than `length`.
Tensor random_starts(const Tensor& tokens, int64_t length, int64_t count, uint64_t seed);
/// At most `count` such places at even distances, at least `length` apart if possible. The result is always
/// the same.
Tensor even_starts(const Tensor& tokens, int64_t length, int64_t count);

}  // namespace isochron::data
