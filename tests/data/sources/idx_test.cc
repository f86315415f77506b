#include "isochron/data/sources/idx.h"

#include <gmock/gmock.h>

#include "isochron/memory/allocators/buffer.h"
#include "support/damage.h"
#include "support/expect_error.h"
#include "support/packed.h"
#include "support/temp_folder.h"

namespace isochron::data {
namespace {

using testing::ElementsAre;

std::string idx(char code, const std::string& extents, const std::string& content) {
  return std::string("\0\0", 2) + code + static_cast<char>(extents.size()) + [&] {
    std::string result;
    for (const char extent : extents) result += std::string("\0\0\0", 3) + extent;
    return result;
  }() + content;
}

class Idx : public testing::Test {
 protected:
  Tensor read(const std::string& content, const IdxOptions& options = {}) {
    write_quickly(path_, content);
    return read_idx(path_, options);
  }
  TempFolder folder_;
  std::filesystem::path path_ = folder_ / "a-ubyte";
};

TEST_F(Idx, EveryStoredTypeIsRead) {
  EXPECT_EQ(read(idx(8, "\2\3", "abcdef")).spec(), (TensorSpec{DType::kU8, {2, 3}}));
  EXPECT_THAT(read(idx(8, "\2", "\1\xff")).to_vector(), ElementsAre(1, 255));
  EXPECT_THAT(read(idx(9, "\2", "\1\xff")).to_vector(), ElementsAre(1, -1));
  EXPECT_THAT(read(idx(11, "\2", "\1\2\xff\xfe")).to_vector(), ElementsAre(258, -2));
  EXPECT_EQ(read(idx(11, "\1", "\1\2")).dtype(), DType::kI32);
  EXPECT_THAT(read(idx(12, "\1", "\1\2\3\4")).to_vector(), ElementsAre(0x01020304));
  EXPECT_THAT(read(idx(13, "\1", std::string("\xc0\x20\0\0", 4))).to_vector(), ElementsAre(-2.5));
  EXPECT_THAT(read(idx(14, "\1", std::string("\xc0\x04\0\0\0\0\0\0", 8))).to_vector(), ElementsAre(-2.5));
  EXPECT_EQ(read(idx(8, "", "x")).spec(), (TensorSpec{DType::kU8, {}}));
}

TEST_F(Idx, WrittenArraysAreReadBackPlainAndGzipped) {
  for (const DType dtype : {DType::kU8, DType::kI32, DType::kF32, DType::kF64}) {
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{0, 3}, Shape{2, 3, 4}}) {
      const Tensor tensor = empty({dtype, shape});
      dispatch_dtype(dtype, [&]<typename T>(T) {
        for (int64_t i = 0; i < tensor.elems(); ++i)
          tensor.data<T>()[i] = T(static_cast<float>(37 * i % 101));
      });
      for (const std::string& stored : {format_idx(tensor), packed(format_idx(tensor))}) {
        const Tensor back = read(stored);
        EXPECT_EQ(back.spec(), tensor.spec());
        EXPECT_EQ(back.to_vector(), tensor.to_vector());
      }
    }
  }
  EXPECT_ERROR(format_idx(empty({DType::kI64, {1}})), ErrorCode::kUnsupported, "convert the tensor first");
}

TEST_F(Idx, StridedTensorsAreWrittenInRowMajorOrder) {
  std::array<uint8_t, 6> values{1, 2, 3, 4, 5, 6};
  const Tensor transposed = Tensor::from_external(values.data(), {DType::kU8, {3, 2}}, {1, 3});
  EXPECT_EQ(format_idx(transposed), idx(8, "\3\2", "\1\4\2\5\3\6"));
}

TEST_F(Idx, OtherFilesAreErrors) {
  EXPECT_ERROR(read("P5 28 28"), ErrorCode::kBadFormat, "a-ubyte] byte 0: expected two zero bytes");
  EXPECT_ERROR(read(idx(10, "\1", "x")), ErrorCode::kBadFormat, "got 00 00 0a");
  EXPECT_ERROR(read(idx(8, std::string(9, '\1'), "x")), ErrorCode::kBadFormat, "byte 3: the array's rank 9");
  EXPECT_ERROR(read(idx(8, "\1", "xy")), ErrorCode::kBadFormat,
               "byte 9: unexpected bytes follow the array of (1)");
  EXPECT_ERROR(read(idx(8, "\2\2", "abcd"), {.limit_bytes = 3}), ErrorCode::kBadFormat, "limit of 3 bytes");
  EXPECT_ERROR(read_idx(folder_ / "none"), ErrorCode::kIo, "none");
}

