#include "isochron/data/formats/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include "isochron/core/base/error.h"

namespace isochron::data {
namespace {

constexpr int kRawWindow = -15;
constexpr size_t kMaxExpansion = 1032;

class Inflater {
 public:
  Inflater(std::span<const std::byte> input, const std::string& where) : input_(input), where_(where) {
    require(inflateInit2(&stream_, kRawWindow) == Z_OK, ErrorCode::kOutOfMemory, where,
            "zlib has no memory for its state");
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  /// Inflates into `out`; returns the bytes written. `done` tells that the stream ended.
  size_t inflate_into(std::span<std::byte> out, bool& done) {
    constexpr size_t kMaxPiece = std::numeric_limits<uInt>::max();
    const size_t offered = std::min(kMaxPiece, input_.size() - consumed_);
    const size_t wanted = std::min(kMaxPiece, out.size());
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(input_.data() + consumed_));
    stream_.avail_in = static_cast<uInt>(offered);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(wanted);
    const int status = inflate(&stream_, Z_NO_FLUSH);
    consumed_ += offered - stream_.avail_in;
    const size_t wrote = wanted - stream_.avail_out;
    done = status == Z_STREAM_END;
    if (done || (status == Z_OK && (wrote > 0 || consumed_ < input_.size()))) return wrote;
    require(status != Z_MEM_ERROR, ErrorCode::kOutOfMemory, where_, "zlib ran out of memory");
    if ((status == Z_OK || status == Z_BUF_ERROR) && consumed_ == input_.size()) {
      fail(ErrorCode::kBadFormat, where_,
           "the compressed data ends at byte {} before its end mark; is it truncated?", consumed_);
    }
    fail(ErrorCode::kBadFormat, where_, "byte {}: damaged compressed data: {}", consumed_,
         stream_.msg ? stream_.msg : zError(status));
  }

 private:
  std::span<const std::byte> input_;
  const std::string& where_;
  z_stream stream_{};
  size_t consumed_ = 0;
};

}  // namespace

std::vector<std::byte> inflate_raw(std::span<const std::byte> bytes, size_t size_bytes,
                                   const std::string& where) {
  require(size_bytes / kMaxExpansion <= bytes.size(), ErrorCode::kBadFormat, where,
          "{} compressed bytes can't give the {} bytes that the header promises", bytes.size(), size_bytes);
  std::vector<std::byte> result(size_bytes + 1);  // one more, to notice a stream that is too long
  Inflater inflater(bytes, where);
  size_t filled = 0;
  for (bool done = false; !done && filled <= size_bytes;) {
    filled += inflater.inflate_into(std::span(result).subspan(filled), done);
  }
  require(filled == size_bytes, ErrorCode::kBadFormat, where,
          "expected {} bytes after decompression, got {}{}", size_bytes,
          filled > size_bytes ? "more than " : "", std::min(filled, size_bytes));
  result.resize(size_bytes);
  return result;
}

}  // namespace isochron::data
