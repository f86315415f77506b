// NumPy's array files: NPY (versions 1, 2 and 3) and NPZ, a zip archive of them.
// Format: numpy.lib.format in NumPy's documentation; zip: PKWARE APPNOTE 6.3.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isochron/core/mapped_file.h"
#include "isochron/core/tensor.h"

namespace isochron::data {

/// An array as a contiguous tensor of its own memory: Fortran order and big-endian are converted.
/// Dtypes f8 f4 f2 i8 i4 u1 b1. Throws kIo, and kBadFormat with the byte offset; the sizes a header claims
/// are checked against the bytes that are there before anything is allocated.
Tensor read_npy(const std::filesystem::path& path);
/// The same from bytes in memory; `where` names them in errors.
Tensor parse_npy(std::span<const std::byte> bytes, const std::string& where);

/// An array that stays in its file, mapped into memory.
class MappedNpy {
 public:
  /// Throws as `read_npy`; kUnsupported for Fortran order and big-endian numbers.
  explicit MappedNpy(const std::filesystem::path& path);

  const TensorSpec& spec() const { return spec_; }
  /// In row-major order, not aligned; a bool is any byte.
  std::span<const std::byte> content() const { return content_; }
  const MappedFile& file() const { return file_; }

 private:
  MappedFile file_;
  TensorSpec spec_;
  std::span<const std::byte> content_;
};

/// Writes `tensor` (any strides) as NPY version 1, complete or not at all. Throws kIo; kUnsupported for bf16,
/// which NumPy lacks.
void write_npy(const std::filesystem::path& path, const Tensor& tensor);
/// What such a file begins with, for an array of `spec`; filled up to `least_bytes`, a multiple of 64.
std::string npy_header(const TensorSpec& spec, size_t least_bytes = 0);
/// The bytes that `write_npy` writes.
std::string format_npy(const Tensor& tensor);

/// The arrays of an NPZ file, in the file's order.
class NpzFile {
 public:
  explicit NpzFile(std::vector<std::pair<std::string, Tensor>> arrays) : arrays_(std::move(arrays)) {}
  size_t size() const { return arrays_.size(); }
  bool contains(std::string_view name) const;
  /// Throws kOutOfRange listing the names.
  const Tensor& at(std::string_view name) const;
  auto begin() const { return arrays_.begin(); }
  auto end() const { return arrays_.end(); }

 private:
  std::vector<std::pair<std::string, Tensor>> arrays_;
};

/// All arrays of an NPZ, stored or deflated; checksums are verified. Throws kIo, and kBadFormat naming the
/// entry: also for encrypted and zip64 archives (above 4 GiB; save the arrays one by one as .npy instead).
NpzFile read_npz(const std::filesystem::path& path);
NpzFile parse_npz(std::span<const std::byte> bytes, const std::string& where);

/// Writes named arrays as an uncompressed NPZ, complete or not at all; equal input gives equal bytes. Throws
/// kIo, kInvalidArgument for a repeated or empty name, kUnsupported for bf16 and beyond 4 GiB.
void write_npz(const std::filesystem::path& path, std::span<const std::pair<std::string, Tensor>> arrays);

}  // namespace isochron::data
