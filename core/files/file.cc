#include "isochron/core/files/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "isochron/core/base/error.h"
#include "isochron/core/files/leftovers.h"
#include "isochron/core/files/run_folder.h"

namespace isochron {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int close() { return ::close(release()); }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

[[noreturn]] void fail_errno(const std::filesystem::path& path, std::string_view action) {
  fail(ErrorCode::kIo, path.string(), "cannot {}: {}", action, std::strerror(errno));
}

/// Reads a pipe or device to its end. Its size isn't known in advance.
void read_stream(int descriptor, const std::filesystem::path& path, std::vector<std::byte>& bytes,
                 size_t limit_bytes) {
  std::array<std::byte, 65536> part;
  bytes.clear();
  for (;;) {
    const ssize_t got = ::read(descriptor, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(path, "read");
    if (got == 0) return;
    require(static_cast<size_t>(got) <= limit_bytes - bytes.size(), ErrorCode::kBadFormat, path.string(),
            "has more than the limit of {} bytes", limit_bytes);
    bytes.insert(bytes.end(), part.begin(), part.begin() + got);
  }
}

/// `streams`: whether files that aren't regular are read too.
void read_opened(const Descriptor& file, const std::filesystem::path& path, std::vector<std::byte>& bytes,
                 size_t limit_bytes, bool streams) {
  if (file.get() < 0) fail_errno(path, "open");
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail_errno(path, "stat");
  // path.string() allocates, so it is called only to report an error.
  if (S_ISDIR(info.st_mode)) fail(ErrorCode::kIo, path.string(), "is a directory; expected a file");
  if (!S_ISREG(info.st_mode)) {
    if (!streams) fail(ErrorCode::kIo, path.string(), "is not a regular file");
    ::fcntl(file.get(), F_SETFL, ::fcntl(file.get(), F_GETFL) & ~O_NONBLOCK);
    read_stream(file.get(), path, bytes, limit_bytes);
    if (bytes.empty() && S_ISFIFO(info.st_mode))
      fail(ErrorCode::kIo, path.string(), "is a pipe that nobody writes to");
    return;
  }
  if (static_cast<size_t>(info.st_size) > limit_bytes) {
    fail(ErrorCode::kBadFormat, path.string(), "has {} bytes, more than the limit of {}", info.st_size,
         limit_bytes);
  }
  bytes.resize(static_cast<size_t>(info.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(path, "read");
    if (got == 0) fail(ErrorCode::kIo, path.string(), "ends at byte {}, expected {}", done, bytes.size());
    done += static_cast<size_t>(got);
  }
}

}  // namespace

std::vector<std::byte> read_file(const std::filesystem::path& path, size_t limit_bytes) {
  std::vector<std::byte> bytes;
  read_file(path, bytes, limit_bytes);
  return bytes;
}

void read_file(const std::filesystem::path& path, std::vector<std::byte>& bytes, size_t limit_bytes) {
  // Without O_NONBLOCK, opening a pipe that has no writer would wait forever.
  read_opened(Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)), path, bytes, limit_bytes,
              /*streams=*/true);
}

std::vector<std::byte> read_regular_file(const std::filesystem::path& path, size_t limit_bytes) {
  std::vector<std::byte> bytes;
  read_regular_file(path, bytes, limit_bytes);
  return bytes;
}

void read_regular_file(const std::filesystem::path& path, std::vector<std::byte>& bytes, size_t limit_bytes) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  read_opened(Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)), path, bytes, limit_bytes,
              /*streams=*/false);
}

namespace {

void write_all(int descriptor, const std::filesystem::path& path, std::string_view content) {
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t wrote = ::write(descriptor, content.data() + done, content.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail_errno(path, "write");
    done += static_cast<size_t>(wrote);
  }
}

/// Data appended to a file is written in large parts that bypass the page cache, if the file system supports
/// that. A checkpoint then costs a fifth of the CPU time, evicts nothing and doesn't count as memory in use.
/// A file smaller than one part, and the end of any file, is written the usual way.
class PartWriter {
 public:
  PartWriter(int descriptor, const std::filesystem::path& path)
      : descriptor_(descriptor),
        path_(path),
        part_(static_cast<char*>(std::aligned_alloc(kAlignment, kPart))) {
    require(part_ != nullptr, ErrorCode::kOutOfMemory, path.string(), "no memory to write through");
  }
  PartWriter(const PartWriter&) = delete;
  PartWriter& operator=(const PartWriter&) = delete;
  ~PartWriter() {
    std::free(part_);  // from aligned_alloc
  }

