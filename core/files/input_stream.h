// InputStream: reads a file from front to back through buffers of fixed size, and decompresses it if needed.
// All sequential formats are read through it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace isochron {

/// How a file's bytes are packed. kAuto: gzip if the file begins like a gzip file, else plain.
enum class Compression { kAuto, kNone, kGzip, kZlib };

struct InputStreamOptions {
  Compression compression = Compression::kAuto;
  uint64_t limit_bytes = uint64_t{1} << 62;  // refuse more content, also after decompression
  size_t buffer_bytes = size_t{1} << 16;
  /// How long a named pipe may go without data from a writer; negative: forever.
  std::chrono::milliseconds patience{10'000};
  /// Called several times a second while no data arrives. If it returns true, the stream ends as if its file
  /// had ended. Null: never.
  bool (*stop)() = nullptr;
};

/// Once open, reading allocates nothing. After an error, only `seek` may be called.
class InputStream {
 public:
  /// Opens a file, pipe or device. Throws kIo (missing, a folder, a named pipe that nobody writes to),
  /// kBadFormat when larger than the limit, kInvalidArgument for buffers of less than 16 bytes.
  explicit InputStream(const std::filesystem::path& path, const InputStreamOptions& options = {});
  ~InputStream();
  InputStream(const InputStream&) = delete;
  InputStream& operator=(const InputStream&) = delete;

  /// The path, for messages.
  const std::string& where() const { return where_; }
  bool compressed() const;
  /// Whether InputStreamOptions::stop has ended the stream.
  bool stopped() const { return stopped_; }

  /// The bytes that come next: at least one unless the stream has ended, and at least four at the beginning
  /// of a plain file that has as many. Valid until the next call. Throws kIo, and kBadFormat with the
  /// compressed offset if compressed data is damaged, truncated or beyond the limit. CRCs of compressed data
  /// are verified at its end; several gzip members may follow each other.
  std::span<const std::byte> peek();
  /// Like `peek`, but includes all of the next `count` lines, unless they are longer than the buffer: a pipe
  /// may deliver them in pieces.
  std::span<const std::byte> peek_lines(int count = 1);
  /// Advances by `bytes` of what `peek` returned.
  void skip(size_t bytes) { begin_ += bytes; }
  /// Fills `into` as far as there is data; returns the number of bytes filled. Throws like `peek`.
  size_t read(std::span<std::byte> into);

  /// Offset of the next byte in the plain, or decompressed, content.
  uint64_t position() const { return window_offset_ + begin_; }
  /// Goes to `position`. To go back in a compressed file, everything before the position is decompressed
  /// again. Throws like `peek`; kIo if a pipe would have to go back, kBadFormat if the content ends before
  /// the position.
  void seek(uint64_t position);
  /// The number of bytes left, if it is known without reading on (plain files); else the largest number.
  uint64_t most_bytes_left() const;

 private:
  struct Inflater;

  void wait_for_writer(bool pipe) const;
  bool stops();
  size_t read_file(std::span<std::byte> into);
  size_t inflate_more(std::span<std::byte> into);
  size_t fill(std::span<std::byte> into);
  void restart();

  std::string where_;
  InputStreamOptions options_;
  int descriptor_ = -1;
  bool regular_ = false;
  uint64_t file_bytes_ = 0;  // of a regular file
  std::vector<std::byte> window_;
  size_t begin_ = 0, end_ = 0;  // the bytes of window_ that aren't consumed yet
  uint64_t window_offset_ = 0;  // of window_[0] in the content
  bool stopped_ = false;
  std::optional<std::chrono::steady_clock::time_point> stop_at_;
  bool lost_ = false;  // bytes beyond the limit were read and dropped
  std::unique_ptr<Inflater> inflater_;
};

}  // namespace isochron
