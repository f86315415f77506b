// Safetensors, a file format for exchanging weights between frameworks: 8 bytes of header length (little
// endian), a JSON header, then the tensors' bytes. Format: github.com/huggingface/safetensors.
//
// A file may come from anywhere, so nothing in it is trusted. Every length and offset is checked against the
// actual size of the file before anything is allocated, and files are never mapped into memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isochron/core/files/file.h"
#include "isochron/core/tensor/tensor.h"

namespace isochron::nn {

using SafetensorsMetadata = std::map<std::string, std::string>;

struct SafetensorsEntry {
  std::string name;
  TensorSpec spec;
  uint64_t begin = 0;  // in bytes from the end of the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // by begin; entries of no bytes by name
  SafetensorsMetadata metadata;
};

/// The size limit for headers, the same as in the format's own library.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

/// Parses the header `json` of a file that has `data_bytes` bytes after it; `where` names the file in errors.
/// Throws kBadFormat naming the entry and the byte in these cases: the JSON isn't what the format prescribes
/// (unknown or repeated keys, repeated names, wrong types), a rank is above 8, the entries don't cover all of
/// the data exactly once, or an entry's size doesn't match its dtype and shape. Throws kUnsupported for a
/// dtype of the format that Isochron doesn't have.
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                           const std::string& where);

/// A file open for reading. Opening it reads only the header. Each tensor is read on request, directly into
/// its own memory.
class SafetensorsFile {
 public:
  /// Throws kIo, and as `parse_safetensors_header`.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const SafetensorsMetadata& metadata() const { return header_.metadata; }
  /// The entry of that name, or null.
  const SafetensorsEntry* find(std::string_view name) const;
  /// Reads the tensor of that name; for bool, every nonzero byte is true. Throws kOutOfRange for an unknown
  /// name, kIo, kOutOfMemory.
  Tensor read(std::string_view name) const;

 private:
  std::unique_ptr<InputFile> file_;
  uint64_t data_begin_ = 0;
  SafetensorsHeader header_;
  std::map<std::string, size_t, std::less<>> index_;
};

/// A tensor that is created only when it is about to be written.
struct SafetensorsSource {
  std::string name;
  TensorSpec spec;
  std::function<Tensor()> make;  // of `spec`, any strides
};

/// Writes tensors of any dtype. The file is written completely or not at all, with one tensor in memory at a
/// time. Larger dtypes come first, so that every tensor is aligned; equal input gives equal bytes. Throws
/// kIo, and kInvalidArgument for a name that is repeated, reserved ("__metadata__") or not valid UTF-8, and
/// for a tensor that is undefined or doesn't have its `spec`. `temporary_folder`: see write_file_atomically.
void write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsSource> sources,
                       const SafetensorsMetadata& metadata = {},
                       const std::filesystem::path& temporary_folder = {});
/// The same for existing tensors; contiguous tensors are not copied.
void write_safetensors(const std::filesystem::path& path,
                       std::span<const std::pair<std::string, Tensor>> tensors,
                       const SafetensorsMetadata& metadata = {});

}  // namespace isochron::nn
