// Decompression through zlib: the raw deflate streams inside zip archives. core/files/input_stream.h does
// gzip.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace isochron::data {

/// The content of a raw deflate stream that must give exactly `size_bytes`. Refuses, before allocating, a
/// size that the stream can't give (deflate expands at most 1032 times). Throws kBadFormat.
std::vector<std::byte> inflate_raw(std::span<const std::byte> bytes, size_t size_bytes,
                                   const std::string& where);

}  // namespace isochron::data
