// Text as tokens for language models: every byte that occurs is one.
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
  /// Of the files taken from folders, e.g. ".md"; empty: all. A file that is named itself may have any.
  std::vector<std::string> extensions = {};
  /// Of each file, its end, so that both parts have all kinds of text.
  double validation_share = 0.1;
  size_t limit_bytes = size_t{1} << 30;  // of all files together
};

struct Text {
  std::string vocabulary;  // the bytes that occur, ascending; a token is a place in it
  Tensor train;            // u8 (N), tokens
  Tensor validation;       // u8 (M)
  int64_t files = 0;

  /// Throws kOutOfRange for a byte outside the vocabulary.
  std::vector<int64_t> encode(std::string_view text) const;
  /// Throws kOutOfRange for a token outside the vocabulary.
  std::string decode(std::span<const int64_t> tokens) const;
};

/// Reads files and, below folders, all files in the order of their paths; hidden files and folders, links,
/// and files with a NUL byte, which are no text, are left out there. Sizes are added up before anything is
/// read. Throws kInvalidArgument for a share outside [0, 1); kIo for a place that can't be read; kBadFormat:
/// a named file with a NUL byte (with its offset), no text at all, more than `limit_bytes`.
Text read_text(std::span<const std::filesystem::path> places, const TextOptions& options = {});

/// `count` places where a window of `length` tokens may begin, drawn with a seed (several may be equal):
/// i64 (count). Throws kInvalidArgument: sizes below 1, `tokens` shorter than `length`.
Tensor random_starts(const Tensor& tokens, int64_t length, int64_t count, uint64_t seed);
/// At most `count` of them, at even distances of at least `length` where there is room: the same every time.
Tensor even_starts(const Tensor& tokens, int64_t length, int64_t count);

}  // namespace isochron::data
