// TFRecord files: records of bytes, one after the other, each with its length (u64, little endian), the
// masked CRC-32C of those 8 bytes, the data, and the masked CRC-32C of the data (u32 each). Datasets are
// distributed in this format, and TensorBoard reads its events from such files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "isochron/core/base/crc32c.h"
#include "isochron/core/files/input_stream.h"

namespace isochron {

struct RecordReaderOptions {
  Compression compression = Compression::kNone;  // kAuto could take a record's length for gzip's first bytes
  size_t max_record_bytes = size_t{1} << 30;
  /// Called before a record's memory grows to `bytes` bytes. `next` passes its exceptions on.
  std::function<void(size_t bytes)> before_growth = {};
};

/// Records from front to back.
class RecordReader {
 public:
  /// Throws kIo; kInvalidArgument for Compression::kAuto.
  explicit RecordReader(const std::filesystem::path& path, const RecordReaderOptions& options = {});

  /// Reads the next record into `record`, whose memory is reused; false at the end. Memory is allocated only
  /// as fast as the file provides bytes to fill it, so a wrong length doesn't exhaust memory. Throws kIo;
  /// kBadFormat with the record's offset for a wrong checksum, a truncated record, or one longer than
  /// `max_record_bytes`; and what InputStream throws for compressed files. After an error only `seek` may be
  /// called.
  bool next(std::vector<std::byte>& record);

  /// Offset of the next record (in the decompressed content).
  uint64_t position() const { return stream_.position(); }
  /// Goes to a record's offset; compressed files are decompressed up to it. Throws as InputStream::seek.
  void seek(uint64_t position) { stream_.seek(position); }

 private:
  InputStream stream_;
  size_t max_record_bytes_;
  std::function<void(size_t bytes)> before_growth_;
};

/// Writes records to a growing file, which others may read meanwhile. If the process is stopped at any
/// moment, at most the last record is truncated. Once open, writing allocates nothing.
class RecordWriter {
 public:
  /// Replaces what is at `path`. Throws kIo.
  explicit RecordWriter(const std::filesystem::path& path);
  /// Writes what is still buffered, but doesn't report errors. To get them, call `close` first.
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  /// Throws kIo if the file can't be written to. Nothing may be written after that, and the file then ends
  /// with a complete record.
  void write(std::span<const std::byte> record);
  /// Passes what was written to the system, so that other processes see it. Throws kIo.
  void flush();
  /// Flushes, waits until the file is on the disk, and closes it. Throws kIo.
  void close();

 private:
  void append(std::span<const std::byte> bytes);
  void write_through(std::span<const std::byte> bytes);
  void take_back_half();

  std::string where_;
  int descriptor_;
  std::vector<std::byte> buffer_;
  size_t filled_ = 0;
  uint64_t written_ = 0;      // bytes of the file
  uint64_t record_end_ = 0;   // end of the last complete record, or the beginning of the current one
  uint64_t whole_bytes_ = 0;  // bytes of the file that are complete records
};

}  // namespace isochron
