#include "isochron/nn/weights/safetensors.h"

#include <gmock/gmock.h>

#include <array>

#include "isochron/core/telemetry/counters.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::nn {
namespace {

using testing::ElementsAre;
using Named = std::vector<std::pair<std::string, Tensor>>;

constexpr std::array kDtypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16,
                                DType::kI64, DType::kI32, DType::kU8,  DType::kBool};

std::string text_of(const std::filesystem::path& path) {
  const auto bytes = read_file(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

class Safetensors : public testing::Test {
 protected:
  SafetensorsFile open(const std::string& content) {
    write_file_atomically(path_, content);
    return SafetensorsFile(path_);
  }
  /// A file of a header and so many bytes of data.
  SafetensorsFile open(const std::string& header, size_t data_bytes) {
    const uint64_t size = header.size();
    return open(std::string(reinterpret_cast<const char*>(&size), 8) + header +
                std::string(data_bytes, '\1'));
  }
  void refuse(const std::string& header, size_t data_bytes, const std::string& text) {
    EXPECT_ERROR(open(header, data_bytes), ErrorCode::kBadFormat, text);
  }
  std::string small_file() {
    const Named tensors{{"a", arange(3, DType::kF32)}, {"b", ones({2}, DType::kBool)}};
    write_safetensors(path_, tensors, {{"k", "v"}});
    return text_of(path_);
  }

  TempFolder folder_;
  std::filesystem::path path_ = folder_ / "w.safetensors";
};

TEST_F(Safetensors, EveryDtypeAndRankSurvivesTheRoundTrip) {
  Named tensors;
  for (const DType dtype : kDtypes) {
    for (const Shape& shape : {Shape{}, Shape{7}, Shape{0, 3}, Shape{1, 1, 2, 1, 3, 1, 1, 2}}) {
      std::vector<double> values(static_cast<size_t>(shape.elems()));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 5);
      tensors.emplace_back(fmt::format("{}/{}", dtype_name(dtype), shape.str()),
                           from_vector(shape, values, dtype));
    }
  }
  const SafetensorsMetadata metadata{{"format", "pt"}, {"note", "caf\u00e9 \"quoted\"\n"}};
  write_safetensors(path_, tensors, metadata);
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.entries().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const Tensor read = file.read(name);
    EXPECT_EQ(read.spec(), tensor.spec()) << name;
    EXPECT_EQ(read.to_vector(), tensor.to_vector()) << name;
  }
  for (const SafetensorsEntry& entry : file.entries()) {
    EXPECT_EQ(entry.begin % dtype_size(entry.spec.dtype), 0u) << entry.name << " is not aligned";
  }
}

TEST_F(Safetensors, WritesTheBytesOfTheFormat) {
  const Named tensors{{"flag", ones({1}, DType::kU8)}, {"w", from_vector({2}, {1, -2}, DType::kI32)}};
  write_safetensors(path_, tensors);
  const std::string header =
      R"({"w":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},"flag":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(text_of(path_), std::string(1, static_cast<char>(padded.size())) + std::string(7, '\0') + padded +
                                std::string("\1\0\0\0\xfe\xff\xff\xff\1", 9));
}

