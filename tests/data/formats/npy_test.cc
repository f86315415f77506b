#include "isochron/data/formats/npy.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <cstring>

#include "isochron/core/files/file.h"
#include "isochron/memory/allocators/buffer.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::data {
namespace {

using testing::ElementsAre;

Tensor parse(std::string_view text) { return parse_npy(std::as_bytes(std::span(text)), "a.npy"); }

/// An NPY file of any version around a header's dictionary.
std::string npy(std::string dictionary, std::string_view content, int version = 1) {
  std::string result = "\x93NUMPY";
  result += {static_cast<char>(version), '\0'};
  dictionary += '\n';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) result += static_cast<char>(dictionary.size() >> (8 * i));
  return result + dictionary + std::string(content);
}

Tensor tensor_of(DType dtype, const Shape& shape) {
  const Tensor tensor = empty({dtype, shape});
  dispatch_dtype(dtype, [&]<typename T>(T) {
    for (int64_t i = 0; i < tensor.elems(); ++i) tensor.data<T>()[i] = T(static_cast<float>(i % 5));
  });
  return tensor;
}

void expect_equal(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.spec(), b.spec());
  EXPECT_EQ(a.to_vector(), b.to_vector());
}

TEST(Npy, EveryDtypeAndRankSurvivesTheRoundTrip) {
  for (DType dtype :
       {DType::kF64, DType::kF32, DType::kF16, DType::kI64, DType::kI32, DType::kU8, DType::kBool}) {
    for (const Shape& shape :
         {Shape{}, Shape{7}, Shape{0, 3}, Shape{2, 3, 4}, Shape{1, 1, 2, 1, 3, 1, 1, 2}}) {
      const Tensor tensor = tensor_of(dtype, shape);
      const std::string text = format_npy(tensor);
      EXPECT_EQ((text.size() - tensor.size_bytes()) % 64, 0u) << "NumPy aligns the content to 64 bytes";
      expect_equal(parse(text), tensor);
    }
  }
}

TEST(Npy, WritesWhatNumPyWrites) {
  std::array<int32_t, 2> values{1, -1};
  const std::string text = format_npy(Tensor::from_external(values.data(), {DType::kI32, {2}}));
  const std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }";
  const std::string expected = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header +
                               std::string(117 - header.size(), ' ') + "\n" +
                               std::string("\x01\x00\x00\x00\xff\xff\xff\xff", 8);
  EXPECT_EQ(text, expected);
}

TEST(Npy, WritesStridedTensorsInRowMajorOrder) {
  std::array<float, 6> values{1, 2, 3, 4, 5, 6};
  const Tensor transposed = Tensor::from_external(values.data(), {DType::kF32, {3, 2}}, {1, 3});
  EXPECT_THAT(parse(format_npy(transposed)).to_vector(), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(Npy, RefusesBf16AndLeavesNoFile) {
  const TempFolder folder;
  EXPECT_ERROR(write_npy(folder / "a.npy", tensor_of(DType::kBF16, {2})), ErrorCode::kUnsupported, "f32");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Npy, ReadsFortranOrderAndBigEndian) {
  const std::string_view column_major("\x01\x04\x02\x05\x03\x06", 6);
  EXPECT_THAT(
      parse(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", column_major)).to_vector(),
      ElementsAre(1, 2, 3, 4, 5, 6));
  const std::string_view big("\x00\x00\x00\x01\xff\xff\xff\xfe", 8);
  EXPECT_THAT(parse(npy("{'descr': '>i4', 'fortran_order': False, 'shape': (2,), }", big)).to_vector(),
              ElementsAre(1, -2));
}

TEST(Npy, ReadsEveryVersionAndKeyOrder) {
  for (int version : {1, 2, 3}) {
    EXPECT_THAT(parse(npy("{\"shape\":(),'fortran_order':False,'descr':'|u1'}", "\x07", version)).to_vector(),
                ElementsAre(7));
  }
  EXPECT_ERROR(parse(npy("{}", "", 4)), ErrorCode::kBadFormat, "version 4.0");
}

TEST(Npy, HeadersAreAsLongAsAnArraysMayBe) {
  const TempFolder folder;
  const std::string header = "{'shape':(),'fortran_order':False,'descr':'|u1'}";
  for (const size_t bytes : {65'536, 65'537, 1'000'000}) {
    const std::string text = npy(header + std::string(bytes - 1 - header.size(), ' '), "\x07", 2);
    write_file_atomically(folder / "a.npy", text);
    if (bytes <= 65'536) {
      EXPECT_THAT(parse(text).to_vector(), ElementsAre(7));
      EXPECT_THAT(read_npy(folder / "a.npy").to_vector(), ElementsAre(7));
      continue;
    }
    const std::string refused = fmt::format("the header has {} bytes; expected at most 65536", bytes);
    EXPECT_ERROR(parse(text), ErrorCode::kBadFormat, refused);
    EXPECT_ERROR(read_npy(folder / "a.npy"), ErrorCode::kBadFormat, refused);
  }
}

TEST(Npy, AnyByteButZeroIsTrue) {
  const Tensor flags = parse(
      npy("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", std::string_view("\x00\x07\x01", 3)));
  EXPECT_EQ(std::to_integer<int>(flags.raw()[1]), 1);
  EXPECT_THAT(flags.to_vector(), ElementsAre(0, 1, 1));
}

TEST(Npy, HostileHeadersAllocateNothing) {
  for (const char* shape : {"(4611686018427387904, 4)", "(0, 4611686018427387904, 4611686018427387904)",
                            "(1099511627776,)", "(9223372036854775807,)"}) {
    const std::string header =
        fmt::format("{{'descr': '<f8', 'fortran_order': False, 'shape': {}, }}", shape);
    EXPECT_THROW(parse(npy(header, "12345678")), Error) << shape;
  }
  EXPECT_ERROR(
      parse(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,), }", "12345678")),
      ErrorCode::kBadFormat, "expected 8796093022208 bytes of elements, got 8");
}

TEST(Npy, MalformedHeadersAreErrors) {
  const auto refuse = [](const std::string& dictionary, const std::string& text) {
    EXPECT_ERROR(parse(npy(dictionary, "1234")), ErrorCode::kBadFormat, text);
  };
  refuse("{'descr': '<c8', 'fortran_order': False, 'shape': (), }", "dtype '<c8' is not supported");
  refuse("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (), }", "records are not supported");
  refuse("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (), }", "True or False");
  refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", "extent >= 0");
  refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", "extent >= 0");
  refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1), }", "rank");
  refuse("{'descr': '<f4', 'fortran_order': False, }", "lacks");
  refuse("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (), }", "repeated key 'descr'");
  refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (), } x", "after the header's dictionary");
  refuse("{'descr': '<f4', 'fortran_order': False, 'shape': (", "extent");
  refuse("", "expected '{'");
  EXPECT_ERROR(parse("PK\x03\x04 something"), ErrorCode::kBadFormat, "is this an .npy file?");
}

