#include <setjmp.h>
#include <stdio.h>  // jpeglib.h needs it and doesn't include it
#include <stdlib.h>

#include <jpeglib.h>

#include <algorithm>
#include <cstring>

#include "isochron/data/images/image_codecs.h"

extern "C" {
#include <jerror.h>
}

namespace isochron::data::internal {
namespace {

// Huffman coding takes at least one bit per block of 8 x 8 pixels, for the block's mean.
constexpr uint64_t kMaxPixelsAByte = 8 * 64;
// Each scan of a progressive file processes the whole image, so many scans in a small file would take very
// long.
constexpr int kMaxScans = 100;

struct Errors {
  jpeg_error_mgr manager;
  CodecError* error;
  jmp_buf jump;
};

void say(CodecError& error, const char* text) {
  std::strncpy(error.text.data(), text, error.text.size() - 1);
}

void leave(j_common_ptr info) {
  auto* errors = reinterpret_cast<Errors*>(info->err);
  char text[JMSG_LENGTH_MAX];
  errors->manager.format_message(info, text);
  say(*errors->error, text);
  longjmp(errors->jump, 1);
}

/// Warnings (level -1) mean that pixels were guessed, except for the listed ones.
void on_message(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  const bool harmless = code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR;
  if (level < 0 && !harmless) leave(info);
}

void on_progress(j_common_ptr info) {
  auto* decoder = reinterpret_cast<j_decompress_ptr>(info);
  if (decoder->input_scan_number > kMaxScans) {
    auto* errors = reinterpret_cast<Errors*>(info->err);
    say(*errors->error, "has more scans than any image needs");
    longjmp(errors->jump, 1);
  }
}

struct JpegDecoder {
  jpeg_decompress_struct info{};
  Errors errors{};
  jpeg_progress_mgr progress{};
};

bool refuse(CodecError& error, const char* text) {
  error.code = ErrorCode::kUnsupported;
  say(error, text);
  return false;
}

bool read_header(JpegDecoder& decoder, std::span<const std::byte> file) {
  if (setjmp(decoder.errors.jump) != 0) return false;
  jpeg_create_decompress(&decoder.info);
  decoder.progress.progress_monitor = on_progress;
  decoder.info.progress = &decoder.progress;
  jpeg_mem_src(&decoder.info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&decoder.info, TRUE);
  return true;
}

void read_rows(jpeg_decompress_struct& info, std::byte* into) {
  const size_t row_bytes = size_t{info.output_width} * static_cast<size_t>(info.output_components);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = reinterpret_cast<JSAMPROW>(into + info.output_scanline * row_bytes);
    jpeg_read_scanlines(&info, &row, 1);
  }
}

bool read_pixels(JpegDecoder& decoder, int channels, std::byte* into) {
  if (setjmp(decoder.errors.jump) != 0) return false;
  jpeg_decompress_struct& info = decoder.info;
  info.out_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_EXT_RGBA;
  info.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&info);
  read_rows(info, into);
  jpeg_finish_decompress(&info);
  return true;
}

struct JpegDecoderScope {
  JpegDecoder decoder;
  ~JpegDecoderScope() { jpeg_destroy_decompress(&decoder.info); }
};

struct JpegEncoder {
  jpeg_compress_struct info{};
  Errors errors{};
  unsigned char* file = nullptr;
  unsigned long file_bytes = 0;
};

struct JpegEncoderScope {
  JpegEncoder encoder;
  ~JpegEncoderScope() {
    jpeg_destroy_compress(&encoder.info);
    free(encoder.file);
  }
};

void write_rows(jpeg_compress_struct& info, const std::byte* pixels) {
  const size_t row_bytes = size_t{info.image_width} * static_cast<size_t>(info.input_components);
  while (info.next_scanline < info.image_height) {
    auto* row = reinterpret_cast<JSAMPROW>(const_cast<std::byte*>(pixels + info.next_scanline * row_bytes));
    jpeg_write_scanlines(&info, &row, 1);
  }
}

struct Pixels {
  const std::byte* data;
  unsigned height, width;
  int channels;
};

bool write_file(JpegEncoder& encoder, const Pixels& pixels, int quality) {
  if (setjmp(encoder.errors.jump) != 0) return false;
  jpeg_create_compress(&encoder.info);
  jpeg_mem_dest(&encoder.info, &encoder.file, &encoder.file_bytes);
  encoder.info.image_height = pixels.height;
  encoder.info.image_width = pixels.width;
  encoder.info.input_components = pixels.channels;
  encoder.info.in_color_space = pixels.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&encoder.info);
  jpeg_set_quality(&encoder.info, quality, TRUE);
  jpeg_start_compress(&encoder.info, TRUE);
  write_rows(encoder.info, pixels.data);
  jpeg_finish_compress(&encoder.info);
  return true;
}

template <typename Codec>
void set_errors(Codec& codec, CodecError& error) {
  codec.info.err = jpeg_std_error(&codec.errors.manager);
  codec.errors.manager.error_exit = leave;
  codec.errors.manager.emit_message = on_message;
  codec.errors.error = &error;
}

}  // namespace

bool decode_jpeg(const DecodeRequest& request, ImageInfo& info, CodecError& error) {
  info.format = ImageFormat::kJpeg;
  JpegDecoderScope scope;
  JpegDecoder& decoder = scope.decoder;
  set_errors(decoder, error);
  if (!read_header(decoder, request.file)) return false;
  const jpeg_decompress_struct& header = decoder.info;
  if (header.num_components != 1 && header.num_components != 3) {
    return refuse(error, "has neither 1 nor 3 components; CMYK must be converted first");
  }
  if (header.arith_code) return refuse(error, "uses arithmetic coding; save it with Huffman coding");
  info.height = header.image_height;
  info.width = header.image_width;
  info.channels = header.num_components;
  const uint64_t pixels = uint64_t{header.image_height} * header.image_width;
  request.admit(request.context, info, pixels / kMaxPixelsAByte);
  return request.into.empty() || read_pixels(decoder, request.channels, request.into.data());
}

bool write_jpeg(const Tensor& image, int quality, std::string& out, CodecError& error) {
  JpegEncoderScope scope;
  JpegEncoder& encoder = scope.encoder;
  set_errors(encoder, error);
  const Pixels pixels = {image.raw(), static_cast<unsigned>(image.extent(0)),
                         static_cast<unsigned>(image.extent(1)), static_cast<int>(image.extent(2))};
  if (!write_file(encoder, pixels, quality)) return false;
  out.append(reinterpret_cast<const char*>(encoder.file), encoder.file_bytes);
  return true;
}

}  // namespace isochron::data::internal
