#include "isochron/data/sources/cifar.h"

#include <span>
#include <vector>

#include "isochron/core/base/error.h"
#include "isochron/core/files/file.h"
#include "isochron/data/element/pipeline_memory.h"
#include "isochron/memory/allocators/buffer.h"

namespace isochron::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSide = 32, kChannels = 3, kPlane = kSide * kSide;
constexpr uint64_t kMaxRecords = 100'000;

/// The labels before the pixels of a record, and how many classes each has.
using LabelClasses = std::span<const int>;
constexpr int kCifar10Classes[] = {10};
constexpr int kCifar100Classes[] = {20, 100};

uint64_t record_bytes(LabelClasses classes) { return classes.size() + kChannels * kPlane; }

uint64_t records_of(const InputFile& file, LabelClasses classes) {
  const std::string where = file.path().string();
  const uint64_t bytes = record_bytes(classes);
  const uint64_t records = file.size_bytes() / bytes, rest = file.size_bytes() % bytes;
  require(rest == 0, ErrorCode::kBadFormat, where,
          "offset {}: record {} has {} bytes of {}; is the file complete?", records * bytes, records, rest,
          bytes);
  require(records > 0, ErrorCode::kBadFormat, where, "offset 0: expected records of {} bytes, got none",
          bytes);
  require(records <= kMaxRecords, ErrorCode::kBadFormat, where, "expected at most {} records, got {}",
          kMaxRecords, records);
  return records;
}

/// Images, and one tensor of labels for each label of a record.
struct Images {
  Tensor pixels;
  std::vector<Tensor> labels;
};

/// Fills `images` from row `row` on with the records of one file.
void read_records(const InputFile& file, uint64_t records, LabelClasses classes, const Images& images,
                  int64_t row) {
  constexpr float kWhite = 255;
  float* pixels = images.pixels.data<float>() + row * kPlane * kChannels;
  std::vector<std::byte> record(record_bytes(classes));
  for (uint64_t r = 0; r < records; ++r, ++row) {
    const uint64_t offset = r * record.size();
    file.read_at(offset, record);
    for (size_t i = 0; i < classes.size(); ++i) {
      const int label = std::to_integer<int>(record[i]);
      require(label < classes[i], ErrorCode::kBadFormat, file.path().string(),
              "offset {}: record {} has the label {}; expected 0 to {}", offset + i, r, label,
              classes[i] - 1);
      images.labels[i].data<int64_t>()[row] = label;
    }
    const std::byte* planes = record.data() + classes.size();
    for (int64_t i = 0; i < kPlane; ++i) {
      for (int64_t c = 0; c < kChannels; ++c) {
        *pixels++ = static_cast<float>(std::to_integer<int>(planes[c * kPlane + i])) / kWhite;
      }
    }
  }
}

Images read_files(const std::vector<fs::path>& paths, LabelClasses classes) {
  std::vector<std::unique_ptr<InputFile>> files;
  std::vector<uint64_t> records;
  int64_t total = 0;
  for (const fs::path& path : paths) {
    files.push_back(std::make_unique<InputFile>(path));
    records.push_back(records_of(*files.back(), classes));
    total += static_cast<int64_t>(records.back());
  }
  const TensorSpec pixels{DType::kF32, {total, kSide, kSide, kChannels}};
  ReadMemory memory(paths.front().native());
  memory.hold(pixels.size_bytes() + classes.size() * static_cast<size_t>(total) * sizeof(int64_t));
  Images result{empty(pixels, "dataset"), {}};
  for (size_t i = 0; i < classes.size(); ++i) {
    result.labels.push_back(empty({DType::kI64, {total}}, "dataset"));
  }
  int64_t row = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    read_records(*files[i], records[i], classes, result, row);
    row += static_cast<int64_t>(records[i]);
  }
  return result;
}

LabelledImages read_cifar10(const std::vector<fs::path>& paths) {
  Images images = read_files(paths, kCifar10Classes);
  return {std::move(images.pixels), std::move(images.labels[0])};
}

LabelledCifar100 read_cifar100(const fs::path& path) {
  Images images = read_files({path}, kCifar100Classes);
  return {std::move(images.pixels), std::move(images.labels[1]), std::move(images.labels[0])};
}

/// `folder`, or the archive's folder in it.
fs::path home_of(const fs::path& folder, const char* archive) {
  std::error_code ignored;
  return fs::is_directory(folder / archive, ignored) ? folder / archive : folder;
}

}  // namespace

Cifar10 load_cifar10(const fs::path& folder) {
  const fs::path home = home_of(folder, "cifar-10-batches-bin");
  std::vector<fs::path> parts = {home / "data_batch_1.bin"};
  for (int part = 2; part <= 5; ++part) {
    const fs::path path = home / fmt::format("data_batch_{}.bin", part);
    std::error_code ignored;
    if (!fs::exists(path, ignored)) break;
    parts.push_back(path);
  }
  return {read_cifar10(parts), read_cifar10({home / "test_batch.bin"})};
}

Cifar100 load_cifar100(const fs::path& folder) {
  const fs::path home = home_of(folder, "cifar-100-binary");
  return {read_cifar100(home / "train.bin"), read_cifar100(home / "test.bin")};
}

}  // namespace isochron::data
