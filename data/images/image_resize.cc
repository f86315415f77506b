#include <algorithm>
#include <cmath>

#include "isochron/core/base/error.h"
#include "isochron/data/images/image_ops.h"

namespace isochron::data {
namespace {

/// The weights of the source pixels that make up each pixel of the result, along one axis.
struct Taps {
  const float* weights;   // (to, most)
  const int64_t* begins;  // (to) pairs: first, count
  size_t most;            // taps of one pixel
};

size_t most_taps(int64_t from, int64_t to, bool antialias) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  return 2 * static_cast<size_t>(std::ceil(antialias ? std::max(scale, 1.0) : 1.0)) + 1;
}

Taps make_taps(int64_t from, int64_t to, bool antialias, float* weights, int64_t* begins) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = antialias ? std::max(scale, 1.0) : 1.0;
  const size_t most = most_taps(from, to, antialias);
  for (int64_t i = 0; i < to; ++i) {
    const double center = scale * (static_cast<double>(i) + 0.5);
    const int64_t first = std::max<int64_t>(0, static_cast<int64_t>(center - reach + 0.5));
    const int64_t end = std::min<int64_t>(from, static_cast<int64_t>(center + reach + 0.5));
    const auto count = std::min(static_cast<size_t>(end - first), most);
    float* taps = weights + static_cast<size_t>(i) * most;
    const auto triangle = [&](size_t k) {
      return std::max(
          0.0, 1 - std::abs((static_cast<double>(first) + static_cast<double>(k) + 0.5 - center) / reach));
    };
    double sum = 0;
    for (size_t k = 0; k < count; ++k) sum += triangle(k);
    for (size_t k = 0; k < count; ++k) taps[k] = static_cast<float>(triangle(k) / sum);
    begins[2 * i] = first;
    begins[2 * i + 1] = static_cast<int64_t>(count);
  }
  return {weights, begins, most};
}

/// from: a row of (width, channels); to: (to_width, channels). kChannels 0: any number.
template <int kChannels, typename Pixel>
void resize_row(const Pixel* from, float* to, int64_t to_width, int64_t channels, const Taps& taps) {
  const int64_t depth = kChannels > 0 ? kChannels : channels;
  for (int64_t x = 0; x < to_width; ++x, to += depth) {
    const float* weights = taps.weights + static_cast<size_t>(x) * taps.most;
    const Pixel* pixel = from + taps.begins[2 * x] * depth;
    const int64_t count = taps.begins[2 * x + 1];
    for (int64_t c = 0; c < depth; ++c) to[c] = 0;
    for (int64_t k = 0; k < count; ++k, pixel += depth) {
      for (int64_t c = 0; c < depth; ++c) to[c] += weights[k] * static_cast<float>(pixel[c]);
    }
  }
}

template <typename Pixel>
void resize_rows(ImageView<const Pixel> from, float* to, int64_t to_width, const Taps& taps) {
  for (int64_t y = 0; y < from.height; ++y, to += to_width * from.channels) {
    switch (from.channels) {
      case 1:
        resize_row<1>(from.row(y), to, to_width, 1, taps);
        break;
      case 3:
        resize_row<3>(from.row(y), to, to_width, 3, taps);
        break;
      case 4:
        resize_row<4>(from.row(y), to, to_width, 4, taps);
        break;
      default:
        resize_row<0>(from.row(y), to, to_width, from.channels, taps);
    }
  }
}

/// The sum of rows, each (elems), into `sum`.
void mix_rows(const float* rows, int64_t elems, const Taps& taps, int64_t y, float* sum) {
  const float* weights = taps.weights + static_cast<size_t>(y) * taps.most;
  const float* row = rows + taps.begins[2 * y] * elems;
  std::fill_n(sum, elems, 0.0f);
  for (int64_t k = 0; k < taps.begins[2 * y + 1]; ++k, row += elems) {
    for (int64_t i = 0; i < elems; ++i) sum[i] += weights[k] * row[i];
  }
}

template <typename From, typename To>
void resize_image(ImageView<const From> from, ImageView<To> to, ImageScratch& scratch,
                  const ResizeOptions& options) {
  const bool fits = from.channels == to.channels && from.channels > 0 && from.height > 0 && from.width > 0 &&
                    to.height > 0 && to.width > 0;
  require(fits, ErrorCode::kShapeMismatch, "resize", "can't resize ({}, {}, {}) to ({}, {}, {})", from.height,
          from.width, from.channels, to.height, to.width, to.channels);
  const size_t across = static_cast<size_t>(to.width) * most_taps(from.width, to.width, options.antialias);
  const size_t down = static_cast<size_t>(to.height) * most_taps(from.height, to.height, options.antialias);
  const int64_t row_elems = to.width * to.channels;
  scratch.weights.resize(std::max(scratch.weights.size(), across + down));
  scratch.begins.resize(std::max(scratch.begins.size(), static_cast<size_t>(2 * (to.width + to.height))));
  scratch.rows.resize(std::max(scratch.rows.size(), static_cast<size_t>((from.height + 1) * row_elems)));
  const Taps columns =
      make_taps(from.width, to.width, options.antialias, scratch.weights.data(), scratch.begins.data());
  const Taps rows = make_taps(from.height, to.height, options.antialias, scratch.weights.data() + across,
                              scratch.begins.data() + 2 * to.width);
  float* narrow = scratch.rows.data();  // (from.height, to.width, channels)
  float* sum = narrow + from.height * row_elems;
  resize_rows(from, narrow, to.width, columns);
  for (int64_t y = 0; y < to.height; ++y) {
    mix_rows(narrow, row_elems, rows, y, sum);
    To* out = to.row(y);
    for (int64_t i = 0; i < row_elems; ++i) {
      if constexpr (std::is_same_v<To, uint8_t>) {
        out[i] = static_cast<uint8_t>(std::clamp(sum[i], 0.0f, kWhite) + 0.5f);
      } else if constexpr (std::is_same_v<From, uint8_t>) {
        out[i] = sum[i] / kWhite;
      } else {
        out[i] = sum[i];
      }
    }
  }
}

}  // namespace

void resize(ImageView<const uint8_t> from, ImageView<uint8_t> to, ImageScratch& scratch,
            const ResizeOptions& options) {
  resize_image(from, to, scratch, options);
}
void resize(ImageView<const uint8_t> from, ImageView<float> to, ImageScratch& scratch,
            const ResizeOptions& options) {
  resize_image(from, to, scratch, options);
}
void resize(ImageView<const float> from, ImageView<float> to, ImageScratch& scratch,
            const ResizeOptions& options) {
  resize_image(from, to, scratch, options);
}

}  // namespace isochron::data
