#include <algorithm>
#include <array>
#include <cmath>

#include "isochron/core/base/error.h"
#include "isochron/data/images/image_ops.h"
#include "isochron/data/images/image_random.h"

namespace isochron::data {
namespace {

using Color = std::array<float, 3>;  // red, green, blue in [0, 1]; gray: the first alone

float luma(const Color& color) { return 0.299f * color[0] + 0.587f * color[1] + 0.114f * color[2]; }

float clipped(float value) { return std::clamp(value, 0.0f, 1.0f); }

/// value * share + other * (1 - share).
float blend(float value, float other, float share) { return clipped(other + share * (value - other)); }

Color turned_hue(const Color& color, float turn) {
  const float low = std::min({color[0], color[1], color[2]}), high = std::max({color[0], color[1], color[2]});
  const float range = high - low;
  if (range <= 0) return color;
  float hue = 0;  // in sixths of the circle
  if (high == color[0]) {
    hue = (color[1] - color[2]) / range;
  } else if (high == color[1]) {
    hue = 2 + (color[2] - color[0]) / range;
  } else {
    hue = 4 + (color[0] - color[1]) / range;
  }
  hue += 6 * turn;
  hue -= 6 * std::floor(hue / 6);
  // Each channel rises, stays and falls over the circle, a third apart.
  const auto channel = [&](float offset) {
    float place = hue + offset;
    if (place >= 6) place -= 6;
    const float level = std::clamp(std::min(place, 4 - place), 0.0f, 1.0f);
    return high - range * level;
  };
  return {clipped(channel(5)), clipped(channel(3)), clipped(channel(1))};
}

/// `change` applied to the color of every pixel in place.
template <typename Pixel, typename Change>
void each_color(ImageView<Pixel> image, Change&& change) {
  constexpr float kBrightest = std::is_same_v<std::remove_const_t<Pixel>, uint8_t> ? 255.0f : 1.0f;
  const int64_t colors = image.channels >= 3 ? 3 : 1;
  for (int64_t y = 0; y < image.height; ++y) {
    Pixel* pixel = image.row(y);
    for (int64_t x = 0; x < image.width; ++x, pixel += image.channels) {
      Color color{};
      for (int64_t c = 0; c < 3; ++c) {
        color[static_cast<size_t>(c)] = static_cast<float>(pixel[std::min(c, colors - 1)]) / kBrightest;
      }
      const Color changed = change(color);
      if constexpr (!std::is_const_v<Pixel>) {
        for (int64_t c = 0; c < colors; ++c) {
          const float value = changed[static_cast<size_t>(c)] * kBrightest;
          pixel[c] = static_cast<Pixel>(std::is_same_v<Pixel, uint8_t> ? value + 0.5f : value);
        }
      }
    }
  }
}

template <typename Pixel>
float mean_luma(ImageView<const Pixel> image) {
  double sum = 0;
  each_color(image, [&](const Color& color) {
    sum += luma(color);
    return color;
  });
  return static_cast<float>(sum / static_cast<double>(image.height * image.width));
}

void check(const ColorJitterOptions& options) {
  const bool good = options.brightness >= 0 && options.contrast >= 0 && options.saturation >= 0 &&
                    options.hue >= 0 && options.hue <= 0.5;
  require(good, ErrorCode::kInvalidArgument, "color_jitter",
          "bounds must be at least 0, and that of the hue at most 0.5; got {}, {}, {} and {}",
          options.brightness, options.contrast, options.saturation, options.hue);
}

enum Property { kBrightness, kContrast, kSaturation, kHue, kProperties };

template <typename Pixel>
void change_property(ImageView<Pixel> image, Property property, float value) {
  const auto each = [&](auto&& change_channel) {
    each_color(image, [&](const Color& color) {
      const float own = luma(color);
      return Color{change_channel(color[0], own), change_channel(color[1], own),
                   change_channel(color[2], own)};
    });
  };
  switch (property) {
    case kBrightness:
      return each([&](float channel, float) { return clipped(channel * value); });
    case kContrast: {
      const float mean = mean_luma(ImageView<const Pixel>(image));
      return each([&](float channel, float) { return blend(channel, mean, value); });
    }
    case kSaturation:
      return each([&](float channel, float own) { return blend(channel, own, value); });
    case kHue:
      return each_color(image, [&](const Color& color) { return turned_hue(color, value); });
    case kProperties:
      return;
  }
}

template <typename Pixel>
void jitter(ImageView<Pixel> image, const ImageKey& key, const ColorJitterOptions& options) {
  check(options);
  if (image.height == 0 || image.width == 0) return;
  ImageRandom random(key, ImageRandom::kColorJitter);
  const std::array<double, kProperties> reach = {options.brightness, options.contrast, options.saturation,
                                                 options.hue};
  std::array<Property, kProperties> order = {kBrightness, kContrast, kSaturation, kHue};
  std::array<float, kProperties> value{};
  for (size_t i = 0; i < kProperties; ++i) {
    std::swap(order[i], order[i + static_cast<size_t>(random.below(static_cast<int64_t>(kProperties - i)))]);
    value[i] = static_cast<float>(i == kHue ? random.uniform(-reach[i], reach[i])
                                            : random.uniform(std::max(0.0, 1 - reach[i]), 1 + reach[i]));
  }
  for (const Property property : order) {
    const bool gray = image.channels < 3 && (property == kSaturation || property == kHue);
    if (reach[property] > 0 && !gray) change_property(image, property, value[property]);
  }
}

}  // namespace

void color_jitter(ImageView<uint8_t> image, const ImageKey& key, const ColorJitterOptions& options) {
  jitter(image, key, options);
}
void color_jitter(ImageView<float> image, const ImageKey& key, const ColorJitterOptions& options) {
  jitter(image, key, options);
}

}  // namespace isochron::data
