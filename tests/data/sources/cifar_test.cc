// CIFAR-10 files: their content, and files with other content.
#include "isochron/data/sources/cifar.h"

#include <gmock/gmock.h>

#include <fstream>

#include "isochron/memory/allocators/buffer.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::data {
namespace {

constexpr size_t kRecord = 3073;

/// A record whose red is all `red`, green counts up and blue is 255.
std::string record(char label, char red) {
  std::string bytes(kRecord, '\xff');
  bytes[0] = label;
  for (size_t i = 0; i < 1024; ++i) {
    bytes[1 + i] = red;
    bytes[1 + 1024 + i] = static_cast<char>(i % 256);
  }
  return bytes;
}

class Cifar : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) {
    std::ofstream(folder_.path() / name, std::ios::binary) << content;
  }
  Cifar10 load() { return load_cifar10(folder_.path()); }

  TempFolder folder_;
};

TEST_F(Cifar, PlanesBecomeChannelsOfEachPixel) {
  write("data_batch_1.bin", record(3, 0) + record(9, 51));
  write("data_batch_2.bin", record(0, 102));
  write("test_batch.bin", record(7, 0));
  const Cifar10 cifar = load();
  EXPECT_EQ(cifar.train.images.spec(), (TensorSpec{DType::kF32, {3, 32, 32, 3}}));
  EXPECT_EQ(cifar.test.images.spec(), (TensorSpec{DType::kF32, {1, 32, 32, 3}}));
  EXPECT_THAT(cifar.train.labels.to_vector(), testing::ElementsAre(3, 9, 0));
  EXPECT_THAT(cifar.test.labels.to_vector(), testing::ElementsAre(7));
  const auto pixel = [&](size_t row, size_t y, size_t x, size_t channel) {
    return cifar.train.images.span<float>()[((row * 32 + y) * 32 + x) * 3 + channel];
  };
  EXPECT_FLOAT_EQ(pixel(0, 5, 6, 0), 0);
  EXPECT_FLOAT_EQ(pixel(1, 31, 31, 0), 0.2f);
  EXPECT_FLOAT_EQ(pixel(2, 0, 0, 0), 0.4f);
  EXPECT_FLOAT_EQ(pixel(0, 1, 2, 1), 34 / 255.0f);
  EXPECT_FLOAT_EQ(pixel(0, 1, 2, 2), 1);
}

TEST_F(Cifar, IsFoundInTheArchivesFolder) {
  std::filesystem::create_directory(folder_ / "cifar-10-batches-bin");
  write("cifar-10-batches-bin/data_batch_1.bin", record(1, 1));
  write("cifar-10-batches-bin/test_batch.bin", record(2, 1));
  EXPECT_EQ(load().train.images.extent(0), 1);
}

TEST_F(Cifar, BadFilesNameOffsetAndRecord) {
  EXPECT_ERROR(load(), ErrorCode::kIo, "data_batch_1.bin");
  write("data_batch_1.bin", record(1, 1) + record(1, 1).substr(0, 100));
  EXPECT_ERROR(load(), ErrorCode::kBadFormat, "offset 3073: record 1 has 100 bytes of 3073");
  write("data_batch_1.bin", "");
  EXPECT_ERROR(load(), ErrorCode::kBadFormat, "got none");
  write("data_batch_1.bin", record(1, 1) + record(10, 1));
  EXPECT_ERROR(load(), ErrorCode::kBadFormat, "offset 3073: record 1 has the label 10; expected 0 to 9");
  write("data_batch_1.bin", record(static_cast<char>(255), 1));
  EXPECT_ERROR(load(), ErrorCode::kBadFormat, "the label 255");
  write("data_batch_1.bin", record(1, 1));
  EXPECT_ERROR(load(), ErrorCode::kIo, "test_batch.bin");
  write("test_batch.bin", record(1, 1).substr(1));
  EXPECT_ERROR(load(), ErrorCode::kBadFormat, "record 0 has 3072 bytes");
}

TEST_F(Cifar, AHugeFileIsRefusedBeforeMemoryIsAskedFor) {
  write("data_batch_1.bin", "");
  std::filesystem::resize_file(folder_ / "data_batch_1.bin", kRecord * 1'000'000'000);  // sparse
  EXPECT_ERROR(load(), ErrorCode::kBadFormat, "at most 100000 records, got 1000000000");
}

TEST_F(Cifar, SomethingElseInAFilesPlaceIsAnError) {
  std::filesystem::create_directory(folder_ / "data_batch_1.bin");
  EXPECT_ERROR(load(), ErrorCode::kIo, "data_batch_1.bin");
}

class CifarHundred : public Cifar {
 protected:
  static std::string record100(char coarse, char fine, char red) { return coarse + record(fine, red); }
  Cifar100 load() { return load_cifar100(folder_.path()); }
};

TEST_F(CifarHundred, HasTwoLabelsARecord) {
  std::filesystem::create_directory(folder_ / "cifar-100-binary");
  write("cifar-100-binary/train.bin", record100(19, 99, 0) + record100(0, 7, 51));
  write("cifar-100-binary/test.bin", record100(3, 42, 0));
  const Cifar100 cifar = load();
  EXPECT_EQ(cifar.train.images.spec(), (TensorSpec{DType::kF32, {2, 32, 32, 3}}));
  EXPECT_THAT(cifar.train.labels.to_vector(), testing::ElementsAre(99, 7));
  EXPECT_THAT(cifar.train.coarse_labels.to_vector(), testing::ElementsAre(19, 0));
  EXPECT_THAT(cifar.test.labels.to_vector(), testing::ElementsAre(42));
  EXPECT_FLOAT_EQ(cifar.train.images.span<float>()[32 * 32 * 3], 0.2f);
  EXPECT_FLOAT_EQ(cifar.train.images.span<float>()[1], 0);
  EXPECT_FLOAT_EQ(cifar.train.images.span<float>()[2], 1);
}

TEST_F(CifarHundred, BadFilesNameOffsetAndRecord) {
  EXPECT_ERROR(load(), ErrorCode::kIo, "train.bin");
  write("train.bin", record100(1, 1, 0) + record100(20, 1, 0));
  EXPECT_ERROR(load(), ErrorCode::kBadFormat, "offset 3074: record 1 has the label 20; expected 0 to 19");
  write("train.bin", record100(1, 100, 0));
  EXPECT_ERROR(load(), ErrorCode::kBadFormat, "offset 1: record 0 has the label 100; expected 0 to 99");
  const std::string whole = record100(1, 1, 0) + record100(1, 1, 0);
  for (const size_t size : {size_t{0}, size_t{1}, kRecord, kRecord + 2, whole.size() - 1}) {
    write("train.bin", whole.substr(0, size));
    EXPECT_ERROR(load(), ErrorCode::kBadFormat, "train.bin] offset");
  }
}

}  // namespace
}  // namespace isochron::data
