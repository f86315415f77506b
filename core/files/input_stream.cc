#include "isochron/core/files/input_stream.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "isochron/core/base/error.h"

namespace isochron {
namespace {

constexpr int kGzipWindow = 15 + 16;
constexpr int kZlibWindow = 15;
constexpr size_t kSmallestBuffer = 16;
constexpr size_t kFirstBytes = 4;
constexpr int kLookEveryMs = 100;                     // how often InputStreamOptions::stop is called
constexpr std::chrono::milliseconds kLastWords(500);  // how long reading goes on after `stop` returned true

}  // namespace

/// For compressed files: bytes of the file that aren't decompressed yet, and zlib's state.
struct InputStream::Inflater {
  Inflater(bool is_gzip, size_t buffer_bytes, const std::string& where)
      : gzip(is_gzip), packed(buffer_bytes) {
    require(inflateInit2(&stream, gzip ? kGzipWindow : kZlibWindow) == Z_OK, ErrorCode::kOutOfMemory, where,
            "zlib has no memory for its state");
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }

  uint64_t consumed() const { return read_bytes - stream.avail_in; }

  const bool gzip;
  std::vector<std::byte> packed;
  z_stream stream{};
  uint64_t read_bytes = 0;   // of the file, into `packed`
  bool member_open = false;  // its end mark is still to come
  bool ended = false;
};

InputStream::InputStream(const std::filesystem::path& path, const InputStreamOptions& options)
    : where_(path.string()), options_(options) {
  require(options.buffer_bytes >= kSmallestBuffer, ErrorCode::kInvalidArgument, "InputStream",
          "buffer_bytes must be at least {}, got {}", kSmallestBuffer, options.buffer_bytes);
  window_.resize(options.buffer_bytes);
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe without a writer opens too
  if (descriptor_ < 0) fail(ErrorCode::kIo, where_, "cannot open: {}", std::strerror(errno));
  try {
    struct stat info {};
    if (::fstat(descriptor_, &info) != 0)
      fail(ErrorCode::kIo, where_, "cannot stat: {}", std::strerror(errno));
    require(!S_ISDIR(info.st_mode), ErrorCode::kIo, where_, "is a directory; expected a file");
    regular_ = S_ISREG(info.st_mode);
    if (!regular_) wait_for_writer(S_ISFIFO(info.st_mode));
    file_bytes_ = regular_ ? static_cast<uint64_t>(info.st_size) : 0;
    require(file_bytes_ <= options.limit_bytes, ErrorCode::kBadFormat, where_,
            "has {} bytes, more than the limit of {}", file_bytes_, options.limit_bytes);
    // The first bytes show the format of the file. They stay in the buffer and are the first to be returned
    // or decompressed.
    while (end_ < kFirstBytes) {
      const size_t got = read_file(std::span(window_).subspan(end_));
      if (got == 0) break;
      end_ += got;
    }
    const bool starts_as_gzip = end_ >= 2 && window_[0] == std::byte{0x1f} && window_[1] == std::byte{0x8b};
    const bool gzip = options.compression == Compression::kGzip ||
                      (options.compression == Compression::kAuto && starts_as_gzip);
    if (gzip || options.compression == Compression::kZlib) {
      inflater_ = std::make_unique<Inflater>(gzip, options.buffer_bytes, where_);
      std::copy_n(window_.begin(), end_, inflater_->packed.begin());
      inflater_->stream.next_in = reinterpret_cast<Bytef*>(inflater_->packed.data());
      inflater_->stream.avail_in = static_cast<uInt>(end_);
      inflater_->read_bytes = end_;
      end_ = 0;
    }
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

InputStream::~InputStream() { ::close(descriptor_); }

bool InputStream::compressed() const { return inflater_ != nullptr; }

/// If the input is a named pipe, waits until somebody writes to it. An anonymous pipe has a writer from the
/// start.
void InputStream::wait_for_writer(bool pipe) const {
  struct statfs system {};
  const bool named = pipe && ::fstatfs(descriptor_, &system) == 0 && system.f_type != PIPEFS_MAGIC;
  if (named) {
    pollfd waiting{descriptor_, POLLIN, 0};
    const int most_ms = static_cast<int>(options_.patience.count());
    const int step_ms = options_.stop != nullptr ? kLookEveryMs : most_ms;
    int ready = 0;
    const auto stop = [&] { return options_.stop != nullptr && options_.stop(); };
    for (int waited_ms = 0; ready <= 0 && !stop();) {
      ready = ::poll(&waiting, 1, step_ms);
      if (ready < 0 && errno != EINTR) fail(ErrorCode::kIo, where_, "cannot wait: {}", std::strerror(errno));
      if (ready == 0 && most_ms >= 0 && (waited_ms += step_ms) >= most_ms) break;
    }
    require(ready > 0 || stop(), ErrorCode::kIo, where_, "is a pipe, and nobody wrote to it within {} s",
            std::chrono::duration<double>(options_.patience).count());
  }
  ::fcntl(descriptor_, F_SETFL, ::fcntl(descriptor_, F_GETFL) & ~O_NONBLOCK);
}

/// Waits for data or the end of the file and returns false. Returns true if InputStreamOptions::stop returned
/// true more than kLastWords ago: if a signal ends both programs, what the writer writes while it ends is
/// still read.
bool InputStream::stops() {
  if (options_.stop == nullptr) return false;
  pollfd waiting{descriptor_, POLLIN, 0};
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    if (!stop_at_ && options_.stop()) stop_at_ = now;
    if (stop_at_ && now - *stop_at_ > kLastWords) return true;
    const int ready = ::poll(&waiting, 1, kLookEveryMs);
    if (ready > 0) return false;
    if (ready < 0 && errno != EINTR) fail(ErrorCode::kIo, where_, "cannot wait: {}", std::strerror(errno));
  }
}

size_t InputStream::read_file(std::span<std::byte> into) {
  stopped_ = stopped_ || stops();
  if (stopped_) return 0;
  for (;;) {
    const ssize_t got = ::read(descriptor_, into.data(), into.size());
    if (got >= 0) return static_cast<size_t>(got);
    if (errno != EINTR) fail(ErrorCode::kIo, where_, "cannot read: {}", std::strerror(errno));
  }
}

/// Returns the number of bytes that it has filled, 0 at the end of the last member.
size_t InputStream::inflate_more(std::span<std::byte> into) {
  Inflater& from = *inflater_;
  z_stream& stream = from.stream;
  stream.next_out = reinterpret_cast<Bytef*>(into.data());
  stream.avail_out = static_cast<uInt>(into.size());
  while (stream.avail_out == into.size() && !from.ended) {
    if (stream.avail_in == 0) {
      const size_t got = read_file(from.packed);
      stream.next_in = reinterpret_cast<Bytef*>(from.packed.data());
      stream.avail_in = static_cast<uInt>(got);
      from.read_bytes += got;
      if (got == 0) {
        const bool whole = !from.member_open && from.read_bytes > 0;
        require(whole || stopped_, ErrorCode::kBadFormat, where_,
                "the compressed data ends at byte {} before its end mark; is it truncated?", from.consumed());
        from.ended = true;
        break;
      }
    }
    if (!from.member_open) {
      require(from.gzip || from.consumed() == 0, ErrorCode::kBadFormat, where_,
              "byte {}: unexpected data follows the end of the compressed data", from.consumed());
      // Zeros after a member are padding, as on tapes and block devices.
      for (const bool behind = from.consumed() > 0; behind && stream.avail_in > 0 && *stream.next_in == 0;) {
        ++stream.next_in;
        --stream.avail_in;
      }
      if (stream.avail_in == 0) continue;
      inflateReset(&stream);
      from.member_open = true;
    }
    const int status = inflate(&stream, Z_NO_FLUSH);
    if (status == Z_STREAM_END) from.member_open = false;
    if (status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR) continue;
    require(status != Z_MEM_ERROR, ErrorCode::kOutOfMemory, where_, "zlib ran out of memory");
    fail(ErrorCode::kBadFormat, where_, "byte {}: damaged compressed data: {}", from.consumed(),
         stream.msg ? stream.msg : zError(status));
  }
  return into.size() - stream.avail_out;
}

std::span<const std::byte> InputStream::peek() {
  if (begin_ == end_) {
    window_offset_ += end_;
    begin_ = end_ = 0;
    end_ = fill(window_);
  }
  return {window_.data() + begin_, end_ - begin_};
}

/// Fills `into`, a part of the window that begins at `end_`.
size_t InputStream::fill(std::span<std::byte> into) {
  const size_t got = inflater_ ? inflate_more(into) : read_file(into);
  if (lost_ || window_offset_ + end_ + got > options_.limit_bytes) {
    lost_ = true;
    fail(ErrorCode::kBadFormat, where_, "{} more than the limit of {} bytes",
         inflater_ ? "expands to" : "has", options_.limit_bytes);
  }
  return got;
}

std::span<const std::byte> InputStream::peek_lines(int count) {
  auto lines = peek();
  while (!lines.empty() && std::ranges::count(lines, std::byte{'\n'}) < count &&
         lines.size() < window_.size()) {
    std::copy(window_.begin() + static_cast<std::ptrdiff_t>(begin_),
              window_.begin() + static_cast<std::ptrdiff_t>(end_), window_.begin());
    window_offset_ += begin_;
    end_ -= begin_;
    begin_ = 0;
    const size_t got = fill(std::span(window_).subspan(end_));
    end_ += got;
    lines = {window_.data(), end_};
    if (got == 0) break;
  }
  return lines;
}

size_t InputStream::read(std::span<std::byte> into) {
  size_t done = 0;
  while (done < into.size()) {
    const auto next = peek();
    if (next.empty()) break;
    const size_t taken = std::min(next.size(), into.size() - done);
    std::copy_n(next.begin(), taken, into.begin() + static_cast<std::ptrdiff_t>(done));
    skip(taken);
    done += taken;
  }
  return done;
}

void InputStream::restart() {
  require(regular_ && ::lseek(descriptor_, 0, SEEK_SET) == 0, ErrorCode::kIo, where_,
          "cannot be read again from the start, as it is not a regular file");
  window_offset_ = 0;
  begin_ = end_ = 0;
  lost_ = false;
  if (!inflater_) return;
  inflater_->stream.avail_in = 0;
  inflater_->read_bytes = 0;
  inflater_->member_open = inflater_->ended = false;
}

void InputStream::seek(uint64_t position) {
  if (regular_ && !inflater_) {
    require(position <= file_bytes_ && ::lseek(descriptor_, static_cast<off_t>(position), SEEK_SET) >= 0,
            ErrorCode::kBadFormat, where_,
            "expected to continue at byte {}, but the file has {}; is it truncated?", position, file_bytes_);
    window_offset_ = position;
    begin_ = end_ = 0;
    lost_ = false;
    return;
  }
  if (lost_ || position < window_offset_) restart();
  if (position < this->position()) begin_ = static_cast<size_t>(position - window_offset_);
  while (this->position() < position) {
    const size_t there = peek().size();
    require(there > 0, ErrorCode::kBadFormat, where_,
            "expected to continue at byte {} of its content, but it has {}; is it truncated?", position,
            this->position());
    skip(static_cast<size_t>(std::min<uint64_t>(there, position - this->position())));
  }
}

uint64_t InputStream::most_bytes_left() const {
  if (!regular_ || inflater_) return UINT64_MAX;
  return file_bytes_ - std::min(file_bytes_, position());
}

}  // namespace isochron
