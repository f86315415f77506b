#include "isochron/core/files/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "isochron/core/base/error.h"

namespace isochron {
namespace {

constexpr size_t kLengthBytes = 8, kCrcBytes = 4, kHeaderBytes = kLengthBytes + kCrcBytes;
constexpr size_t kFirstPiece = size_t{1} << 20;
constexpr size_t kWriteBufferBytes = size_t{1} << 16;

uint64_t little_endian(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(bytes[i]);
  return value;
}

template <size_t kBytes>
std::array<std::byte, kBytes> little_endian(uint64_t value) {
  std::array<std::byte, kBytes> bytes;
  for (size_t i = 0; i < kBytes; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
  return bytes;
}

[[noreturn]] void fail_errno(const std::string& where, std::string_view action) {
  fail(ErrorCode::kIo, where, "cannot {}: {}", action, std::strerror(errno));
}

}  // namespace

RecordReader::RecordReader(const std::filesystem::path& path, const RecordReaderOptions& options)
    : stream_(path, {.compression = options.compression}),
      max_record_bytes_(options.max_record_bytes),
      before_growth_(options.before_growth) {
  require(options.compression != Compression::kAuto, ErrorCode::kInvalidArgument, "RecordReader",
          "records don't tell whether they are compressed; say kNone, kGzip or kZlib");
}

bool RecordReader::next(std::vector<std::byte>& record) {
  const uint64_t offset = stream_.position();
  std::array<std::byte, kHeaderBytes> header;
  const size_t header_bytes = stream_.read(header);
  if (header_bytes == 0) return false;
  require(header_bytes == kHeaderBytes, ErrorCode::kBadFormat, stream_.where(),
          "offset {}: the record's header has {} bytes of {}; is the file truncated?", offset, header_bytes,
          kHeaderBytes);
  const auto length_bytes = std::span(header).first(kLengthBytes);
  require(little_endian(std::span(header).last(kCrcBytes)) == masked_crc32c(length_bytes),
          ErrorCode::kBadFormat, stream_.where(),
          "offset {}: the checksum of the record's length is wrong; is this a TFRecord file, and is it "
          "compressed?",
          offset);
  const uint64_t length = little_endian(length_bytes);
  require(length <= max_record_bytes_, ErrorCode::kBadFormat, stream_.where(),
          "offset {}: a record of {} bytes, more than the limit of {}", offset, length, max_record_bytes_);
  const uint64_t left = stream_.most_bytes_left();
  require(length <= left && left - length >= kCrcBytes, ErrorCode::kBadFormat, stream_.where(),
          "offset {}: expected a record of {} bytes and its checksum, but only {} bytes are left; is the "
          "file truncated?",
          offset, length, left);
  size_t filled = 0;
  do {  // in pieces: a length is no proof that there are as many bytes
    const size_t piece = std::min<size_t>(length - filled, std::max(kFirstPiece, filled));
    if (filled + piece > record.capacity()) {
      const size_t grown = std::max(filled + piece, 2 * record.capacity());
      if (before_growth_) before_growth_(grown);
      record.reserve(grown);
    }
    record.resize(filled + piece);
    filled += stream_.read(std::span(record).subspan(filled));
  } while (filled < length && filled == record.size());
  std::array<std::byte, kCrcBytes> crc;
  require(filled == length && stream_.read(crc) == kCrcBytes, ErrorCode::kBadFormat, stream_.where(),
          "offset {}: the record of {} bytes is incomplete; is the file truncated?", offset, length);
  require(little_endian(crc) == masked_crc32c(record), ErrorCode::kBadFormat, stream_.where(),
          "offset {}: the checksum of the record's {} bytes is wrong", offset, length);
  return true;
}

RecordWriter::RecordWriter(const std::filesystem::path& path)
    : where_(path.string()),
      descriptor_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)),
      buffer_(kWriteBufferBytes) {
  if (descriptor_ < 0) fail_errno(where_, "create");
}

RecordWriter::~RecordWriter() {
  if (descriptor_ < 0) return;
  try {
    flush();
  } catch (const Error&) {
    // A destructor can't report the error.
  }
  ::close(descriptor_);
}

void RecordWriter::write(std::span<const std::byte> record) {
  require(descriptor_ >= 0, ErrorCode::kInvalidArgument, where_, "is closed; no record can be added");
  const auto length = little_endian<kLengthBytes>(record.size());
  record_end_ = written_ + filled_;
  append(length);
  append(little_endian<kCrcBytes>(masked_crc32c(length)));
  append(record);
  append(little_endian<kCrcBytes>(masked_crc32c(record)));
  record_end_ = written_ + filled_;
}

void RecordWriter::append(std::span<const std::byte> bytes) {
  if (bytes.size() > buffer_.size() - filled_) flush();
  if (bytes.size() > buffer_.size()) {
    write_through(bytes);
    return;
  }
  std::copy(bytes.begin(), bytes.end(), buffer_.begin() + static_cast<std::ptrdiff_t>(filled_));
  filled_ += bytes.size();
}

void RecordWriter::write_through(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(descriptor_, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      const int error = errno;
      take_back_half();
      errno = error;
      fail_errno(where_, "write");
    }
    bytes = bytes.subspan(static_cast<size_t>(wrote));
    written_ += static_cast<uint64_t>(wrote);
    if (record_end_ <= written_) whole_bytes_ = record_end_;
  }
}

/// Removes an incomplete record, because readers find nothing after one.
void RecordWriter::take_back_half() {
  struct stat info {};
  const bool regular = ::fstat(descriptor_, &info) == 0 && S_ISREG(info.st_mode);
  if (!regular || ::ftruncate(descriptor_, static_cast<off_t>(whole_bytes_)) != 0) return;
  ::lseek(descriptor_, static_cast<off_t>(whole_bytes_), SEEK_SET);
  written_ = record_end_ = whole_bytes_;
}

void RecordWriter::flush() {
  const auto waiting = std::span(buffer_).first(filled_);
  filled_ = 0;  // another attempt could write the same bytes twice
  write_through(waiting);
}

void RecordWriter::close() {
  if (descriptor_ < 0) return;
  flush();
  if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != ENOTSUP) fail_errno(where_, "sync");
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0) fail_errno(where_, "close");
}

}  // namespace isochron