TEST_F(Safetensors, WritesStridedTensorsInRowMajorOrder) {
  std::array<float, 6> values{1, 2, 3, 4, 5, 6};
  const Named tensors{{"t", Tensor::from_external(values.data(), {DType::kF32, {3, 2}}, {1, 3})}};
  write_safetensors(path_, tensors);
  EXPECT_THAT(SafetensorsFile(path_).read("t").to_vector(), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST_F(Safetensors, ReadsFilesOfTheFormatsOwnLibrary) {
  const SafetensorsFile file(ISOCHRON_SOURCE_DIR "/tests/golden/weights_torch.safetensors");
  EXPECT_EQ(file.metadata(), (SafetensorsMetadata{{"format", "pt"}, {"note", "caf\u00e9"}}));
  for (const DType dtype : kDtypes) {
    const Tensor tensor = file.read(fmt::format("dtype.{}", dtype_name(dtype)));
    EXPECT_EQ(tensor.spec(), (TensorSpec{dtype, {2, 3}}));
    const bool boolean = dtype == DType::kBool;
    EXPECT_EQ(tensor.to_vector(),
              boolean ? (std::vector<double>{0, 1, 1, 1, 1, 0}) : (std::vector<double>{0, 1, 2, 3, 4, 0}));
  }
  EXPECT_EQ(file.read("shape.scalar").item<double>(), 2.5);
  EXPECT_EQ(file.read("shape.empty").shape(), (Shape{0, 3}));
  EXPECT_ERROR(file.read("none"), ErrorCode::kOutOfRange, "no tensor 'none' among");
}

TEST_F(Safetensors, NoTensorsAtAllIsAValidFile) {
  write_safetensors(path_, Named{});
  EXPECT_TRUE(SafetensorsFile(path_).entries().empty());
  EXPECT_TRUE(open("{}   ", 0).entries().empty());
}

TEST_F(Safetensors, AnyByteButZeroIsTrue) {
  const SafetensorsFile file = open(R"({"b":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})", 2);
  EXPECT_EQ(std::to_integer<int>(file.read("b").raw()[1]), 1);
  std::string content = text_of(path_);
  content.back() = '\7';
  EXPECT_EQ(std::to_integer<int>(open(content).read("b").raw()[1]), 1);
}

TEST_F(Safetensors, TruncatedAnywhereOrTooLongIsAnError) {
  const std::string whole = small_file();
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_ERROR(open(whole.substr(0, size)), ErrorCode::kBadFormat, "w.safetensors] byte ");
  }
  EXPECT_ERROR(open(whole + "x"), ErrorCode::kBadFormat, "1 bytes follow the last tensor");
}

TEST_F(Safetensors, FlippedBitsGiveTensorsOrATypedError) {
  const std::string whole = small_file();
  int refused = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      try {
        const SafetensorsFile file = open(flipped);
        for (const SafetensorsEntry& entry : file.entries()) file.read(entry.name);
      } catch (const Error& error) {
        EXPECT_THAT(error.code(), testing::AnyOf(ErrorCode::kBadFormat, ErrorCode::kUnsupported))
            << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 8 * 100) << "flips in the length, the punctuation, keys and numbers are noticed";
}

TEST_F(Safetensors, HostileLengthsAllocateNothing) {
  const auto of_length = [&](uint64_t length) {
    return open(std::string(reinterpret_cast<const char*>(&length), 8) + "{}");
  };
  EXPECT_ERROR(of_length(UINT64_MAX), ErrorCode::kBadFormat, "claims 18446744073709551615 bytes");
  EXPECT_ERROR(of_length(100'000'001), ErrorCode::kBadFormat, "at most 100000000");
  EXPECT_ERROR(of_length(100'000'000), ErrorCode::kBadFormat, "expected 100000000 bytes of header, got 2");
  for (const char* shape :
       {"[4611686018427387904,4]", "[0,4611686018427387904,4611686018427387904]", "[9223372036854775807]"}) {
    refuse(fmt::format(R"({{"a":{{"dtype":"F64","shape":{},"data_offsets":[0,8]}}}})", shape), 8,
           "entry 'a'");
  }
  refuse(R"({"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,8]}})", 8, "64 bits");
  refuse(R"({"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,8]}})", 8, "not a count");
}

TEST_F(Safetensors, MalformedHeadersAreErrors) {
  const auto entry = [](const std::string& fields) { return "{\"a\":{" + fields + "}}"; };
  refuse(" {}", 0, "byte 8: expected the header's '{'");
  refuse("{} x", 0, "valid JSON");
  refuse(std::string("{}\0, garbage", 12), 0, "byte 10: a NUL");
  refuse("{\"a\"", 0, "valid JSON");
  refuse("{\"a\":1}", 0, "unexpected a number");
  refuse("{\"a\":[]}", 0, "unexpected a list");
  refuse("{\"a\":{}}", 0, "lacks dtype");
  refuse("{\"a\xff\":{}}", 0, "valid JSON");
  refuse("{\"__metadata__\":{\"k\":1}}", 0, "unexpected a number");
  refuse("{\"__metadata__\":{\"k\":{\"l\":\"m\"}}}", 0, "unexpected an object");
  refuse("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "has a key twice");
  refuse("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "appears twice");
  refuse(entry(R"("dtype":"F32","shape":[],"data_offsets":[0,4],"more":1)"), 4,
         "unexpected or repeated key 'more'");
  refuse(entry(R"("dtype":"F32","dtype":"F32")"), 4, "repeated key 'dtype'");
  refuse(entry(R"("dtype":"X9","shape":[],"data_offsets":[0,4])"), 4, "dtype 'X9' is not supported");
  EXPECT_ERROR(open(entry(R"("dtype":"I8","shape":[4],"data_offsets":[0,4])"), 4), ErrorCode::kUnsupported,
               "entry 'a': dtype 'I8' is not supported; expected one of F64");
  refuse(entry(R"("dtype":3)"), 4, "unexpected a number");
  refuse(entry(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), 4, "negative");
  refuse(entry(R"("dtype":"F32","shape":[1.5],"data_offsets":[0,4])"), 4, "not a count");
  refuse(entry(R"("dtype":"F32","shape":[[1]],"data_offsets":[0,4])"), 4, "unexpected a list");
  refuse(entry(R"("dtype":"F32","shape":[null],"data_offsets":[0,4])"), 4, "unexpected null");
  refuse(entry(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4])"), 4, "more axes than 8");
  refuse(entry(R"("dtype":"F32","shape":[1],"data_offsets":[0])"), 4, "two data_offsets");
  refuse(entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])"), 4, "two data_offsets");
  refuse(entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])"), 4, "outside the 4 bytes");
  refuse(entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,8])"), 4, "outside the 4 bytes");
  refuse(entry(R"("dtype":"F32","shape":[2],"data_offsets":[18446744073709551608,18446744073709551615])"), 4,
         "entry 'a': data_offsets [18446744073709551608");
  refuse(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4, "f32(2) takes 8 bytes");
}

