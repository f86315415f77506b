// Files: complete reads with a size limit, and writes that are either complete or absent.
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

/// The bytes of `path`; for a pipe or device, everything up to its end. Throws kIo (missing, unreadable, a
/// pipe that nobody writes to) and kBadFormat if larger than `limit_bytes`.
std::vector<std::byte> read_file(const std::filesystem::path& path, size_t limit_bytes = size_t{1} << 40);

/// The same, into `bytes`, whose memory is reused: reading file after file allocates nothing once the largest
/// has been read.
void read_file(const std::filesystem::path& path, std::vector<std::byte>& bytes, size_t limit_bytes);

/// The same for a regular file. Throws kIo for anything else, which might have no end or wait forever.
std::vector<std::byte> read_regular_file(const std::filesystem::path& path,
                                         size_t limit_bytes = size_t{1} << 40);
void read_regular_file(const std::filesystem::path& path, std::vector<std::byte>& bytes, size_t limit_bytes);

/// Makes the system store changes directly in `folder` (created, renamed and removed entries), so that they
/// survive a power failure. Does nothing if the file system doesn't support this.
void sync_folder(const std::filesystem::path& folder);

/// Writes `content` to a temporary file in the same folder, fsyncs it, renames it over `path` and fsyncs the
/// directory. On any failure it throws kIo, removes the temporary file and leaves the file at `path`
/// untouched. The next write of `path` also removes temporary files of processes that died. The temporary
/// file is a Leftover (leftovers.h). A pipe or device at `path` is written to in place; kIo for a pipe that
/// nobody reads. If `path` is a symbolic link, the link stays and its target is written. A link to an open
/// file, such as /dev/stdout, makes this write to that file in place.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// The same for content that is produced piece by piece: `content` calls `append` in order. If `content`
/// throws, the file is left as after a failed write. `temporary_folder`: where to create the temporary file
/// instead, on the same file system; ignored if `path` is a symbolic link.
using AppendFunction = std::function<void(std::string_view piece)>;
void write_file_atomically(const std::filesystem::path& path,
                           const std::function<void(const AppendFunction& append)>& content,
                           const std::filesystem::path& temporary_folder = {});

/// Like write_file_atomically, but without fsync: every reader finds the file either complete or as it was,
/// but a crash of the machine may lose it.
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
  /// The size when the file was opened.
  uint64_t size_bytes() const { return size_bytes_; }
  /// Fills `bytes` from `offset`. Throws kIo, also if the file ends too early.
  void read_at(uint64_t offset, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  int descriptor_;
  uint64_t size_bytes_ = 0;
};

}  // namespace isochron
