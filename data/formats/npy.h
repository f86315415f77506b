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

#include "isochron/core/files/file.h"
#include "isochron/core/tensor/tensor.h"

namespace isochron::data {

/// Reads an array into a contiguous tensor; Fortran order and big-endian numbers are converted. Dtypes f8 f4
/// f2 i8 i4 u1 b1. Throws kIo, also if `path` isn't a regular file; kBadFormat with the byte offset;
/// kOutOfMemory for an array beyond the memory budget (data/element/pipeline_memory.h). The sizes in a header
/// are checked against the size of the file before anything is allocated.
Tensor read_npy(const std::filesystem::path& path);
/// The same from bytes in memory; `where` names them in errors.
Tensor parse_npy(std::span<const std::byte> bytes, const std::string& where);

/// An array that stays in its file, of any size; safe to use from several threads.
class NpyFile {
 public:
  /// Reads the header. Throws like `read_npy`; kUnsupported for Fortran order and big-endian numbers.
  explicit NpyFile(const std::filesystem::path& path);

  const TensorSpec& spec() const { return spec_; }
  /// Fills `into` with the array's bytes from `offset` on, in row-major order. The bytes of bools aren't
  /// checked. Throws kIo, also if the file has been truncated since.
  void read_at(uint64_t offset, std::span<std::byte> into) const {
    file_.read_at(content_offset_ + offset, into);
  }

 private:
  InputFile file_;
  TensorSpec spec_;
  uint64_t content_offset_ = 0;
};

/// Writes `tensor` (any strides) as NPY version 1, complete or not at all. Throws kIo; kUnsupported for bf16,
/// which NumPy lacks.
void write_npy(const std::filesystem::path& path, const Tensor& tensor);
/// The header of such a file for an array of `spec`, padded to at least `least_bytes`, a multiple of 64.
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

/// All arrays of an NPZ, stored or deflated; checksums are verified. Throws kIo, also if `path` isn't a
/// regular file; kOutOfMemory if all arrays together exceed the memory budget
/// (data/element/pipeline_memory.h); and kBadFormat naming the entry, also for encrypted entries.
NpzFile read_npz(const std::filesystem::path& path);
NpzFile parse_npz(std::span<const std::byte> bytes, const std::string& where);

/// Writes named arrays as an uncompressed NPZ, complete or not at all; equal input gives equal bytes. Throws
/// kIo, kInvalidArgument for a name that is repeated, empty or not UTF-8, kUnsupported for bf16.
void write_npz(const std::filesystem::path& path, std::span<const std::pair<std::string, Tensor>> arrays);

}  // namespace isochron::data
