// Decompression through zlib: whole gzip files, and the raw deflate streams inside zip archives.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace isochron::data {

/// True when `bytes` begin as a gzip file does.
bool is_gzip(std::span<const std::byte> bytes);

/// The content of a gzip file of one or more members; CRC and length are verified. Throws kBadFormat with the
/// offset in the compressed bytes when the stream is damaged, truncated, or gives more than `limit_bytes`.
std::vector<std::byte> gunzip(std::span<const std::byte> bytes, size_t limit_bytes, const std::string& where);

/// The content of a raw deflate stream that must give exactly `size_bytes`. Refuses, before allocating, a
/// size that the stream can't give (deflate expands at most 1032 times). Throws kBadFormat.
std::vector<std::byte> inflate_raw(std::span<const std::byte> bytes, size_t size_bytes,
                                   const std::string& where);

}  // namespace isochron::data
