#include "isochron/data/formats/token_file.h"

#include <bit>
#include <cstring>

#include "isochron/core/base/error.h"

namespace isochron::data {
namespace {

static_assert(std::endian::native == std::endian::little, "the numbers are little endian");

size_t stored_bytes(TokenType type) {
  constexpr size_t kBytes[] = {1, 2, 4, 8};
  return kBytes[static_cast<int>(type)];
}

DType dtype_of_tokens(TokenType type) {
  constexpr DType kDtypes[] = {DType::kU8, DType::kI32, DType::kI32, DType::kI64};
  return kDtypes[static_cast<int>(type)];
}

/// Copies `count` tokens, which need not be aligned; returns the place of the first one outside of [0,
/// vocabulary), or -1.
template <typename From, typename To>
int64_t copy_tokens(const std::byte* from, std::byte* to, int64_t count, int64_t vocabulary) {
  for (int64_t i = 0; i < count; ++i) {
    From token;
    std::memcpy(&token, from + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    const bool inside =
        vocabulary == 0 || (static_cast<int64_t>(token) >= 0 && static_cast<int64_t>(token) < vocabulary);
    if (!inside) return i;
    const auto value = static_cast<To>(token);
    std::memcpy(to + i * static_cast<int64_t>(sizeof(To)), &value, sizeof(To));
  }
  return -1;
}

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& path, const TokenFileOptions& options)
    : file_(path), options_(options) {
  require(options.window >= 1 && options.stride >= 1 && options.vocabulary >= 0, ErrorCode::kInvalidArgument,
          "TokenFile", "window and stride must be at least 1 and vocabulary at least 0, got {}, {} and {}",
          options.window, options.stride, options.vocabulary);
  const uint64_t bytes = file_.size_bytes(), token_bytes = stored_bytes(options.type);
  require(bytes >= options.header_bytes, ErrorCode::kBadFormat, file_.path().native(),
          "has {} bytes, less than the {} of its header; is it truncated?", bytes, options.header_bytes);
  const uint64_t content = bytes - options.header_bytes;
  require(content % token_bytes == 0, ErrorCode::kBadFormat, file_.path().native(),
          "offset {}: the last token has {} bytes of {}; is the file truncated?",
          bytes - content % token_bytes, content % token_bytes, token_bytes);
  tokens_ = static_cast<int64_t>(content / token_bytes);
  require(tokens_ >= options.window, ErrorCode::kBadFormat, file_.path().native(),
          "has {} tokens, too few for a window of {}", tokens_, options.window);
}

TensorSpec TokenFile::row_spec() const { return {dtype_of_tokens(options_.type), {options_.window}}; }

void TokenFile::read(int64_t row, std::span<std::byte> into) const {
  require(row >= 0 && row < rows(), ErrorCode::kOutOfRange, file_.path().native(),
          "row {} lies outside the {} rows", row, rows());
  const size_t row_bytes = dtype_size(dtype_of_tokens(options_.type)) * static_cast<size_t>(options_.window);
  require(into.size() == row_bytes, ErrorCode::kInvalidArgument, "TokenFile",
          "a row has {} bytes, but the memory for it has {}", row_bytes, into.size());
  read_window(row * options_.stride, into);
}

void TokenFile::read_window(int64_t start, std::span<std::byte> into) const {
  const size_t token_bytes = dtype_size(dtype_of_tokens(options_.type)), stored = stored_bytes(options_.type);
  const auto count = static_cast<int64_t>(into.size() / token_bytes);
  require(into.size() % token_bytes == 0, ErrorCode::kInvalidArgument, "TokenFile",
          "a token has {} bytes, but the memory has {}", token_bytes, into.size());
  require(start >= 0 && count <= tokens_ && start <= tokens_ - count, ErrorCode::kOutOfRange,
          file_.path().native(), "token {} and the {} after it lie outside the {} tokens", start, count,
          tokens_);
  const uint64_t offset = options_.header_bytes + static_cast<uint64_t>(start) * stored;
  // The tokens in the file aren't larger than those in the result. They are widened in place from the end, so
  // none is overwritten before it is read.
  const auto packed = into.last(static_cast<size_t>(count) * stored);
  file_.read_at(offset, packed);
  const std::byte* from = packed.data();
  const auto copy = [&] {
    switch (options_.type) {
      case TokenType::kU8:
        return copy_tokens<uint8_t, uint8_t>(from, into.data(), count, options_.vocabulary);
      case TokenType::kU16:
        return copy_tokens<uint16_t, int32_t>(from, into.data(), count, options_.vocabulary);
      case TokenType::kI32:
        return copy_tokens<int32_t, int32_t>(from, into.data(), count, options_.vocabulary);
      case TokenType::kI64:
        return copy_tokens<int64_t, int64_t>(from, into.data(), count, options_.vocabulary);
    }
    return int64_t{-1};
  };
  const int64_t outside = copy();
  require(outside < 0, ErrorCode::kBadFormat, file_.path().native(),
          "offset {}: token {} lies outside the vocabulary of {}; is it of another type?",
          offset + static_cast<uint64_t>(outside) * stored, start + outside, options_.vocabulary);
}

}  // namespace isochron::data