TEST(Npy, TruncatedAnywhereOrTooLongIsAnError) {
  const std::string whole = format_npy(tensor_of(DType::kF32, {2, 3}));
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_ERROR(parse(whole.substr(0, size)), ErrorCode::kBadFormat, "truncated?");
  }
  EXPECT_ERROR(parse(whole + "x"), ErrorCode::kBadFormat, "1 unexpected bytes follow the array");
}

TEST(Npy, FlippedBitsGiveATensorOrATypedError) {
  const std::string whole = format_npy(tensor_of(DType::kF32, {2, 3}));
  int refused = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      try {
        EXPECT_LE(parse(flipped).size_bytes(), whole.size());
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kBadFormat) << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 8 * 60) << "every flip in the preamble and the dictionary's punctuation is noticed";
}

TEST(Npy, FilesAreReadAndMissingOnesReported) {
  const TempFolder folder;
  const Tensor tensor = tensor_of(DType::kI64, {3, 2});
  write_npy(folder / "a.npy", tensor);
  expect_equal(read_npy(folder / "a.npy"), tensor);
  EXPECT_ERROR(read_npy(folder / "b.npy"), ErrorCode::kIo, "b.npy");
}

class Npz : public testing::Test {
 protected:
  Npz() {
    const std::vector<std::pair<std::string, Tensor>> arrays{{"weights", tensor_of(DType::kF32, {2, 3})},
                                                             {"step", tensor_of(DType::kI64, {})}};
    write_npz(path_, arrays);
    const auto content = read_file(path_);
    whole_.assign(reinterpret_cast<const char*>(content.data()), content.size());
  }
  NpzFile parse_all(const std::string& text) { return parse_npz(std::as_bytes(std::span(text)), "a.npz"); }

  TempFolder folder_;
  std::filesystem::path path_ = folder_ / "a.npz";
  std::string whole_;
};

TEST_F(Npz, WrittenArraysAreReadBackByName) {
  const NpzFile file = read_npz(path_);
  ASSERT_EQ(file.size(), 2u);
  EXPECT_EQ(file.begin()->first, "weights");
  expect_equal(file.at("weights"), tensor_of(DType::kF32, {2, 3}));
  expect_equal(file.at("step"), tensor_of(DType::kI64, {}));
  EXPECT_TRUE(file.contains("step"));
  EXPECT_FALSE(file.contains("bias"));
  EXPECT_ERROR(file.at("bias"), ErrorCode::kOutOfRange, "no array 'bias'; the file has: weights, step");
}

TEST_F(Npz, NamesBeyondAsciiAreMarkedAsUtf8) {
  constexpr size_t kFlags = 6;  // in a local header
  EXPECT_EQ(whole_.substr(kFlags, 2), std::string("\0\0", 2));
  const std::vector<std::pair<std::string, Tensor>> arrays{{"gr\u00f6\u00dfe", tensor_of(DType::kF32, {2})}};
  write_npz(path_, arrays);
  const auto content = read_file(path_);
  EXPECT_EQ(content[kFlags], std::byte{0});
  EXPECT_EQ(content[kFlags + 1], std::byte{8});
  EXPECT_TRUE(read_npz(path_).contains("gr\u00f6\u00dfe"));
}

