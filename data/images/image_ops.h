// Operations on images in memory before training: crop, flip, resize, normalize, color jitter.
//
// The random operations are pure functions of the image and a key: the result is the same, whichever thread
// works on an element and in whichever order. Only the scratch allocates; it grows to its largest use.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron::data {

inline constexpr float kWhite = 255;  // in u8

/// Pixels of an image or of a part of one: (height, width, channels), rows `row_elems` apart. u8 in [0, 255],
/// or f32 in [0, 1]; const if they are only read.
template <typename Pixel>
struct ImageView {
  Pixel* pixels = nullptr;
  int64_t height = 0, width = 0, channels = 0;
  int64_t row_elems = 0;

  ImageView() = default;
  /// A whole image, without gaps.
  ImageView(Pixel* first, int64_t rows, int64_t columns, int64_t depth)
      : ImageView(first, rows, columns, depth, columns * depth) {}
  ImageView(Pixel* first, int64_t rows, int64_t columns, int64_t depth, int64_t row_stride)
      : pixels(first), height(rows), width(columns), channels(depth), row_elems(row_stride) {}
  /// A tensor (height, width, channels). Throws kShapeMismatch for another rank or strides, kDtypeMismatch.
  explicit ImageView(const Tensor& image);

  Pixel* row(int64_t y) const { return pixels + y * row_elems; }
  /// The part that begins at (top, left). Throws kOutOfRange beyond the image.
  ImageView part(int64_t top, int64_t left, int64_t rows, int64_t columns) const;
  // Implicit, as a pointer to const is.
  operator ImageView<const Pixel>() const  // NOLINT(google-explicit-constructor)
      requires(!std::is_const_v<Pixel>) {
    return {pixels, height, width, channels, row_elems};
  }
};

/// Which random numbers a function draws.
struct ImageKey {
  /// None: derived from the seed of the process (random::set_seed) at each draw, or 0.
  std::optional<uint64_t> seed = {};
  uint64_t epoch = 0;    // its lower 32 bits count
  uint64_t element = 0;  // number in the dataset
  uint32_t stage = 0;    // tells apart two calls of one function on one element; its lower 24 bits count
};

/// Scratch memory for `resize`; only one thread at a time may use it.
struct ImageScratch {
  std::vector<float> rows, weights;
  std::vector<int64_t> begins;
};

struct ResizeOptions {
  /// True: on an axis that shrinks, the triangle is as wide as a pixel of the result, so that every pixel of
  /// the image counts. Pillow, torchvision and tf.image with antialias=True call this bilinear. False: only
  /// the two nearest pixels count.
  bool antialias = true;
};

/// Resizes bilinearly, in f32, first along the rows, then along the columns. Each pixel of the result is the
/// mean of the pixels of `from` around its center, (i + 0.5) * from / to, weighted by a triangle; there are
/// no pixels beyond the border. Results in u8 are rounded to nearest; from u8 to f32, values are divided by
/// 255. Throws kShapeMismatch for other channels, or an empty image.
void resize(ImageView<const uint8_t> from, ImageView<uint8_t> to, ImageScratch& scratch,
            const ResizeOptions& options = {});
void resize(ImageView<const uint8_t> from, ImageView<float> to, ImageScratch& scratch,
            const ResizeOptions& options = {});
void resize(ImageView<const float> from, ImageView<float> to, ImageScratch& scratch,
            const ResizeOptions& options = {});

/// Copies the middle of `from`, as large as `to`. Throws kShapeMismatch for a larger `to` or other channels.
void center_crop(ImageView<const uint8_t> from, ImageView<uint8_t> to);
void center_crop(ImageView<const float> from, ImageView<float> to);

/// Copies a part of `from`, as large as `to`, from a position drawn uniformly among all. Each side
/// is first padded with `padding` zeros. Throws like center_crop, and kInvalidArgument for negative
/// padding.
void random_crop(ImageView<const uint8_t> from, ImageView<uint8_t> to, const ImageKey& key,
                 int64_t padding = 0);
void random_crop(ImageView<const float> from, ImageView<float> to, const ImageKey& key, int64_t padding = 0);

/// Bounds of a part's share of the image's area, and of its aspect ratio. The area is drawn uniformly between
/// its bounds, the ratio uniformly in its logarithm.
struct ResizedCropOptions {
  double smallest_area = 0.08, largest_area = 1;
  double smallest_ratio = 3.0 / 4, largest_ratio = 4.0 / 3;  // width over height
  ResizeOptions resize = {};
};
/// Resizes a random part to `to` (Szegedy et al.: "Going Deeper with Convolutions", CVPR 2015). Tries ten
/// times to draw a part inside the image, then takes the largest centered part whose ratio is within bounds.
/// Throws like `resize`, and kInvalidArgument unless 0 < smallest <= largest, or for an area above 1.
void random_resized_crop(ImageView<const uint8_t> from, ImageView<uint8_t> to, const ImageKey& key,
                         ImageScratch& scratch, const ResizedCropOptions& options = {});
void random_resized_crop(ImageView<const uint8_t> from, ImageView<float> to, const ImageKey& key,
                         ImageScratch& scratch, const ResizedCropOptions& options = {});

struct FlipOptions {
  double horizontal = 0.5, vertical = 0;  // probabilities
};
/// Mirrors `image` in place, or leaves it. Throws kInvalidArgument for a probability outside [0, 1].
void random_flip(ImageView<uint8_t> image, const ImageKey& key, const FlipOptions& options = {});
void random_flip(ImageView<float> image, const ImageKey& key, const FlipOptions& options = {});

/// Computes (value - mean[channel]) / stddev[channel]; u8 values are divided by 255 first. `to` may be
/// `from`. Throws kShapeMismatch unless the sizes and the numbers of channels agree, kInvalidArgument for a
/// standard deviation of 0.
void normalize(ImageView<const uint8_t> from, ImageView<float> to, std::span<const float> mean,
               std::span<const float> stddev);
void normalize(ImageView<const float> from, ImageView<float> to, std::span<const float> mean,
               std::span<const float> stddev);

/// The range of each property: factors are drawn from [max(0, 1 - x), 1 + x], the rotation of the hue from
/// [-hue, hue] of a full circle.
struct ColorJitterOptions {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
};
/// Changes the colors of `image` in place like torchvision's ColorJitter, in random order: brightness
/// scales; contrast blends with the image's mean luma, saturation with each pixel's luma; hue rotates in
/// HSV. Values are clamped to their range after each change, u8 rounded to nearest. Gray images have neither
/// saturation nor hue; a fourth channel is unchanged. Throws kInvalidArgument for a negative bound or a hue
/// above 0.5.
void color_jitter(ImageView<uint8_t> image, const ImageKey& key, const ColorJitterOptions& options);
void color_jitter(ImageView<float> image, const ImageKey& key, const ColorJitterOptions& options);

}  // namespace isochron::data
