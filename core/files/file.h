// Files: whole reads with a cap, and writes that are either complete or absent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isochron {

/// The bytes of `path`; of a pipe or device, to its end. Throws kIo (missing, unreadable, a pipe that nobody
/// writes to) and kBadFormat when
/// larger than `limit_bytes`.
std::vector<std::byte> read_file(const std::filesystem::path& path, size_t limit_bytes = size_t{1} << 40);

/// The same into `bytes`, whose memory is used again: reading file after file allocates nothing once the
/// largest was read.
void read_file(const std::filesystem::path& path, std::vector<std::byte>& bytes, size_t limit_bytes);

/// The same of a regular file: kIo for anything else, which might have no end or wait for ever.
std::vector<std::byte> read_regular_file(const std::filesystem::path& path,
                                         size_t limit_bytes = size_t{1} << 40);
void read_regular_file(const std::filesystem::path& path, std::vector<std::byte>& bytes, size_t limit_bytes);

/// Has the system keep what was created, renamed and removed directly in `folder`, also if the power fails
/// now; nothing where the file system can't do that.
void sync_folder(const std::filesystem::path& folder);

/// Writes `content` to a temporary sibling, fsyncs it, renames it over `path` and fsyncs the directory. On
/// any failure throws kIo, removes the temporary file and leaves what was at `path` untouched; so does the
/// next write of `path` with those of processes that died. The temporary file is a Leftover (leftovers.h). A
/// pipe or device at `path` is written to in place; kIo for a pipe that nobody reads. A symbolic link stays
/// and what it leads to is written; an open file that it names, as /dev/stdout does, in place.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// The same for content that is made piece by piece: `content` calls `append` in order. What it throws leaves
/// the file as a failed write does. `temporary_folder`: where the temporary file lies instead, in the same
/// file system; not used behind a symbolic link.
using AppendFunction = std::function<void(std::string_view piece)>;
void write_file_atomically(const std::filesystem::path& path,
                           const std::function<void(const AppendFunction& append)>& content,
                           const std::filesystem::path& temporary_folder = {});

/// As write_file_atomically, but synced by nobody: every reader finds it whole or as it was, a machine that
/// crashes may lose it.
void replace_file(const std::filesystem::path& path, std::string_view content);

/// A file open for reading anywhere in it; safe to use from several threads.
class InputFile {
 public:
  /// Throws kIo unless `path` is a regular file that can be read.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// When it was opened.
  uint64_t size_bytes() const { return size_bytes_; }
  /// Fills `bytes` from `offset`. Throws kIo, also when the file ends before.
  void read_at(uint64_t offset, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  int descriptor_;
  uint64_t size_bytes_ = 0;
};

}  // namespace isochron
