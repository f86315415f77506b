#include "isochron/core/files/record_file.h"

#include <algorithm>

#include "isochron/core/files/file.h"
#include "support/damage.h"
#include "support/expect_error.h"
#include "support/file_size_limit.h"
#include "support/packed.h"
#include "support/temp_folder.h"

namespace isochron {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string record_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(Crc32c, GivesTheKnownValues) {
  EXPECT_EQ(crc32c({}), 0u);
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\0'))), 0x8a9136aau);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\xff'))), 0x62a8ab43u);
}

TEST(Crc32c, OfPartsIsThatOfTheWhole) {
  const std::string text = "what was split and what was not";
  for (size_t at = 0; at <= text.size(); ++at) {
    EXPECT_EQ(crc32c(bytes_of(text.substr(at)), crc32c(bytes_of(text.substr(0, at)))),
              crc32c(bytes_of(text)));
  }
}

class Records : public testing::Test {
 protected:
  Records() { write(records_); }
  void write(const std::vector<std::string>& records) {
    RecordWriter writer(path_);
    for (const std::string& record : records) writer.write(bytes_of(record));
    writer.close();
  }
  std::vector<std::string> read_all(const RecordReaderOptions& options = {}) {
    RecordReader reader(path_, options);
    std::vector<std::byte> record;
    std::vector<std::string> result;
    while (reader.next(record)) result.push_back(record_text(record));
    return result;
  }
  std::vector<std::string> read_all(const std::string& content, const RecordReaderOptions& options = {}) {
    write_quickly(path_, content);
    return read_all(options);
  }
  std::string content() { return record_text(read_file(path_)); }

  TempFolder folder_;
  std::filesystem::path path_ = folder_ / "a.tfrecord";
  std::vector<std::string> records_ = {"first", "", std::string(100, 'x')};
};

TEST_F(Records, HaveTheFormatsBytes) {
  write({std::string("\x00\x01\x02", 3)});
  EXPECT_EQ(content(), std::string("\x03\0\0\0\0\0\0\0\xb0\x99I\x0e\0\x01\x02\xd2\x10x:", 19))
      << "as tf.io.TFRecordWriter wrote them";
}

TEST_F(Records, AreReadAsTheyWereWritten) {
  EXPECT_EQ(read_all(), records_);
  write({});
  EXPECT_TRUE(read_all().empty());
  const std::vector<std::string> large = {std::string(5'000'000, 'a'), "b", std::string(65536, 'c')};
  write(large);
  EXPECT_EQ(read_all(), large);
}

TEST_F(Records, AreReadFromCompressedFiles) {
  const std::string plain = content();
  EXPECT_EQ(read_all(packed(plain), {.compression = Compression::kGzip}), records_);
  EXPECT_EQ(read_all(packed(plain, false), {.compression = Compression::kZlib}), records_);
  EXPECT_ERROR(read_all(packed(plain)), ErrorCode::kBadFormat, "is it compressed?");
  EXPECT_ERROR(read_all({.compression = Compression::kAuto}), ErrorCode::kInvalidArgument, "say kNone");
}

TEST_F(Records, AreFoundAgainAtTheirPosition) {
  const std::string plain = content();
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    write_quickly(path_, compression == Compression::kNone ? plain : packed(plain));
    RecordReader reader(path_, {.compression = compression});
    std::vector<std::byte> record;
    std::vector<uint64_t> positions;
    do {
      positions.push_back(reader.position());
    } while (reader.next(record));
    ASSERT_EQ(positions.size(), 4u);
    for (const size_t i : {2, 0, 1}) {
      reader.seek(positions[i]);
      ASSERT_TRUE(reader.next(record));
      EXPECT_EQ(record_text(record), records_[i]);
      EXPECT_EQ(reader.position(), positions[i + 1]);
    }
    reader.seek(positions[3]);
    EXPECT_FALSE(reader.next(record));
  }
}

TEST_F(Records, UseTheirMemoryAgain) {
  write({std::string(1000, 'a'), "short", std::string(1000, 'b')});
  RecordReader reader(path_);
  std::vector<std::byte> record;
  ASSERT_TRUE(reader.next(record));
  const std::byte* memory = record.data();
  while (reader.next(record)) EXPECT_EQ(record.data(), memory);
}

