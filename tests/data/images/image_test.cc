#include "isochron/data/images/image.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include <cmath>
#include <map>

#include "isochron/data/formats/npy.h"
#include "isochron/memory/allocators/buffer.h"
#include "support/damage.h"
#include "support/expect_error.h"

namespace isochron::data {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string text_of(const Tensor& bytes) {
  return {reinterpret_cast<const char*>(bytes.raw()), bytes.size_bytes()};
}

/// Waves, so that JPEG keeps them well.
Tensor picture(int64_t height, int64_t width, int64_t channels) {
  const Tensor image = empty({DType::kU8, {height, width, channels}});
  for (int64_t i = 0; i < image.elems(); ++i) {
    const int64_t x = i / channels % width, y = i / channels / width;
    const double wave =
        std::sin(0.2 * static_cast<double>(x) + 0.1 * static_cast<double>(y * (i % channels + 1)));
    image.data<uint8_t>()[i] = static_cast<uint8_t>(128 + 100 * wave);
  }
  return image;
}

void replace_number(std::string& text, size_t at, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) text[at + i] = static_cast<char>(value >> (8 * (bytes - 1 - i)));
}

class GoldenImages : public testing::Test {
 protected:
  NpzFile golden_ = read_npz(ISOCHRON_SOURCE_DIR "/tests/golden/images_tf.npz");
};

TEST_F(GoldenImages, HaveTensorFlowsPixels) {
  int compared = 0;
  for (const auto& [name, expected] : golden_) {
    const size_t at = name.find(".pixels");
    if (at == std::string::npos) continue;
    const int channels = name.back() - '0';
    const Tensor image =
        decode_image(bytes_of(text_of(golden_.at(name.substr(0, at) + ".file"))), channels, name);
    EXPECT_EQ(image.spec(), expected.spec()) << name;
    EXPECT_EQ(image.to_vector(), expected.to_vector()) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 26);
}

TEST_F(GoldenImages, TellTheirSizeAndChannels) {
  const std::map<std::string, int> channels = {
      {"jpeg_colour", 3}, {"jpeg_grey", 1},         {"png_alpha", 4},      {"png_colour", 3},
      {"png_palette", 3}, {"png_palette_alpha", 4}, {"png_grey_alpha", 4}, {"png_grey_1_bit", 1}};
  for (const auto& [name, expected] : channels) {
    const std::string file = text_of(golden_.at(name + ".file"));
    const ImageInfo info = read_image_info(bytes_of(file), name);
    EXPECT_EQ(info.format, name[0] == 'j' ? ImageFormat::kJpeg : ImageFormat::kPng);
    EXPECT_EQ(info.height, 9);
    EXPECT_EQ(info.width, 13);
    EXPECT_EQ(info.channels, expected) << name;
    EXPECT_EQ(decode_image(bytes_of(file), 0, name).spec().shape, (Shape{9, 13, expected}));
  }
}

TEST_F(GoldenImages, TruncatedAnywhereAreErrors) {
  for (const auto& [name, file] : golden_) {
    if (!name.ends_with(".file")) continue;
    expect_truncation_errors(
        text_of(file), [&](const std::string& cut) { decode_image(bytes_of(cut), 3, "a.img"); },
        ErrorCode::kBadFormat, "[a.img] ");
  }
}

TEST_F(GoldenImages, FlippedBitsGiveAnImageOrATypedError) {
  for (const auto& [name, file] : golden_) {
    if (!name.ends_with(".file")) continue;
    const std::string whole = text_of(file);
    const auto decode = [&](const std::string& text) {
      try {
        decode_image(bytes_of(text), 3, "a.img", {.max_side = 1000, .max_pixels = 100'000});
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kUnsupported) throw;
      }
    };
    const size_t refused = count_refused_flips(whole, decode);
    const size_t least = name.starts_with("png") ? 7 * whole.size() : whole.size();  // PNG has checksums
    EXPECT_GT(refused, least) << name;
  }
}

TEST(Images, OfPngSurviveTheRoundTrip) {
  for (const int64_t channels : {1, 3, 4}) {
    const Tensor image = picture(33, 21, channels);
    const Tensor back = decode_image(bytes_of(encode_png(image)), static_cast<int>(channels), "a.png");
    EXPECT_EQ(back.spec(), image.spec());
    EXPECT_EQ(back.to_vector(), image.to_vector());
  }
}

TEST(Images, OfJpegStayCloseOverTheRoundTrip) {
  for (const int64_t channels : {1, 3}) {
    const Tensor image = picture(40, 50, channels);
    const auto before = image.to_vector();
    const auto after =
        decode_image(bytes_of(encode_jpeg(image, 100)), static_cast<int>(channels), "a.jpg").to_vector();
    double error = 0;
    for (size_t i = 0; i < before.size(); ++i) error += std::abs(before[i] - after[i]);
    EXPECT_LT(error / static_cast<double>(before.size()), 3);
    EXPECT_LT(encode_jpeg(image, 10).size(), encode_jpeg(image, 95).size());
  }
}

TEST(Images, AreConvertedBetweenGrayColorAndAlpha) {
  const Tensor color = empty({DType::kU8, {1, 1, 3}});
  std::ranges::copy(std::array<uint8_t, 3>{200, 100, 50}, color.data<uint8_t>());
  const std::string file = encode_png(color);
  EXPECT_NEAR(decode_image(bytes_of(file), 1, "a").to_vector()[0], 0.299 * 200 + 0.587 * 100 + 0.114 * 50, 1);
  EXPECT_THAT(decode_image(bytes_of(file), 4, "a").to_vector(), testing::ElementsAre(200, 100, 50, 255));
  const std::string gray = encode_jpeg(picture(8, 8, 1), 90);
  const auto alpha = decode_image(bytes_of(gray), 4, "a").to_vector();
  EXPECT_EQ(alpha[0], alpha[1]);
  EXPECT_EQ(alpha[3], 255);
}

TEST(Images, OfPngAreReadWithoutWhatStandsBesideThePixels) {
  const Tensor image = picture(5, 6, 3);
  std::string file = encode_png(image);
  const auto plain = decode_image(bytes_of(file), 1, "a").to_vector();
  std::string chunk = "gAMA";
  for (const char byte : {0, 2, 0, 0}) chunk += byte;  // 1.31
  const auto crc = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(chunk.data()), static_cast<uInt>(chunk.size())));
  chunk = std::string("\0\0\0\4", 4) + chunk + std::string(4, '\0');
  replace_number(chunk, 12, crc, 4);
  file.insert(33, chunk);  // after the header
  EXPECT_EQ(decode_image(bytes_of(file), 1, "a").to_vector(), plain);
  EXPECT_EQ(decode_image(bytes_of(file), 3, "a").to_vector(), image.to_vector());
  file[45] = static_cast<char>(file[45] ^ 1);  // of the chunk's checksum
  EXPECT_EQ(decode_image(bytes_of(file), 3, "a").to_vector(), image.to_vector());
}