TEST_F(Safetensors, OverlapsHolesAndRepeatsAreErrors) {
  const auto two = [](const std::string& second, int a_begin, int a_end, int b_begin, int b_end) {
    return fmt::format(R"({{"a":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}},)"
                       R"("{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
                       a_end - a_begin, a_begin, a_end, second, b_end - b_begin, b_begin, b_end);
  };
  EXPECT_EQ(open(two("b", 0, 4, 4, 8), 8).entries().size(), 2u);
  EXPECT_EQ(open(two("b", 4, 8, 0, 4), 8).entries()[0].name, "b");
  EXPECT_EQ(open(two("b", 0, 8, 8, 8), 8).entries().size(), 2u) << "an empty tensor at the end";
  refuse(two("b", 0, 4, 3, 8), 8, "neither overlap nor leave holes");
  refuse(two("b", 0, 4, 5, 8), 8, "entry 'b': data_offsets begin at 5, expected 4");
  refuse(two("b", 1, 4, 4, 8), 8, "begin at 1, expected 0");
  refuse(two("b", 0, 4, 4, 7), 8, "1 bytes follow the last tensor");
  refuse(two("a", 0, 4, 4, 8), 8, "entry 'a': appears twice");
  refuse(two("\\u0061", 0, 4, 4, 8), 8, "entry 'a': appears twice");
}

TEST_F(Safetensors, DeepNestingAndLongNamesCostNothing) {
  const size_t depth = 1'000'000;
  refuse("{\"a\":" + std::string(depth, '['), 0, "unexpected a list");
  refuse("{\"a\":{\"shape\":" + std::string(depth, '['), 0, "unexpected a list");
  const std::string name(depth, 'n');
  try {
    open("{\"" + name + "\":1}", 0);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 600u);
  }
}

TEST_F(Safetensors, FilesThatCantBeReadAreErrors) {
  EXPECT_ERROR(SafetensorsFile(folder_ / "none"), ErrorCode::kIo, "none] cannot open");
  EXPECT_ERROR(SafetensorsFile(folder_.path()), ErrorCode::kIo, "is not a regular file");
  EXPECT_ERROR(SafetensorsFile("/dev/zero"), ErrorCode::kIo, "is not a regular file");
}

TEST_F(Safetensors, AFileCutShortAfterOpeningIsAnError) {
  small_file();
  const SafetensorsFile file(path_);
  std::filesystem::resize_file(path_, 20);
  EXPECT_ERROR(file.read("a"), ErrorCode::kIo, "ends at byte");
}

TEST_F(Safetensors, BadNamesAreRefusedAndTheOldFileStays) {
  const std::string whole = small_file();
  const auto refuse_names = [&](const Named& tensors, const std::string& text) {
    EXPECT_ERROR(write_safetensors(path_, tensors), ErrorCode::kInvalidArgument, text);
    EXPECT_EQ(text_of(path_), whole);
  };
  refuse_names({{"x", ones({1})}, {"x", ones({1})}}, "'x' is reserved or appears twice");
  refuse_names({{"__metadata__", ones({1})}}, "reserved");
  refuse_names({{"x", Tensor()}}, "'x' is undefined");
  refuse_names({{"\xff", ones({1})}}, "UTF-8");
}

TEST_F(Safetensors, WrittenBytesAreCountedWhileTheFileIsMade) {
  const int64_t before = counter_value(Counter::kWeightBytes);
  int64_t at_second = 0;
  const Tensor large = ones({700'000}), small = ones({2});  // three pieces of at most 1 MiB
  const std::vector<SafetensorsSource> sources{{"a", large.spec(), [&] { return large; }},
                                               {"b", small.spec(), [&] {
                                                  at_second = counter_value(Counter::kWeightBytes) - before;
                                                  return small;
                                                }}};
  write_safetensors(path_, sources);
  EXPECT_EQ(at_second, 2'800'000);
  EXPECT_EQ(static_cast<uintmax_t>(counter_value(Counter::kWeightBytes) - before),
            std::filesystem::file_size(path_));
  const SafetensorsFile file(path_);
  EXPECT_EQ(file.read("a").to_vector(), large.to_vector());
}

TEST_F(Safetensors, ATensorUnlikeItsAnnouncementLeavesTheOldFile) {
  const std::string whole = small_file();
  const std::vector<SafetensorsSource> sources{{"x", {DType::kF32, {2}}, [] { return ones({2}); }},
                                               {"y", {DType::kF32, {2}}, [] { return ones({3}); }}};
  EXPECT_ERROR(write_safetensors(path_, sources), ErrorCode::kInvalidArgument,
               "'y' is f32(3), announced as f32(2)");
  EXPECT_EQ(text_of(path_), whole);
}

}  // namespace
}  // namespace isochron::nn
