// Safetensors, the file format in which weights travel between frameworks: 8 bytes of header length (little
// endian), a JSON header, the tensors' bytes. Format: github.com/huggingface/safetensors.
//
// A file may come from anywhere, so nothing in it is believed: every length and offset is checked against
// the bytes that are there before anything is allocated, and reading never maps the file into memory.
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

/// The largest header that is read, as in the format's own library.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

/// The header `json` of a file that has `data_bytes` bytes after it; `where` names the file in errors. Throws
/// kBadFormat naming entry and byte: for anything but the format's objects (unknown or repeated keys,
/// repeated names, wrong types), for a rank beyond 8, and unless the entries cover all of the data once and
/// each has the bytes of its dtype and shape. Throws kUnsupported for a dtype of the format that isn't ours.
SafetensorsHeader parse_safetensors_header(std::string_view json, uint64_t data_bytes,
                                           const std::string& where);

/// A file open for reading. Opening reads the header only; each tensor is read when asked for, straight into
/// memory of its own.
class SafetensorsFile {
 public:
  /// Throws kIo, and as `parse_safetensors_header`.
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const SafetensorsMetadata& metadata() const { return header_.metadata; }
  /// The entry of that name, or null.
  const SafetensorsEntry* find(std::string_view name) const;
  /// Its tensor; a bool is any byte but 0. Throws kOutOfRange for an unknown name, kIo, kOutOfMemory.
  Tensor read(std::string_view name) const;

 private:
  std::unique_ptr<InputFile> file_;
  uint64_t data_begin_ = 0;
  SafetensorsHeader header_;
  std::map<std::string, size_t, std::less<>> index_;
};

/// A tensor that is made when it is its turn to be written.
struct SafetensorsSource {
  std::string name;
  TensorSpec spec;
  std::function<Tensor()> make;  // of `spec`, any strides
};

/// Writes tensors of any dtype, complete or not at all, one in memory at a time. Larger dtypes come first, so
/// that every tensor is aligned; equal input gives equal bytes. Throws kIo, kInvalidArgument for a repeated,
/// reserved ("__metadata__") or not UTF-8 name and for an undefined tensor or one of another spec.
/// `temporary_folder`: see write_file_atomically.
void write_safetensors(const std::filesystem::path& path, std::span<const SafetensorsSource> sources,
                       const SafetensorsMetadata& metadata = {},
                       const std::filesystem::path& temporary_folder = {});
/// The same for tensors that are there; contiguous ones are not copied.
void write_safetensors(const std::filesystem::path& path,
                       std::span<const std::pair<std::string, Tensor>> tensors,
                       const SafetensorsMetadata& metadata = {});

}  // namespace isochron::nn