TEST(Images, BeyondTheLimitsAreErrors) {
  const std::string file = encode_png(picture(20, 30, 1));
  EXPECT_ERROR(decode_image(bytes_of(file), 1, "a.png", {.max_side = 29}), ErrorCode::kBadFormat,
               "[a.png] the image has 20 x 30 pixels");
  EXPECT_ERROR(read_image_info(bytes_of(file), "a.png", {.max_pixels = 599}), ErrorCode::kBadFormat,
               "20 x 30");
  EXPECT_EQ(read_image_info(bytes_of(file), "a.png", {.max_side = 30, .max_pixels = 600}).width, 30);
}

TEST(Images, HostileSizesAskForNoMemory) {
  std::string jpeg = encode_jpeg(picture(16, 16, 3));
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  replace_number(jpeg, frame + 5, 60000, 2);
  replace_number(jpeg, frame + 7, 60000, 2);
  const ImageLimits none = {.max_side = 1 << 20, .max_pixels = int64_t{1} << 40};
  EXPECT_ERROR(decode_image(bytes_of(jpeg), 3, "a.jpg"), ErrorCode::kBadFormat, "60000 x 60000 pixels");
  EXPECT_ERROR(decode_image(bytes_of(jpeg), 3, "a.jpg", none), ErrorCode::kBadFormat,
               "are too few for the 60000 x 60000");
  std::string png = encode_png(picture(16, 16, 3));
  replace_number(png, 16, 900'000, 4);
  replace_number(png, 20, 900'000, 4);
  EXPECT_ERROR(decode_image(bytes_of(png), 3, "a.png", none), ErrorCode::kBadFormat, "a.png");
}

TEST(Images, ScansThatRepeatAreRefused) {
  // The scans of a progressive file, with the first repeated many times.
  const NpzFile golden = read_npz(ISOCHRON_SOURCE_DIR "/tests/golden/images_tf.npz");
  const std::string file = text_of(golden.at("jpeg_progressive.file"));
  const size_t first = file.find("\xff\xda"), second = file.find("\xff\xda", first + 2);
  const size_t tables = file.rfind("\xff\xc4", second);
  const std::string scan = file.substr(first, tables - first);
  std::string many = file.substr(0, first);
  for (int i = 0; i < 2000; ++i) many += scan;
  EXPECT_ERROR(decode_image(bytes_of(many + "\xff\xd9"), 3, "a.jpg"), ErrorCode::kBadFormat, "a.jpg");
}

TEST(Images, WrongCallsAreErrors) {
  const Tensor image = picture(4, 5, 3);
  const std::string file = encode_png(image);
  std::vector<std::byte> small(10);
  EXPECT_ERROR(decode_image(bytes_of(file), 3, small, "a.png"), ErrorCode::kInvalidArgument,
               "an image of (4, 5, 3) has 60 bytes, but the memory for it has 10");
  EXPECT_ERROR(decode_image(bytes_of(file), 2, "a.png"), ErrorCode::kInvalidArgument,
               "1, 3 or 4 channels, got 2");
  EXPECT_ERROR(decode_image(bytes_of("GIF89a"), 3, "a.gif"), ErrorCode::kBadFormat,
               "neither a JPEG nor a PNG");
  EXPECT_ERROR(decode_image({}, 3, "a.gif"), ErrorCode::kBadFormat, "neither");
  EXPECT_ERROR(encode_jpeg(picture(4, 5, 4)), ErrorCode::kInvalidArgument,
               "1 or 3 channels, got u8(4, 5, 4)");
  EXPECT_ERROR(encode_jpeg(image, 0), ErrorCode::kInvalidArgument, "[1, 100]");
  EXPECT_ERROR(encode_png(empty({DType::kF32, {4, 5, 3}})), ErrorCode::kInvalidArgument,
               "expected a contiguous u8");
}

}  // namespace
}  // namespace isochron::data
