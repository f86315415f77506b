#include "isochron/data/images/image.h"

#include <algorithm>

#include "isochron/core/base/error.h"
#include "isochron/core/base/library_call.h"
#include "isochron/data/element/pipeline_memory.h"
#include "isochron/data/images/image_codecs.h"
#include "isochron/memory/allocators/buffer.h"

namespace isochron::data {
namespace {

struct Admission {
  std::span<const std::byte> file;
  int channels;                      // asked for, 0: as the file has them
  const std::span<std::byte>* into;  // null for the header alone
  std::string_view where;
  const ImageLimits& limits;
};

/// Throws unless the image may be decoded.
void admit(const void* context, const ImageInfo& info, uint64_t least_file_bytes) {
  const auto& asked = *static_cast<const Admission*>(context);
  const int64_t height = info.height, width = info.width;
  const bool small =
      std::max(height, width) <= asked.limits.max_side && height <= asked.limits.max_pixels / width;
  require(small, ErrorCode::kBadFormat, asked.where,
          "the image has {} x {} pixels; the limits are {} a side and {} in all", height, width,
          asked.limits.max_side, asked.limits.max_pixels);
  require(least_file_bytes <= asked.file.size(), ErrorCode::kBadFormat, asked.where,
          "{} bytes are too few for the {} x {} pixels that the header declares; is the file truncated?",
          asked.file.size(), height, width);
  if (asked.into == nullptr) return;
  const auto bytes =
      static_cast<size_t>(height) * static_cast<size_t>(width) * static_cast<size_t>(asked.channels);
  require(asked.into->size() == bytes, ErrorCode::kInvalidArgument, asked.where,
          "an image of ({}, {}, {}) has {} bytes, but the memory for it has {}", height, width,
          asked.channels, bytes, asked.into->size());
}

ImageInfo run(const Admission& asked) {
  const internal::DecodeRequest request = {.file = asked.file,
                                           .channels = asked.channels,
                                           .into = asked.into ? *asked.into : std::span<std::byte>(),
                                           .admit = admit,
                                           .context = &asked};
  const auto begins_with = [&](std::initializer_list<uint8_t> magic) {
    return asked.file.size() >= magic.size() &&
           std::equal(magic.begin(), magic.end(), asked.file.begin(),
                      [](uint8_t a, std::byte b) { return std::byte{a} == b; });
  };
  ImageInfo info{};
  internal::CodecError error;
  bool done = false;
  {
    const LibraryCall call;
    if (begins_with({0xff, 0xd8, 0xff})) {
      done = internal::decode_jpeg(request, info, error);
    } else if (begins_with({0x89, 'P', 'N', 'G'})) {
      done = internal::decode_png(request, info, error);
    } else {
      fail(ErrorCode::kBadFormat, asked.where, "is neither a JPEG nor a PNG file");
    }
  }
  require(done, error.code, asked.where, "{} ({})", error.text.data(),
          info.format == ImageFormat::kJpeg ? "JPEG" : "PNG");
  return info;
}

void check_channels(int channels) {
  require(channels == 1 || channels == 3 || channels == 4, ErrorCode::kInvalidArgument, "decode_image",
          "images must have 1, 3 or 4 channels, got {}", channels);
}

void check_image(const Tensor& image, int most_channels, std::string_view where) {
  const TensorSpec& spec = image.spec();
  const bool fits = spec.dtype == DType::kU8 && spec.shape.rank() == 3 && image.contiguous() &&
                    image.elems() > 0 && spec.shape[2] <= most_channels && spec.shape[2] != 2;
  require(fits, ErrorCode::kInvalidArgument, where,
          "expected a contiguous u8 (height, width, channels) with 1 or 3{} channels, got {}",
          most_channels == 4 ? " or 4" : "", spec.str());
}

}  // namespace

ImageInfo read_image_info(std::span<const std::byte> file, std::string_view where,
                          const ImageLimits& limits) {
  return run({file, 0, nullptr, where, limits});
}

void decode_image(std::span<const std::byte> file, int channels, std::span<std::byte> into,
                  std::string_view where, const ImageLimits& limits) {
  check_channels(channels);
  run({file, channels, &into, where, limits});
}

Tensor decode_image(std::span<const std::byte> file, int channels, std::string_view where,
                    const ImageLimits& limits) {
  const ImageInfo info = read_image_info(file, where, limits);
  if (channels == 0) channels = info.channels;
  check_channels(channels);
  const TensorSpec spec{DType::kU8, {info.height, info.width, channels}};
  ReadMemory memory(where);
  memory.hold(spec.size_bytes());
  Tensor image = empty(spec, "image");
  decode_image(file, channels, {image.raw(), image.size_bytes()}, where, limits);
  return image;
}

std::string encode_jpeg(const Tensor& image, int quality) {
  check_image(image, 3, "encode_jpeg");
  require(quality >= 1 && quality <= 100, ErrorCode::kInvalidArgument, "encode_jpeg",
          "quality must lie in [1, 100], got {}", quality);
  std::string file;
  internal::CodecError error;
  require(internal::write_jpeg(image, quality, file, error), ErrorCode::kInvalidArgument, "encode_jpeg", "{}",
          error.text.data());
  return file;
}

std::string encode_png(const Tensor& image) {
  check_image(image, 4, "encode_png");
  std::string file;
  internal::CodecError error;
  require(internal::write_png(image, file, error), ErrorCode::kInvalidArgument, "encode_png", "{}",
          error.text.data());
  return file;
}

}  // namespace isochron::data
