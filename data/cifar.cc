#include "isochron/data/cifar.h"

#include <span>
#include <vector>

#include "isochron/core/error.h"
#include "isochron/core/file.h"
#include "isochron/memory/buffer.h"

namespace isochron::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSide = 32, kChannels = 3, kPlane = kSide * kSide;
constexpr uint64_t kRecordBytes = 1 + kChannels * kPlane;
constexpr uint64_t kMostRecords = 100'000;
constexpr int kClasses = 10;

uint64_t records_of(const InputFile& file) {
  const std::string where = file.path().string();
  const uint64_t records = file.size_bytes() / kRecordBytes, rest = file.size_bytes() % kRecordBytes;
  require(rest == 0, ErrorCode::kBadFormat, where,
          "offset {}: record {} has {} bytes of {}; is the file complete?", records * kRecordBytes, records,
          rest, kRecordBytes);
  require(records > 0, ErrorCode::kBadFormat, where, "offset 0: expected records of {} bytes, got none",
          kRecordBytes);
  require(records <= kMostRecords, ErrorCode::kBadFormat, where, "expected at most {} records, got {}",
          kMostRecords, records);
  return records;
}

/// Fills `pixels` and `labels` from the records of one file.
void read_records(const InputFile& file, uint64_t records, float* pixels, int64_t* labels) {
  constexpr float kWhite = 255;
  std::vector<std::byte> record(kRecordBytes);
  for (uint64_t r = 0; r < records; ++r) {
    file.read_at(r * kRecordBytes, record);
    const int label = std::to_integer<int>(record[0]);
    require(label < kClasses, ErrorCode::kBadFormat, file.path().string(),
            "offset {}: record {} has the label {}; expected 0 to {}", r * kRecordBytes, r, label,
            kClasses - 1);
    *labels++ = label;
    const std::byte* planes = record.data() + 1;
    for (int64_t i = 0; i < kPlane; ++i) {
      for (int64_t c = 0; c < kChannels; ++c) {
        *pixels++ = static_cast<float>(std::to_integer<int>(planes[c * kPlane + i])) / kWhite;
      }
    }
  }
}

LabelledImages read_files(const std::vector<fs::path>& paths) {
  std::vector<std::unique_ptr<InputFile>> files;
  std::vector<uint64_t> records;
  int64_t total = 0;
  for (const fs::path& path : paths) {
    files.push_back(std::make_unique<InputFile>(path));
    records.push_back(records_of(*files.back()));
    total += static_cast<int64_t>(records.back());
  }
  LabelledImages result{empty({DType::kF32, {total, kSide, kSide, kChannels}}, "dataset"),
                        empty({DType::kI64, {total}}, "dataset")};
  int64_t row = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    read_records(*files[i], records[i], result.images.data<float>() + row * kPlane * kChannels,
                 result.labels.data<int64_t>() + row);
    row += static_cast<int64_t>(records[i]);
  }
  return result;
}

}  // namespace

Cifar10 load_cifar10(const fs::path& folder) {
  std::error_code ignored;
  fs::path home = folder;
  if (fs::is_directory(folder / "cifar-10-batches-bin", ignored)) home = folder / "cifar-10-batches-bin";
  std::vector<fs::path> parts = {home / "data_batch_1.bin"};
  for (int part = 2; part <= 5; ++part) {
    const fs::path path = home / fmt::format("data_batch_{}.bin", part);
    if (!fs::exists(path, ignored)) break;
    parts.push_back(path);
  }
  return {read_files(parts), read_files({home / "test_batch.bin"})};
}

}  // namespace isochron::data
