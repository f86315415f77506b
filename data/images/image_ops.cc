#include "isochron/data/images/image_ops.h"

#include <algorithm>
#include <cmath>

#include "isochron/core/base/error.h"
#include "isochron/data/images/image_random.h"

namespace isochron::data {
namespace {

template <typename Pixel>
std::string size_text(const ImageView<Pixel>& image) {
  return fmt::format("({}, {}, {})", image.height, image.width, image.channels);
}

/// Copies the part of `from` that begins at (top, left). Pixels outside of `from` are zeros.
template <typename Pixel>
void copy_part(ImageView<const Pixel> from, ImageView<Pixel> to, int64_t top, int64_t left) {
  const int64_t first = std::clamp<int64_t>(-left, 0, to.width);
  const int64_t end = std::clamp<int64_t>(from.width - left, first, to.width);
  for (int64_t y = 0; y < to.height; ++y) {
    Pixel* row = to.row(y);
    if (y + top < 0 || y + top >= from.height) {
      std::fill_n(row, to.width * to.channels, Pixel{0});
      continue;
    }
    std::fill_n(row, first * to.channels, Pixel{0});
    std::copy_n(from.row(y + top) + (first + left) * from.channels, (end - first) * from.channels,
                row + first * to.channels);
    std::fill_n(row + end * to.channels, (to.width - end) * to.channels, Pixel{0});
  }
}

template <typename Pixel>
void check_crop(std::string_view where, ImageView<const Pixel> from, ImageView<Pixel> to, int64_t padding) {
  if (padding < 0)
    fail(ErrorCode::kInvalidArgument, where, "the padding must be at least 0, got {}", padding);
  const bool fits = to.channels == from.channels && to.height >= 1 && to.width >= 1 &&
                    to.height <= from.height + 2 * padding && to.width <= from.width + 2 * padding;
  if (!fits) {
    fail(ErrorCode::kShapeMismatch, where, "can't crop {} from {} with a padding of {}", size_text(to),
         size_text(from), padding);
  }
}

template <typename Pixel>
void crop_center(ImageView<const Pixel> from, ImageView<Pixel> to) {
  check_crop("center_crop", from, to, 0);
  copy_part(from, to, (from.height - to.height) / 2, (from.width - to.width) / 2);
}

template <typename Pixel>
void crop_anywhere(ImageView<const Pixel> from, ImageView<Pixel> to, const ImageKey& key, int64_t padding) {
  check_crop("random_crop", from, to, padding);
  ImageRandom random(key, ImageRandom::kCrop);
  const int64_t top = random.below(from.height + 2 * padding - to.height + 1) - padding;
  const int64_t left = random.below(from.width + 2 * padding - to.width + 1) - padding;
  copy_part(from, to, top, left);
}

void check_resized_crop(const ResizedCropOptions& options) {
  const bool good = 0 < options.smallest_area && options.smallest_area <= options.largest_area &&
                    options.largest_area <= 1 && 0 < options.smallest_ratio &&
                    options.smallest_ratio <= options.largest_ratio && std::isfinite(options.largest_ratio);
  require(good, ErrorCode::kInvalidArgument, "random_resized_crop",
          "expected 0 < smallest <= largest, areas at most 1; got areas {} to {}, ratios {} to {}",
          options.smallest_area, options.largest_area, options.smallest_ratio, options.largest_ratio);
}

ImageView<const uint8_t> random_part(ImageView<const uint8_t> from, const ImageKey& key,
                                     const ResizedCropOptions& options) {
  constexpr int kTries = 10;
  check_resized_crop(options);
  ImageRandom random(key, ImageRandom::kResizedCrop);
  const double area = static_cast<double>(from.height) * static_cast<double>(from.width);
  for (int i = 0; i < kTries; ++i) {
    const double part = area * random.uniform(options.smallest_area, options.largest_area);
    const double ratio =
        std::exp(random.uniform(std::log(options.smallest_ratio), std::log(options.largest_ratio)));
    const auto width = static_cast<int64_t>(std::lround(std::sqrt(part * ratio)));
    const auto height = static_cast<int64_t>(std::lround(std::sqrt(part / ratio)));
    if (width < 1 || height < 1 || width > from.width || height > from.height) continue;
    const int64_t top = random.below(from.height - height + 1);
    const int64_t left = random.below(from.width - width + 1);
    return from.part(top, left, height, width);
  }
  const double own = static_cast<double>(from.width) / static_cast<double>(std::max<int64_t>(from.height, 1));
  int64_t width = from.width, height = from.height;
  if (own < options.smallest_ratio) height = std::lround(static_cast<double>(width) / options.smallest_ratio);
  if (own > options.largest_ratio) width = std::lround(static_cast<double>(height) * options.largest_ratio);
  height = std::clamp<int64_t>(height, std::min<int64_t>(1, from.height), from.height);
  width = std::clamp<int64_t>(width, std::min<int64_t>(1, from.width), from.width);
  return from.part((from.height - height) / 2, (from.width - width) / 2, height, width);
}

template <typename Pixel>
void flip(ImageView<Pixel> image, const ImageKey& key, const FlipOptions& options) {
  const auto is_probability = [](double value) { return value >= 0 && value <= 1; };
  require(is_probability(options.horizontal) && is_probability(options.vertical), ErrorCode::kInvalidArgument,
          "random_flip", "probabilities must lie in [0, 1], got {} and {}", options.horizontal,
          options.vertical);
  ImageRandom random(key, ImageRandom::kFlip);
  const bool horizontal = random.uniform(0, 1) < options.horizontal;
  const bool vertical = random.uniform(0, 1) < options.vertical;
  for (int64_t y = 0; horizontal && y < image.height; ++y) {
    Pixel* left = image.row(y);
    Pixel* right = left + (image.width - 1) * image.channels;
    for (; left < right; left += image.channels, right -= image.channels) {
      std::swap_ranges(left, left + image.channels, right);
    }
  }
  for (int64_t y = 0; vertical && y < image.height / 2; ++y) {
    std::swap_ranges(image.row(y), image.row(y) + image.width * image.channels,
                     image.row(image.height - 1 - y));
  }
}

template <typename Pixel>
void normalize_image(ImageView<const Pixel> from, ImageView<float> to, std::span<const float> mean,
                     std::span<const float> stddev) {
  const auto channels = static_cast<size_t>(std::max<int64_t>(from.channels, 0));
  if (from.height != to.height || from.width != to.width || from.channels != to.channels ||
      mean.size() != channels || stddev.size() != channels) {
    fail(ErrorCode::kShapeMismatch, "normalize",
         "expected images of equal size, and a mean and a standard deviation for each channel, got {} and {} "
         "with {} means and {} standard deviations",
         size_text(from), size_text(to), mean.size(), stddev.size());
  }
  for (const float value : stddev) {
    require(value != 0, ErrorCode::kInvalidArgument, "normalize",
            "a standard deviation is 0, which would divide by zero");
  }
  for (int64_t y = 0; y < from.height; ++y) {
    const Pixel* pixel = from.row(y);
    float* out = to.row(y);
    for (int64_t x = 0; x < from.width; ++x) {
      for (size_t c = 0; c < channels; ++c) {
        const float value =
            std::is_same_v<Pixel, uint8_t> ? static_cast<float>(*pixel) / kWhite : static_cast<float>(*pixel);
        *out++ = (value - mean[c]) / stddev[c];
        ++pixel;
      }
    }
  }
}

}  // namespace

template <typename Pixel>
ImageView<Pixel>::ImageView(const Tensor& image) {
  require(image.rank() == 3 && image.contiguous(), ErrorCode::kShapeMismatch, "image",
          "expected a contiguous (height, width, channels), got {}", image.spec().str());
  require(image.dtype() == dtype_of<std::remove_const_t<Pixel>>, ErrorCode::kDtypeMismatch, "image",
          "expected {}, got {}", dtype_name(dtype_of<std::remove_const_t<Pixel>>), image.spec().str());
  *this = ImageView(reinterpret_cast<Pixel*>(image.raw()), image.extent(0), image.extent(1), image.extent(2));
}

template <typename Pixel>
ImageView<Pixel> ImageView<Pixel>::part(int64_t top, int64_t left, int64_t rows, int64_t columns) const {
  const bool inside = top >= 0 && left >= 0 && rows >= 0 && columns >= 0 && rows <= height &&
                      columns <= width && top <= height - rows && left <= width - columns;
  require(inside, ErrorCode::kOutOfRange, "image",
          "a part of ({}, {}) at ({}, {}) lies outside the image of ({}, {})", rows, columns, top, left,
          height, width);
  return {row(top) + left * channels, rows, columns, channels, row_elems};
}

template struct ImageView<uint8_t>;
template struct ImageView<const uint8_t>;
template struct ImageView<float>;
template struct ImageView<const float>;

void center_crop(ImageView<const uint8_t> from, ImageView<uint8_t> to) { crop_center(from, to); }
void center_crop(ImageView<const float> from, ImageView<float> to) { crop_center(from, to); }

void random_crop(ImageView<const uint8_t> from, ImageView<uint8_t> to, const ImageKey& key, int64_t padding) {
  crop_anywhere(from, to, key, padding);
}
void random_crop(ImageView<const float> from, ImageView<float> to, const ImageKey& key, int64_t padding) {
  crop_anywhere(from, to, key, padding);
}

void random_resized_crop(ImageView<const uint8_t> from, ImageView<uint8_t> to, const ImageKey& key,
                         ImageScratch& scratch, const ResizedCropOptions& options) {
  resize(random_part(from, key, options), to, scratch, options.resize);
}
void random_resized_crop(ImageView<const uint8_t> from, ImageView<float> to, const ImageKey& key,
                         ImageScratch& scratch, const ResizedCropOptions& options) {
  resize(random_part(from, key, options), to, scratch, options.resize);
}

void random_flip(ImageView<uint8_t> image, const ImageKey& key, const FlipOptions& options) {
  flip(image, key, options);
}
void random_flip(ImageView<float> image, const ImageKey& key, const FlipOptions& options) {
  flip(image, key, options);
}

void normalize(ImageView<const uint8_t> from, ImageView<float> to, std::span<const float> mean,
               std::span<const float> stddev) {
  normalize_image(from, to, mean, stddev);
}
void normalize(ImageView<const float> from, ImageView<float> to, std::span<const float> mean,
               std::span<const float> stddev) {
  normalize_image(from, to, mean, stddev);
}

}  // namespace isochron::data
