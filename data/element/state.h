// The state of an iteration as bytes, which a checkpoint saves. The same classes write and read it in the
// same order. Everything read is checked, because a state may come from a damaged file.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "isochron/core/base/error.h"

namespace isochron::data {

class StateWriter {
 public:
  void put(uint64_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  void put(int64_t value) { put(static_cast<uint64_t>(value)); }
  void put_bytes(std::span<const std::byte> bytes) {
    put(static_cast<uint64_t>(bytes.size()));
    bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  void put_text(std::string_view text) { put_bytes(std::as_bytes(std::span(text.data(), text.size()))); }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class StateReader {
 public:
  explicit StateReader(std::string_view bytes) : bytes_(bytes) {}

  uint64_t get() {
    uint64_t value;
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
    return value;
  }
  /// A number in [least, most]. Throws kBadFormat, like all functions of this class.
  int64_t get_between(int64_t least, int64_t most, std::string_view what) {
    const auto value = static_cast<int64_t>(get());
    if (value < least || value > most) refuse(what);
    return value;
  }
  /// Valid as long as the state's bytes.
  std::span<const std::byte> get_bytes() {
    const uint64_t size = get();
    const std::string_view text = take(size);
    return std::as_bytes(std::span(text.data(), text.size()));
  }
  std::string_view get_text() {
    const auto bytes = get_bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  void expect_end() {
    if (offset_ != bytes_.size()) refuse("its end");
  }
  [[noreturn]] void refuse(std::string_view what) const {
    fail(ErrorCode::kBadFormat, "dataset state",
         "byte {} of {}: expected {}; the state is damaged, or that of another dataset", offset_,
         bytes_.size(), what);
  }

 private:
  std::string_view take(uint64_t size) {
    if (size > bytes_.size() - offset_) refuse(fmt::format("{} more bytes", size));
    const std::string_view result = bytes_.substr(offset_, static_cast<size_t>(size));
    offset_ += static_cast<size_t>(size);
    return result;
  }

  std::string_view bytes_;
  size_t offset_ = 0;
};

}  // namespace isochron::data
