#include <png.h>
#include <setjmp.h>

#include <algorithm>
#include <cstring>

#include "isochron/data/images/image_codecs.h"

namespace isochron::data::internal {
namespace {

constexpr uint64_t kMaxExpansion = 1032;  // of deflate
constexpr double kRedLuma = 0.299, kGreenLuma = 0.587;

void leave_png(png_structp png, png_const_charp text) {
  auto* error = static_cast<CodecError*>(png_get_error_ptr(png));
  std::strncpy(error->text.data(), text, error->text.size() - 1);
  png_longjmp(png, 1);
}

/// Warnings concern chunks other than the pixels, which are ignored.
void ignore(png_structp, png_const_charp) {}

struct PngDecoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::byte> left;
};

struct PngDecoderScope {
  PngDecoder decoder;
  ~PngDecoderScope() { png_destroy_read_struct(&decoder.png, &decoder.info, nullptr); }
};

void on_read(png_structp png, png_bytep into, size_t bytes) {
  auto& left = *static_cast<std::span<const std::byte>*>(png_get_io_ptr(png));
  if (bytes > left.size()) png_error(png, "ends too early; is the file truncated?");
  std::memcpy(into, left.data(), bytes);
  left = left.subspan(bytes);
}

bool read_png_header(PngDecoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_set_read_fn(decoder.png, &decoder.left, on_read);
  // Of all chunks other than the pixels, reads only palette and transparency: texts could expand to
  // gigabytes, and a gamma would change the meaning of gray.
  png_set_keep_unknown_chunks(decoder.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(decoder.png, decoder.info);
  return true;
}

/// Requests 8 bits in `channels` channels, whatever the file has.
void set_transforms(png_structp png, png_infop info, int channels) {
  const int type = png_get_color_type(png, info);
  const bool has_alpha = (type & PNG_COLOR_MASK_ALPHA) != 0 || png_get_valid(png, info, PNG_INFO_tRNS) != 0;
  png_set_expand(png);
  png_set_scale_16(png);
  if (channels == 1 && (type & PNG_COLOR_MASK_COLOR) != 0) {
    png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, kRedLuma, kGreenLuma);
  } else if (channels != 1 && (type & PNG_COLOR_MASK_COLOR) == 0) {
    png_set_gray_to_rgb(png);
  }
  if (channels != 4 && has_alpha) png_set_strip_alpha(png);
  if (channels == 4 && !has_alpha) png_set_add_alpha(png, 0xff, PNG_FILLER_AFTER);
}

void read_png_rows(png_structp png, std::byte* into, size_t row_bytes, uint32_t height, int passes) {
  for (int pass = 0; pass < passes; ++pass) {
    for (uint32_t y = 0; y < height; ++y)
      png_read_row(png, reinterpret_cast<png_bytep>(into + y * row_bytes), nullptr);
  }
}

bool read_png_pixels(PngDecoder& decoder, int channels, std::span<std::byte> into) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  set_transforms(decoder.png, decoder.info, channels);
  const int passes = png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  const size_t row_bytes = png_get_rowbytes(decoder.png, decoder.info);
  const uint32_t height = png_get_image_height(decoder.png, decoder.info);
  if (row_bytes * height != into.size()) png_error(decoder.png, "has a layout that differs from its header");
  read_png_rows(decoder.png, into.data(), row_bytes, height, passes);
  png_read_end(decoder.png, nullptr);
  return true;
}

struct PngEncoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
};

struct PngEncoderScope {
  PngEncoder encoder;
  ~PngEncoderScope() { png_destroy_write_struct(&encoder.png, &encoder.info); }
};

void on_write(png_structp png, png_bytep from, size_t bytes) {
  bool kept = true;
  try {
    static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(from), bytes);
  } catch (...) {
    kept = false;  // an exception must not cross the library
  }
  if (!kept) png_error(png, "no memory for the file");
}

void write_png_rows(png_structp png, const std::byte* pixels, size_t row_bytes, uint32_t height) {
  for (uint32_t y = 0; y < height; ++y) {
    png_write_row(png, reinterpret_cast<png_const_bytep>(pixels + y * row_bytes));
  }
}

bool write_png_file(PngEncoder& encoder, const std::byte* pixels, uint32_t height, uint32_t width,
                    int channels, std::string* out) {
  if (setjmp(png_jmpbuf(encoder.png)) != 0) return false;
  const int type = channels == 1   ? PNG_COLOR_TYPE_GRAY
                   : channels == 3 ? PNG_COLOR_TYPE_RGB
                                   : PNG_COLOR_TYPE_RGB_ALPHA;
  png_set_write_fn(encoder.png, out, on_write, nullptr);
  png_set_IHDR(encoder.png, encoder.info, width, height, 8, type, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(encoder.png, encoder.info);
  write_png_rows(encoder.png, pixels, size_t{width} * static_cast<size_t>(channels), height);
  png_write_end(encoder.png, encoder.info);
  return true;
}

bool out_of_memory(CodecError& error) {
  error.code = ErrorCode::kOutOfMemory;
  std::strncpy(error.text.data(), "no memory for libpng's state", error.text.size() - 1);
  return false;
}

}  // namespace

bool decode_png(const DecodeRequest& request, ImageInfo& info, CodecError& error) {
  info.format = ImageFormat::kPng;
  PngDecoderScope scope;
  PngDecoder& decoder = scope.decoder;
  decoder.left = request.file;
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &error, leave_png, ignore);
  if (decoder.png != nullptr) decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) return out_of_memory(error);
  if (!read_png_header(decoder)) return false;
  const png_structp png = decoder.png;
  const png_infop header = decoder.info;
  const int type = png_get_color_type(png, header);
  const bool color = (type & PNG_COLOR_MASK_COLOR) != 0;
  const bool alpha = (type & PNG_COLOR_MASK_ALPHA) != 0 || png_get_valid(png, header, PNG_INFO_tRNS) != 0;
  info.height = png_get_image_height(png, header);
  info.width = png_get_image_width(png, header);
  info.channels = alpha ? 4 : color ? 3 : 1;
  const uint64_t stored_bytes =
      (png_get_rowbytes(png, header) + uint64_t{1}) * static_cast<uint64_t>(info.height);
  request.admit(request.context, info, stored_bytes / kMaxExpansion);
  return request.into.empty() || read_png_pixels(decoder, request.channels, request.into);
}

bool write_png(const Tensor& image, std::string& out, CodecError& error) {
  PngEncoderScope scope;
  PngEncoder& encoder = scope.encoder;
  encoder.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &error, leave_png, ignore);
  if (encoder.png != nullptr) encoder.info = png_create_info_struct(encoder.png);
  if (encoder.info == nullptr) return out_of_memory(error);
  return write_png_file(encoder, image.raw(), static_cast<uint32_t>(image.extent(0)),
                        static_cast<uint32_t>(image.extent(1)), static_cast<int>(image.extent(2)), &out);
}

}  // namespace isochron::data::internal
