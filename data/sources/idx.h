// IDX, the format of MNIST's array files (LeCun, Cortes, Burges: "The MNIST database of handwritten digits"):
// two zero bytes, a code for the dtype, the rank, the extents (u32 each), the elements; all numbers big
// endian. Files may be gzipped.
#pragma once

#include <filesystem>
#include <string>

#include "isochron/core/tensor/tensor.h"
#include "isochron/data/sources/datasets.h"

namespace isochron::data {

struct IdxOptions {
  uint64_t limit_bytes = uint64_t{1} << 34;  // of the array
};

/// The array of a file: u8, i32, f32 or f64 as stored; signed 8-bit and 16-bit integers become i32. Memory is
/// allocated only as the file has bytes to fill it. Throws kIo; kBadFormat with the byte offset for another
/// magic, an unknown dtype, a rank above 8, more than `limit_bytes`, too few or too many bytes, or damaged
/// gzip; kOutOfMemory beyond the memory budget (data/element/pipeline_memory.h).
Tensor read_idx(const std::filesystem::path& path, const IdxOptions& options = {});

/// The bytes of an IDX file of `tensor` (u8, i32, f32 or f64, any strides). Throws kUnsupported for other
/// dtypes and for extents beyond 32 bits.
std::string format_idx(const Tensor& tensor);

struct Mnist {
  LabelledImages train;  // f32 (N, 28, 28, 1), values in [0, 1]; labels i64 (N), values in [0, 10)
  LabelledImages test;
};

/// Reads train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte
/// of `folder`, each with or without .gz. Fashion-MNIST has the same form. Throws like `read_idx`; kBadFormat
/// for arrays of another dtype or rank, images and labels that differ in number, a label beyond 9.
Mnist load_mnist(const std::filesystem::path& folder);

}  // namespace isochron::data
