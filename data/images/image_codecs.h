// The two codecs behind image.h, which checks their arguments and turns their messages into errors. libjpeg
// and libpng report errors by longjmp, so nothing here may have a destructor.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "isochron/core/base/error.h"
#include "isochron/data/images/image.h"

namespace isochron::data::internal {

struct CodecError {
  ErrorCode code = ErrorCode::kBadFormat;
  std::array<char, 256> text{};
};

/// Reads the header into `info` and, if `into` isn't empty, the pixels; returns false after setting `error`.
/// `admit` is called between the two steps and may refuse by throwing: it runs outside of the libraries.
using AdmitFunction = void (*)(const void* context, const ImageInfo& info, uint64_t least_file_bytes);
struct DecodeRequest {
  std::span<const std::byte> file;
  int channels = 0;
  std::span<std::byte> into;
  AdmitFunction admit = nullptr;
  const void* context = nullptr;
};
bool decode_jpeg(const DecodeRequest& request, ImageInfo& info, CodecError& error);
bool decode_png(const DecodeRequest& request, ImageInfo& info, CodecError& error);

/// Appends the file to `out`; false leaves an error.
bool write_jpeg(const Tensor& image, int quality, std::string& out, CodecError& error);
bool write_png(const Tensor& image, std::string& out, CodecError& error);

}  // namespace isochron::data::internal
