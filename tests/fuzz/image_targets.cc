// Decoders of images.
#include <zlib.h>

#include <algorithm>

#include "fuzz/targets.h"
#include "isochron/data/images/image.h"

namespace isochron::fuzz {
namespace {

constexpr data::ImageLimits kLimits = {.max_side = 4096, .max_pixels = 1 << 20};

void decode(Input input) {
  const data::ImageInfo info = data::read_image_info(input, "input", kLimits);
  for (const int channels : {1, 3, 4}) {
    const Tensor image = data::decode_image(input, channels, "input", kLimits);
    demand(image.spec().shape == Shape{info.height, info.width, channels},
           "image: another size than its header's");
  }
}

/// Corrects the checksums of the chunks first: flipped bits alone would never get past them.
void parse_png(Input input) {
  constexpr size_t kSignature = 8, kAround = 12;  // length, kind and checksum of a chunk
  std::vector<std::byte> file(input.begin(), input.end());
  const auto number_at = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<uint32_t>(file[at + i]);
    return value;
  };
  for (size_t at = kSignature; at + kAround <= file.size();) {
    const size_t content = number_at(at);
    if (content > file.size() - at - kAround) break;
    const auto crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(&file[at + 4]), static_cast<uInt>(content + 4)));
    for (size_t i = 0; i < 4; ++i) file[at + 8 + content + i] = static_cast<std::byte>(crc >> (8 * (3 - i)));
    at += kAround + content;
  }
  decode(file);
}

}  // namespace

std::vector<Target> internal::image_targets() { return {{"jpeg", decode}, {"png", parse_png}}; }

}  // namespace isochron::fuzz
