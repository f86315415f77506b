#include "isochron/data/images/image_ops.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "isochron/data/formats/npy.h"
#include "isochron/memory/allocators/buffer.h"
#include "support/expect_error.h"

namespace isochron::data {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::ElementsAreArray;
using Bytes = std::vector<uint8_t>;

ImageView<uint8_t> view(Bytes& pixels, int64_t height, int64_t width, int64_t channels) {
  EXPECT_EQ(pixels.size(), static_cast<size_t>(height * width * channels));
  return {pixels.data(), height, width, channels};
}

Bytes counting(size_t elems) {
  Bytes result(elems);
  std::iota(result.begin(), result.end(), uint8_t{0});
  return result;
}

TEST(ImageResize, IsPyTorchsInterpolation) {
  const NpzFile golden = read_npz(ISOCHRON_SOURCE_DIR "/tests/golden/resize_torch.npz");
  const Tensor x = golden.at("x");  // f64 (2, 5, 7, 3)
  std::vector<float> images(static_cast<size_t>(x.elems()));
  std::ranges::transform(x.span<double>(), images.begin(),
                         [](double value) { return static_cast<float>(value); });
  ImageScratch scratch;
  for (const std::string size : {"up", "down", "mixed", "flat"}) {
    for (const bool antialias : {false, true}) {
      const Tensor expected = golden.at(size + (antialias ? ".linear_antialias.y" : ".linear.y"));
      const int64_t height = expected.extent(1), width = expected.extent(2);
      for (int64_t n = 0; n < 2; ++n) {
        std::vector<float> result(static_cast<size_t>(height * width * 3));
        resize(ImageView<const float>(images.data() + n * 5 * 7 * 3, 5, 7, 3),
               ImageView<float>(result.data(), height, width, 3), scratch, {.antialias = antialias});
        for (size_t i = 0; i < result.size(); ++i) {
          ASSERT_NEAR(result[i], expected.data<double>()[n * height * width * 3 + static_cast<int64_t>(i)],
                      2e-6)
              << size << antialias;
        }
      }
    }
  }
}

TEST(ImageResize, KeepsWhatFitsAndRoundsBytesToNearest) {
  ImageScratch scratch;
  Bytes image = counting(60), same(60);
  resize(view(image, 4, 5, 3), view(same, 4, 5, 3), scratch);
  EXPECT_EQ(same, image);
  Bytes pair = {0, 255, 10, 11}, one(1);
  resize(view(pair, 1, 4, 1), view(one, 1, 1, 1), scratch);
  EXPECT_EQ(one[0], 80) << "weights 5 7 7 5 of a triangle that is 8 pixels wide";
  std::array<float, 4> floats;
  resize(view(pair, 1, 4, 1), ImageView<float>(floats.data(), 1, 4, 1), scratch);
  EXPECT_THAT(floats, ElementsAre(0.0f, 1.0f, 10 / 255.0f, 11 / 255.0f));
}

TEST(ImageResize, ReadsPartsAndAnyNumberOfChannels) {
  ImageScratch scratch;
  Bytes image = counting(4 * 6 * 2), part(2 * 3 * 2);
  resize(view(image, 4, 6, 2).part(1, 2, 2, 3), view(part, 2, 3, 2), scratch);
  EXPECT_THAT(part, ElementsAre(16, 17, 18, 19, 20, 21, 28, 29, 30, 31, 32, 33));
  EXPECT_ERROR(view(image, 4, 6, 2).part(3, 0, 2, 1), ErrorCode::kOutOfRange, "lies outside");
  Bytes other(2 * 3);
  EXPECT_ERROR(resize(view(image, 4, 6, 2), view(other, 2, 3, 1), scratch), ErrorCode::kShapeMismatch,
               "can't resize (4, 6, 2) to (2, 3, 1)");
  EXPECT_ERROR(resize(ImageView<const uint8_t>(), view(other, 2, 3, 1), scratch), ErrorCode::kShapeMismatch,
               "(0");
}

TEST(ImageViews, AreMadeOfTensors) {
  const Tensor image = empty({DType::kU8, {4, 6, 3}});
  const ImageView<const uint8_t> all(image);
  EXPECT_EQ(all.pixels, image.data<uint8_t>());
  EXPECT_EQ(all.row(2), image.data<uint8_t>() + 36);
  EXPECT_EQ(all.part(1, 2, 3, 4).row(1) - all.pixels, 2 * 18 + 6);
  EXPECT_ERROR(ImageView<float>(image), ErrorCode::kDtypeMismatch, "expected f32, got u8(4, 6, 3)");
  EXPECT_ERROR(ImageView<uint8_t>(empty({DType::kU8, {4, 6}})), ErrorCode::kShapeMismatch,
               "(height, width, channels)");
}

TEST(ImageCrop, TakesTheMiddleOrARandomPlace) {
  Bytes image = counting(5 * 5), crop(9);
  center_crop(view(image, 5, 5, 1), view(crop, 3, 3, 1));
  EXPECT_THAT(crop, ElementsAre(6, 7, 8, 11, 12, 13, 16, 17, 18));
  std::set<uint8_t> corners;
  for (uint64_t element = 0; element < 200; ++element) {
    random_crop(view(image, 5, 5, 1), view(crop, 3, 3, 1), {.element = element});
    corners.insert(crop[0]);
    for (int i = 0; i < 9; ++i) ASSERT_EQ(crop[i], crop[0] + i / 3 * 5 + i % 3);
  }
  EXPECT_THAT(corners, ElementsAre(0, 1, 2, 5, 6, 7, 10, 11, 12)) << "each place occurs, and no other";
}

TEST(ImageCrop, PadsWithZeros) {
  Bytes image(4 * 4, 9), crop(16);
  std::set<int> counts;
  for (uint64_t element = 0; element < 300; ++element) {
    random_crop(view(image, 4, 4, 1), view(crop, 4, 4, 1), {.element = element}, 2);
    const auto inside = std::ranges::count(crop, 9), outside = std::ranges::count(crop, 0);
    EXPECT_EQ(inside + outside, 16);
    counts.insert(static_cast<int>(inside));
  }
  EXPECT_THAT(counts, ElementsAre(4, 6, 8, 9, 12, 16));
  Bytes large(8 * 9, 1);
  random_crop(view(image, 4, 4, 1), view(large, 8, 9, 1).part(0, 0, 8, 8), {}, 2);
  EXPECT_EQ(std::ranges::count(large, 9), 16) << "all of it, and the last column is not written to";
  EXPECT_ERROR(random_crop(view(image, 4, 4, 1), view(large, 8, 9, 1), {}, 2), ErrorCode::kShapeMismatch,
               "padding");
  EXPECT_ERROR(random_crop(view(image, 4, 4, 1), view(crop, 4, 4, 1), {}, -1), ErrorCode::kInvalidArgument,
               "-1");
}

TEST(ImageCrop, ResizedPartsLieWithinTheirBounds) {
  Bytes image(40 * 60 * 3);
  for (size_t i = 0; i < image.size(); ++i)
    image[i] = static_cast<uint8_t>(i / 3 % 60 * 4);  // brighter to the right
  Bytes crop(8 * 8 * 3);
  ImageScratch scratch;
  std::set<int> spans;
  for (uint64_t element = 0; element < 200; ++element) {
    random_resized_crop(view(image, 40, 60, 3), view(crop, 8, 8, 3), {.element = element}, scratch,
                        {.smallest_area = 0.2, .largest_area = 0.5});
    // 8 pixels of width w / 8 each; the outer centers lie 7 w / 8 apart, each worth 4.
    const double width = (crop[21] - crop[0]) / 4.0 * 8 / 7;
    EXPECT_GE(width, std::sqrt(0.2 * 2400 * 0.75) - 4);
    EXPECT_LE(width, std::sqrt(0.5 * 2400 * 4 / 3) + 4);
    spans.insert(static_cast<int>(width));
  }
  EXPECT_GT(spans.size(), 10u);
  EXPECT_ERROR(
      random_resized_crop(view(image, 40, 60, 3), view(crop, 8, 8, 3), {}, scratch, {.smallest_area = 0}),
      ErrorCode::kInvalidArgument, "smallest");
  Bytes line(200, 7), small(4);
  random_resized_crop(view(line, 1, 200, 1), view(small, 2, 2, 1), {}, scratch);
  EXPECT_THAT(small, Each(7)) << "no try fits; the middle is taken";
}

TEST(ImageFlip, MirrorsHalfOfTheImages) {
  int flipped = 0;
  for (uint64_t element = 0; element < 1000; ++element) {
    Bytes image = counting(2 * 3 * 2);
    random_flip(view(image, 2, 3, 2), {.seed = 5, .element = element});
    if (image == counting(12)) continue;
    EXPECT_THAT(image, ElementsAre(4, 5, 2, 3, 0, 1, 10, 11, 8, 9, 6, 7));
    ++flipped;
  }
  EXPECT_GT(flipped, 430);
  EXPECT_LT(flipped, 570);
}

TEST(ImageFlip, TurnsUpsideDown) {
  Bytes image = counting(3 * 2);
  random_flip(view(image, 3, 2, 1), {}, {.horizontal = 0, .vertical = 1});
  EXPECT_THAT(image, ElementsAre(4, 5, 2, 3, 0, 1));
  EXPECT_ERROR(random_flip(view(image, 3, 2, 1), {}, {.horizontal = 1.5}), ErrorCode::kInvalidArgument,
               "1.5");
}

TEST(ImageNormalize, SubtractsMeansAndDividesByDeviations) {
  Bytes image = {0, 255, 51, 0};
  std::array<float, 4> result;
  const std::array<float, 2> mean = {0.5f, 0.25f}, stddev = {0.5f, 0.1f};
  const ImageView<float> to(result.data(), 1, 2, 2);
  normalize(view(image, 1, 2, 2), to, mean, stddev);
  EXPECT_THAT(result, ElementsAre(-1, testing::FloatEq(7.5f), testing::FloatNear(-0.6f, 1e-6f), -2.5f));
  normalize(to, to, std::array<float, 2>{1, 1}, std::array<float, 2>{2, 2});
  EXPECT_EQ(result[0], -1);
  EXPECT_ERROR(normalize(to, to, mean, std::array<float, 2>{1, 0}), ErrorCode::kInvalidArgument,
               "standard deviation is 0");
  EXPECT_ERROR(normalize(to, to, mean, std::array<float, 1>{1}), ErrorCode::kShapeMismatch,
               "1 standard deviations");
}

/// A jitter of one property alone, drawn until its factor is far from 1.
std::array<float, 3> jittered(std::array<float, 3> pixel, const ColorJitterOptions& options,
                              uint64_t element) {
  color_jitter(ImageView<float>(pixel.data(), 1, 1, 3), {.element = element}, options);
  return pixel;
}

TEST(ColorJitter, ScalesTheBrightness) {
  for (uint64_t element = 0; element < 50; ++element) {
    const auto pixel = jittered({0.1f, 0.2f, 0.4f}, {.brightness = 0.5}, element);
    const float factor = pixel[0] / 0.1f;
    EXPECT_GE(factor, 0.5f - 1e-5f);
    EXPECT_LE(factor, 1.5f + 1e-5f);
    EXPECT_NEAR(pixel[1], 0.2f * factor, 1e-6);
    EXPECT_NEAR(pixel[2], 0.4f * factor, 1e-6);
  }
}

TEST(ColorJitter, BlendsSaturationWithTheLuma) {
  const float luma = 0.299f * 0.5f + 0.587f * 0.25f + 0.114f * 0.4f;
  for (uint64_t element = 0; element < 50; ++element) {
    const auto pixel = jittered({0.5f, 0.25f, 0.4f}, {.saturation = 0.9}, element);
    const float factor = (pixel[0] - luma) / (0.5f - luma);
    EXPECT_NEAR(pixel[1] - luma, factor * (0.25f - luma), 1e-5);
    EXPECT_NEAR(pixel[2] - luma, factor * (0.4f - luma), 1e-5);
    EXPECT_NEAR(0.299f * pixel[0] + 0.587f * pixel[1] + 0.114f * pixel[2], luma, 1e-5) << "luma stays";
  }
}

TEST(ColorJitter, BlendsContrastWithTheMeanLuma) {
  for (uint64_t element = 0; element < 20; ++element) {
    std::array<float, 4> gray = {0.2f, 0.4f, 0.5f, 0.5f};
    color_jitter(ImageView<float>(gray.data(), 2, 2, 1), {.element = element}, {.contrast = 0.9, .hue = 0.5});
    const float factor = (gray[0] - 0.4f) / -0.2f;
    EXPECT_NEAR(gray[1], 0.4f, 1e-6) << "the mean";
    EXPECT_NEAR(gray[2], 0.4f + 0.1f * factor, 1e-5);
  }
}

TEST(ColorJitter, TurnsTheHue) {
  std::set<int> brightest;
  for (uint64_t element = 0; element < 50; ++element) {
    const auto pixel = jittered({0.9f, 0.3f, 0.3f}, {.hue = 0.5}, element);
    const auto [low, high] = std::ranges::minmax(pixel);
    EXPECT_NEAR(high, 0.9f, 1e-5) << "value and saturation stay";
    EXPECT_NEAR(low, 0.3f, 1e-5);
    brightest.insert(static_cast<int>(std::ranges::max_element(pixel) - pixel.begin()));
    const auto gray = jittered({0.3f, 0.3f, 0.3f}, {.hue = 0.5}, element);
    EXPECT_THAT(gray, Each(0.3f));
  }
  EXPECT_THAT(brightest, ElementsAre(0, 1, 2));
}

TEST(ColorJitter, LeavesAlphaAndStaysInRange) {
  Bytes image(50 * 4);
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<uint8_t>(i * 37);
  for (uint64_t element = 0; element < 20; ++element) {
    Bytes changed = image;
    color_jitter(view(changed, 5, 10, 4), {.element = element}, {1, 1, 1, 0.5});
    for (size_t i = 3; i < image.size(); i += 4) EXPECT_EQ(changed[i], image[i]);
    EXPECT_NE(changed, image);
  }
  EXPECT_ERROR(color_jitter(view(image, 5, 10, 4), {}, {.hue = 0.6}), ErrorCode::kInvalidArgument,
               "at most 0.5");
}

TEST(ImageKeys, SayWhichNumbersAreDrawn) {
  const auto draw = [](const ImageKey& key) {
    Bytes image = counting(20 * 20 * 3);
    color_jitter(view(image, 20, 20, 3), key, {0.5, 0.5, 0.5, 0.1});
    return std::string(image.begin(), image.end());
  };
  const ImageKey key = {.seed = 1, .epoch = 2, .element = 3};
  EXPECT_EQ(draw(key), draw(key));
  const std::set<std::string> all = {draw(key),          draw({2, 2, 3}),
                                     draw({1, 3, 3}),    draw({1, 2, 4}),
                                     draw({1, 2, 3, 1}), draw({1, 2, uint64_t{3} | uint64_t{1} << 40})};
  EXPECT_EQ(all.size(), 6u) << "each part of the key counts";
}

}  // namespace
}  // namespace isochron::data