TEST_F(Idx, TruncatedAnywhereIsAnError) {
  const std::string whole = idx(12, "\2\3", std::string(24, 'x'));
  const auto reads = [&](const std::string& cut) { read(cut); };
  expect_truncation_errors(whole, reads, ErrorCode::kBadFormat, "truncated?");
  expect_truncation_errors(packed(whole), reads, ErrorCode::kBadFormat, "a-ubyte]");
}

TEST_F(Idx, FlippedBitsGiveAnArrayOrATypedError) {
  const std::string whole = idx(11, "\2\3", std::string(12, 'x'));
  EXPECT_GT(count_refused_flips(whole, [&](const std::string& text) { read(text); }), 8 * 10u);
  EXPECT_GT(count_refused_flips(packed(whole), [&](const std::string& text) { read(text); }), 8 * 20u);
}

TEST_F(Idx, HostileExtentsAllocateNothing) {
  const std::string large(4, '\xff');
  const std::string one = std::string("\0\0\x08\1", 4) + large + "x";
  EXPECT_ERROR(read(one), ErrorCode::kBadFormat, "expected 4294967295 bytes of elements, got 1");
  EXPECT_ERROR(read(packed(one)), ErrorCode::kBadFormat, "expected 4294967295 bytes of elements, got");
  const std::string four = std::string("\0\0\x0e\4", 4) + large + large + large + large;
  EXPECT_ERROR(read(four), ErrorCode::kBadFormat, "exceeds the limit");
  const std::string zero = std::string("\0\0\x0e\4\0\0\0\0", 8) + large + large + large;
  EXPECT_ERROR(read(zero), ErrorCode::kBadFormat, "exceeds the limit");
}

class MnistFiles : public testing::Test {
 protected:
  MnistFiles() {
    for (const std::string part : {"train", "t10k"}) {
      write(part + "-images-idx3-ubyte", idx(8, "\2\1\2", std::string("\0\xff\x33\0", 4)));
      write(part + "-labels-idx1-ubyte.gz", packed(idx(8, "\2", std::string("\x09\0", 2))));
    }
  }
  void write(const std::string& name, const std::string& content) { write_quickly(folder_ / name, content); }
  TempFolder folder_;
};

TEST_F(MnistFiles, BecomeImagesAndLabels) {
  const Mnist mnist = load_mnist(folder_.path());
  EXPECT_EQ(mnist.train.images.spec(), (TensorSpec{DType::kF32, {2, 1, 2, 1}}));
  EXPECT_THAT(mnist.train.images.span<float>(), ElementsAre(0, 1, 0.2f, 0));
  EXPECT_THAT(mnist.test.labels.to_vector(), ElementsAre(9, 0));
}

TEST_F(MnistFiles, ThatDontFitTogetherAreErrors) {
  write("t10k-labels-idx1-ubyte.gz", packed(idx(8, "\1", "\1")));
  EXPECT_ERROR(load_mnist(folder_.path()), ErrorCode::kBadFormat, "expected 2 labels, one per image, got 1");
  write("t10k-labels-idx1-ubyte.gz", packed(idx(8, "\2", "\1\x0a")));
  EXPECT_ERROR(load_mnist(folder_.path()), ErrorCode::kBadFormat, "label 1 is 10; expected 0 to 9");
  write("train-images-idx3-ubyte", idx(8, "\4", "abcd"));
  EXPECT_ERROR(load_mnist(folder_.path()), ErrorCode::kBadFormat, "(N, height, width)");
  std::filesystem::remove(folder_ / "train-images-idx3-ubyte");
  EXPECT_ERROR(load_mnist(folder_.path()), ErrorCode::kIo, "train-images-idx3-ubyte");
}

}  // namespace
}  // namespace isochron::data