  void append(std::string_view piece) {
    while (!piece.empty()) {
      const size_t count = std::min(piece.size(), kPart - used_);
      std::memcpy(part_ + used_, piece.data(), count);
      used_ += count;
      piece.remove_prefix(count);
      if (used_ == kPart) flush_part();
    }
  }
  void finish() {
    set_direct(false);
    write_all(descriptor_, path_, {part_, used_});
  }

 private:
  static constexpr size_t kPart = size_t{1} << 18;
  static constexpr size_t kAlignment = 4096;

  void flush_part() {
    if (!tried_) set_direct(true);
    tried_ = true;
    size_t done = 0;
    while (direct_ && done < kPart) {
      const ssize_t wrote = ::write(descriptor_, part_ + done, kPart - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0 && errno != EINVAL) fail_errno(path_, "write");
      if (wrote > 0) done += static_cast<size_t>(wrote);
      if (wrote < 0 || done % kAlignment != 0) set_direct(false);  // direct writes don't work after all
    }
    write_all(descriptor_, path_, {part_ + done, kPart - done});
    used_ = 0;
  }
  void set_direct(bool direct) {
    const int flags = ::fcntl(descriptor_, F_GETFL);
    direct_ = flags >= 0 &&
              ::fcntl(descriptor_, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0 && direct;
  }

  const int descriptor_;
  const std::filesystem::path& path_;
  char* const part_;
  size_t used_ = 0;
  bool tried_ = false;
  bool direct_ = false;
};

constexpr std::string_view kTemporary = ".tmp-";

/// Whether `name` is a temporary file of `path` whose process doesn't exist on this machine or has this
/// process's id. The lock shows whether a process still writes to it.
bool may_be_of_the_dead(const std::string& name, const std::filesystem::path& path) {
  const std::string prefix = path.filename().string() + std::string(kTemporary);
  if (!name.starts_with(prefix)) return false;
  const int process = std::atoi(name.c_str() + prefix.size());
  if (process == ::getpid()) return true;  // in a container, each process may get the same id as the last
  return process > 0 && ::kill(process, 0) != 0 && errno == ESRCH;
}

/// Creates a file with a name that no other process uses, next to `path`, and locks it; -1, with errno, if
/// that fails. Other threads may write the same path at the same time, and processes in other containers may
/// have the same process id.
int create_temporary(const std::filesystem::path& path, std::filesystem::path& temporary,
                     std::optional<Leftover>& leftover) {
  static std::atomic<int> made{0};
  constexpr int kAttempts = 1000;  // leftover files may also have these names
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    temporary = fmt::format("{}{}{}-{}", path.string(), kTemporary, ::getpid(), made++);
    leftover.emplace(temporary);  // before the file exists, so that an exception leaves nothing
    const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (file >= 0) {
      // While it was briefly unlocked, another process may have taken it for a dead process's file.
      const bool taken = ::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
      struct stat info {};
      if (!taken && ::fstat(file, &info) == 0 && info.st_nlink > 0) return file;
      ::close(file);
      continue;
    }
    const int error = errno;
    leftover.reset();
    errno = error;
    if (error != EEXIST) break;
  }
  return -1;
}

/// A pipe or a device can't be replaced by a file, so it is written to directly.
void write_special(const std::filesystem::path& path,
                   const std::function<void(const AppendFunction& append)>& content) {
  // Without O_NONBLOCK, opening a pipe that has no reader would wait forever.
  Descriptor file(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0 && errno == ENXIO) fail(ErrorCode::kIo, path.string(), "is a pipe that nobody reads");
  if (file.get() < 0) fail_errno(path, "open");
  ::fcntl(file.get(), F_SETFL, ::fcntl(file.get(), F_GETFL) & ~O_NONBLOCK);
  content([&](std::string_view piece) { write_all(file.get(), path, piece); });
  if (file.close() != 0) fail_errno(path, "close");
}

/// Writes through `path`, a symbolic link that the system provides for an open file. A file that this process
/// has open is written from its current position, another process's file from its beginning.
void write_behind_link(const std::filesystem::path& path, const std::filesystem::path& folder,
                       const std::function<void(const AppendFunction& append)>& content) {
  std::error_code failed;
  if (folder != std::filesystem::canonical("/proc/self/fd", failed)) return write_special(path, content);
  Descriptor file(::fcntl(std::atoi(path.filename().c_str()), F_DUPFD_CLOEXEC, 0));
  if (file.get() < 0) fail_errno(path, "open");
  content([&](std::string_view piece) { write_all(file.get(), path, piece); });
  if (file.close() != 0) fail_errno(path, "close");
}

void write_and_rename(const std::filesystem::path& path,
                      const std::function<void(const AppendFunction& append)>& content,
                      const std::filesystem::path& temporary_folder, bool sync) {
  struct stat info {};
  const bool there = ::stat(path.c_str(), &info) == 0;
  if (there && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode)) {
    write_special(path, content);
    return;
  }
  // Doesn't follow links that the system doesn't follow: a cycle, or another user's link in a folder open to
  // all users.
  const int error = there ? 0 : errno;
  if (::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode)) {
    errno = error;
    if (error != 0 && error != ENOENT) fail_errno(path, "follow the symbolic link");
    std::error_code failed;
    const auto holder = std::filesystem::canonical(path.has_parent_path() ? path.parent_path() : ".", failed);
    const auto target = failed ? std::filesystem::path() : std::filesystem::read_symlink(path, failed);
    require(!failed, ErrorCode::kIo, path.string(), "cannot follow the symbolic link: {}", failed.message());
    if (holder.string().starts_with("/proc/")) return write_behind_link(path, holder, content);
    return write_and_rename(holder / target, content, {}, sync);
  }
  const std::filesystem::path beside = temporary_folder.empty() ? path : temporary_folder / path.filename();
  const std::filesystem::path folder =
      path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
  if (temporary_folder.empty()) {
    remove_leftovers_of_dead_processes(folder, [&path](const std::filesystem::directory_entry& entry) {
      return may_be_of_the_dead(entry.path().filename().string(), path);
    });
  }
  std::optional<Leftover> leftover;
  std::filesystem::path temporary;
  Descriptor file(create_temporary(beside, temporary, leftover));
  if (file.get() < 0) fail_errno(path, "create");
  const Descriptor lock(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));  // keeps the lock until the rename
  try {
    PartWriter writer(file.get(), path);
    content([&](std::string_view piece) { writer.append(piece); });
    writer.finish();
    if (sync && ::fsync(file.get()) != 0) fail_errno(path, "sync");
    if (file.close() != 0) fail_errno(path, "close");
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail_errno(path, "rename");
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  if (sync) sync_folder(folder);
}

}  // namespace