TEST_F(Records, AreSeenByOthersOnceFlushed) {
  RecordWriter writer(path_);
  writer.write(bytes_of("one"));
  EXPECT_TRUE(read_all().empty());
  writer.flush();
  EXPECT_EQ(read_all(), std::vector<std::string>{"one"});
  writer.close();
  EXPECT_ERROR(writer.write(bytes_of("two")), ErrorCode::kInvalidArgument, "is closed");
}

TEST_F(Records, CantBeWrittenToAFullDisk) {
  RecordWriter writer("/dev/full");
  writer.write(bytes_of("small enough to wait"));
  EXPECT_ERROR(writer.flush(), ErrorCode::kIo, "/dev/full] cannot write");
  EXPECT_ERROR(writer.write(bytes_of(std::string(100000, 'x'))), ErrorCode::kIo, "cannot write");
  EXPECT_ERROR(RecordWriter(folder_ / "none" / "a"), ErrorCode::kIo, "cannot create");
}

TEST_F(Records, HalfOfOneIsTakenBackFromAFullDisk) {
  RecordWriter writer(path_);
  writer.write(bytes_of("first"));
  writer.flush();
  const auto whole = std::filesystem::file_size(path_);
  {
    const FileSizeLimit full(whole + 10);
    writer.write(bytes_of("second"));
    EXPECT_ERROR(writer.flush(), ErrorCode::kIo, "cannot write: File too large");
  }
  EXPECT_EQ(std::filesystem::file_size(path_), whole);
  writer.write(bytes_of("third"));
  writer.close();
  EXPECT_EQ(read_all(), (std::vector<std::string>{"first", "third"}));
}

TEST_F(Records, TruncatedAnywhereAreErrors) {
  const std::string whole = content();
  std::vector<size_t> ends = {0};  // a file may end after a whole record
  for (const std::string& record : records_) ends.push_back(ends.back() + record.size() + 16);
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      const std::string cut = whole.substr(0, size);
      const std::string stored = compression == Compression::kNone ? cut : packed(cut);
      if (std::count(ends.begin(), ends.end(), size)) {
        EXPECT_LT(read_all(stored, {.compression = compression}).size(), 3u);
        continue;
      }
      const size_t begin = *(std::upper_bound(ends.begin(), ends.end(), size) - 1);
      EXPECT_ERROR(read_all(stored, {.compression = compression}), ErrorCode::kBadFormat,
                   fmt::format("a.tfrecord] offset {}: ", begin));
    }
  }
}

TEST_F(Records, FlippedBitsAreErrors) {
  const std::string whole = content();
  EXPECT_EQ(count_refused_flips(whole, [&](const std::string& flipped) { read_all(flipped); }),
            8 * whole.size());
}

TEST_F(Records, HostileLengthsAskForNoMemory) {
  for (const uint64_t length : {uint64_t{1} << 29, UINT64_MAX, UINT64_MAX - 3, uint64_t{1} << 63}) {
    std::string header(8, '\0');
    for (int i = 0; i < 8; ++i) header[i] = static_cast<char>(length >> (8 * i));
    const uint32_t crc = masked_crc32c(bytes_of(header));
    for (int i = 0; i < 4; ++i) header += static_cast<char>(crc >> (8 * i));
    header += "some bytes";
    EXPECT_ERROR(read_all(header), ErrorCode::kBadFormat, "offset 0");
    const auto options = RecordReaderOptions{.compression = Compression::kGzip, .max_record_bytes = SIZE_MAX};
    write_quickly(path_, packed(header));
    RecordReader reader(path_, options);
    std::vector<std::byte> record;
    EXPECT_ERROR(reader.next(record), ErrorCode::kBadFormat, "truncated?");
    EXPECT_LE(record.capacity(), size_t{4} << 20);
  }
  write(records_);
  EXPECT_ERROR(read_all({.max_record_bytes = 99}), ErrorCode::kBadFormat,
               "a record of 100 bytes, more than the limit of 99");
}

}  // namespace
}  // namespace isochron
