// Images as JPEG and PNG files hold them, decoded to bytes (height, width, channels). image_ops.h changes
// them, image_folder.h reads whole folders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "isochron/core/tensor/tensor.h"

namespace isochron::data {

enum class ImageFormat { kJpeg, kPng };

struct ImageInfo {
  ImageFormat format;
  int64_t height, width;
  /// The channels of the file: 1 gray, 3 color, 4 color with alpha (also for a PNG of gray with alpha).
  int channels;
};

/// Larger images are refused before memory is allocated.
struct ImageLimits {
  int64_t max_side = 1 << 15;
  int64_t max_pixels = 1 << 26;
};

/// Reads the header of a file in memory; `where` names the file in errors. Throws kBadFormat if it is
/// neither JPEG nor PNG, for a damaged header, and for an image beyond the limits or too large for so few
/// bytes; kUnsupported for JPEGs in CMYK or with arithmetic coding.
ImageInfo read_image_info(std::span<const std::byte> file, std::string_view where,
                          const ImageLimits& limits = {});

/// Decodes a file to u8 (height, width, channels), with 1, 3 or 4 channels. Gray is copied to all colors,
/// color becomes its luma (0.299 red + 0.587 green + 0.114 blue), alpha is added as 255 or dropped, and 16
/// bits are scaled to 8. JPEG uses the accurate integer transform and smooth chroma, so the bytes are the
/// same everywhere. Throws like `read_image_info`; kBadFormat for damaged or truncated data, even if a
/// decoder could have continued by guessing; kInvalidArgument unless `into` has height x width x channels
/// bytes. The decoder's own state is allocated at each call (a LibraryCall).
void decode_image(std::span<const std::byte> file, int channels, std::span<std::byte> into,
                  std::string_view where, const ImageLimits& limits = {});
/// The same as a new tensor; `channels` 0: as many as the file has. Also throws kOutOfMemory beyond the
/// memory budget (data/element/pipeline_memory.h).
Tensor decode_image(std::span<const std::byte> file, int channels, std::string_view where,
                    const ImageLimits& limits = {});

/// The file of `image`: u8 (height, width, 1 or 3), for PNG also 4, contiguous; `quality` in [1, 100]. Throws
/// kInvalidArgument.
std::string encode_jpeg(const Tensor& image, int quality = 90);
std::string encode_png(const Tensor& image);

}  // namespace isochron::data