TEST_F(Npz, MayHoldMoreArraysThanAZipWithout64Bits) {
  constexpr int kArrays = 66'000;
  std::vector<std::pair<std::string, Tensor>> arrays;
  const Tensor one = tensor_of(DType::kU8, {1});
  for (int i = 0; i < kArrays; ++i) arrays.emplace_back("array_" + std::to_string(i), one);
  write_npz(path_, arrays);
  const NpzFile file = read_npz(path_);
  EXPECT_EQ(file.size(), static_cast<size_t>(kArrays));
  expect_equal(file.at("array_65999"), one);
}

TEST_F(Npz, BadNamesAreRefusedAndTheOldFileStays) {
  const std::vector<std::pair<std::string, Tensor>> twice(2, {"x", tensor_of(DType::kF32, {1})});
  EXPECT_ERROR(write_npz(path_, twice), ErrorCode::kInvalidArgument, "'x' appears twice");
  const std::vector<std::pair<std::string, Tensor>> unnamed{{"", tensor_of(DType::kF32, {1})}};
  EXPECT_ERROR(write_npz(path_, unnamed), ErrorCode::kInvalidArgument, "1 to 1024 bytes");
  const std::vector<std::pair<std::string, Tensor>> no_text{{"a\xff", tensor_of(DType::kF32, {1})}};
  EXPECT_ERROR(write_npz(path_, no_text), ErrorCode::kInvalidArgument, "the name 'a");
  EXPECT_EQ(read_npz(path_).size(), 2u);
}

TEST_F(Npz, NoArraysAtAllIsAValidFile) {
  write_npz(path_, {});
  EXPECT_EQ(read_npz(path_).size(), 0u);
}

TEST_F(Npz, TruncatedAnywhereIsAnError) {
  for (size_t size = 0; size < whole_.size(); ++size) {
    EXPECT_ERROR(parse_all(whole_.substr(0, size)), ErrorCode::kBadFormat, "a.npz");
  }
}

TEST_F(Npz, FlippedBitsNeverGiveOtherContent) {
  for (size_t i = 0; i < whole_.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole_;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      try {
        const NpzFile file = parse_all(flipped);
        expect_equal(file.at("weights"), tensor_of(DType::kF32, {2, 3}));
        expect_equal(file.at("step"), tensor_of(DType::kI64, {}));
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::kBadFormat) << error.what();
      }
    }
  }
}

TEST_F(Npz, DamagedContentNamesTheEntry) {
  std::string damaged = whole_;
  damaged[damaged.find("step.npy") + 100] ^= 1;
  EXPECT_ERROR(parse_all(damaged), ErrorCode::kBadFormat,
               "[a.npz: entry 'step.npy'] CRC error: the content is damaged");
  EXPECT_ERROR(parse_all(""), ErrorCode::kBadFormat, "[a.npz] the file is empty; is it an .npz file");
  EXPECT_ERROR(parse_all(std::string(100, 'x')), ErrorCode::kBadFormat, "Not a zip archive; is it an .npz");
}

TEST_F(Npz, SizesThatNoCompressionReachesAreRefused) {
  std::string claims = whole_;
  const size_t entry = claims.find("PK\1\2");
  for (const size_t size_at : {size_t{22}, entry + 24})
    claims.replace(size_at, 4, std::string("\0\0\0\x10", 4));
  EXPECT_ERROR(parse_all(claims), ErrorCode::kBadFormat,
               "[a.npz: entry 'weights.npy'] 268435456 bytes can't be compressed to 152");
}

TEST_F(Npz, ForeignEntriesAreRefused) {
  std::string foreign = whole_;
  for (size_t at = 0; (at = foreign.find("step.npy", at)) != std::string::npos;)
    foreign.replace(at, 8, "step.txt");
  EXPECT_ERROR(parse_all(foreign), ErrorCode::kBadFormat, "entry 'step.txt' is not an array");
}

TEST(NpzOfPython, StoredAndDeflatedAreRead) {
  EXPECT_EQ(read_npz(ISOCHRON_SOURCE_DIR "/tests/golden/ops_torch.npz").size(), 201u);
  const Tensor ramp = read_npz(ISOCHRON_SOURCE_DIR "/tests/data/formats/deflated.npz").at("ramp");
  ASSERT_EQ(ramp.spec(), (TensorSpec{DType::kF32, {1000}}));
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(ramp.data<float>()[i], static_cast<float>(i % 7));
}

TEST(NpzOfPython, DeflatedAndDamagedNeverGivesOtherContent) {
  const auto content = read_file(ISOCHRON_SOURCE_DIR "/tests/data/formats/deflated.npz");
  for (size_t i = 0; i < content.size(); ++i) {
    auto flipped = content;
    flipped[i] ^= std::byte{0x10};
    try {
      const Tensor ramp = parse_npz(flipped, "a.npz").at("ramp");
      ASSERT_EQ(ramp.data<float>()[999], 5.0f) << i;
    } catch (const Error& error) {
      EXPECT_THAT(error.code(), testing::AnyOf(ErrorCode::kBadFormat, ErrorCode::kOutOfRange))
          << error.what();
    }
  }
}

}  // namespace
}  // namespace isochron::data
