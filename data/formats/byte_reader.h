// ByteReader: reads the bytes of a file in memory with bounds checks, for parsers of binary formats. Errors
// name the file, the entry and the byte offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "isochron/core/base/error.h"

namespace isochron::data {

class ByteReader {
 public:
  /// `where` names the file (and entry) in errors.
  ByteReader(std::span<const std::byte> bytes, std::string where) : bytes_(bytes), where_(std::move(where)) {}

  size_t offset() const { return offset_; }
  size_t left() const { return bytes_.size() - offset_; }
  const std::string& where() const { return where_; }

  /// Moves to `offset`. Throws kBadFormat beyond the end; `what` is the thing expected there.
  void seek(uint64_t offset, std::string_view what) {
    if (offset > bytes_.size()) {
      fail(ErrorCode::kBadFormat, where_, "expected {} at byte {}, the file has {} bytes; is it truncated?",
           what, offset, bytes_.size());
    }
    offset_ = static_cast<size_t>(offset);
  }
  /// The next `size` bytes. Throws kBadFormat when fewer are left.
  std::span<const std::byte> take(uint64_t size, std::string_view what) {
    if (size > left()) {
      fail(ErrorCode::kBadFormat, where_, "byte {}: expected {} bytes of {}, got {}; is the file truncated?",
           offset_, size, what, left());
    }
    const auto result = bytes_.subspan(offset_, static_cast<size_t>(size));
    offset_ += static_cast<size_t>(size);
    return result;
  }
  std::string_view take_text(uint64_t size, std::string_view what) {
    const auto bytes = take(size, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  /// A little-endian unsigned integer.
  template <typename Unsigned>
  Unsigned take_le(std::string_view what) {
    uint64_t value = 0;
    int shift = 0;
    for (std::byte byte : take(sizeof(Unsigned), what)) {
      value |= std::to_integer<uint64_t>(byte) << shift;
      shift += 8;
    }
    return static_cast<Unsigned>(value);
  }
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::kBadFormat, where_, "byte {}: {}", offset_,
         fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  std::span<const std::byte> bytes_;
  std::string where_;
  size_t offset_ = 0;
};

}  // namespace isochron::data