void sync_folder(const std::filesystem::path& folder) {
  Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() >= 0) ::fsync(directory.get());
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  write_file_atomically(path, [content](const AppendFunction& append) { append(content); });
}

void write_file_atomically(const std::filesystem::path& path,
                           const std::function<void(const AppendFunction& append)>& content,
                           const std::filesystem::path& temporary_folder) {
  write_and_rename(path, content, temporary_folder, true);
}

void replace_file(const std::filesystem::path& path, std::string_view content) {
  write_and_rename(
      path, [content](const AppendFunction& append) { append(content); }, {}, false);
}

InputFile::InputFile(const std::filesystem::path& path)
    : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) fail_errno(path, "open");
  Descriptor closed_on_error(descriptor_);
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) fail_errno(path, "stat");
  require(S_ISREG(info.st_mode), ErrorCode::kIo, path.string(), "is not a regular file");
  size_bytes_ = static_cast<uint64_t>(info.st_size);
  closed_on_error.release();
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read_at(uint64_t offset, std::span<std::byte> bytes) const {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(descriptor_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(path_, "read");
    // path.string() allocates, so it is called only to report an error.
    if (got == 0) {
      fail(ErrorCode::kIo, path_.string(), "ends at byte {}, expected {}", offset + done,
           offset + bytes.size());
    }
    done += static_cast<size_t>(got);
  }
}

}  // namespace isochron
