// Tokens from binary files that contain only little-endian integers, one after another, as tokenizers write
// them. Windows are read one by one, so the file may be larger than memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "isochron/core/files/file.h"
#include "isochron/core/tensor/shape.h"

namespace isochron::data {

enum class TokenType { kU8, kU16, kI32, kI64 };

struct TokenFileOptions {
  TokenType type = TokenType::kU16;
  int64_t window = 1;         // tokens per row
  int64_t stride = 1;         // from the start of one row to that of the next; >= window: rows don't overlap
  int64_t vocabulary = 0;     // tokens lie in [0, vocabulary); 0: not checked
  uint64_t header_bytes = 0;  // skipped at the file's start
};

/// Rows are windows of tokens. Reading is safe from several threads and allocates nothing.
class TokenFile {
 public:
  /// Throws kIo; kInvalidArgument unless window and stride are >= 1; kBadFormat for a size that is not a
  /// whole number of tokens, or fewer tokens than one window.
  TokenFile(const std::filesystem::path& path, const TokenFileOptions& options);

  int64_t tokens() const { return tokens_; }
  int64_t rows() const { return (tokens_ - options_.window) / options_.stride + 1; }
  /// Shape (window); u8 for tokens of type kU8, i32 for kU16 and kI32, i64 for kI64.
  TensorSpec row_spec() const;
  /// Writes row `row`, which begins at token row * stride. Throws kOutOfRange; kInvalidArgument unless `into`
  /// has the bytes of row_spec(); kBadFormat with the offset of a token outside the vocabulary; kIo when the
  /// file has shrunk.
  void read(int64_t row, std::span<std::byte> into) const;
  /// The same for a window of any length that begins at token `start`. `into` is as long as the window, in
  /// elements of row_spec()'s dtype.
  void read_window(int64_t start, std::span<std::byte> into) const;

 private:
  InputFile file_;
  TokenFileOptions options_;
  int64_t tokens_ = 0;
};

}  // namespace isochron::data
