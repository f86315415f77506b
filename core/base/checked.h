// Integer arithmetic that throws instead of wrapping. Every size and offset in the project is computed with
// it.
#pragma once

#include <cstdint>

#include "isochron/core/base/error.h"

namespace isochron {

/// a + b. Throws kOverflow.
template <typename Int>
constexpr Int checked_add(Int a, Int b, std::string_view where = "size") {
  Int result{};
  if (__builtin_add_overflow(a, b, &result))
    fail(ErrorCode::kOverflow, where, "{} + {} does not fit 64 bits", a, b);
  return result;
}

/// a * b. Throws kOverflow.
template <typename Int>
constexpr Int checked_mul(Int a, Int b, std::string_view where = "size") {
  Int result{};
  if (__builtin_mul_overflow(a, b, &result))
    fail(ErrorCode::kOverflow, where, "{} x {} does not fit 64 bits", a, b);
  return result;
}

/// Bytes of a cache line. Data that different threads write is kept in different cache lines.
inline constexpr size_t kCacheLine = 64;

/// The smallest multiple of `alignment` (a power of two) that is >= value. Throws kOverflow.
template <typename Int>
constexpr Int align_up(Int value, Int alignment) {
  return static_cast<Int>(checked_add<Int>(value, alignment - 1) & ~(alignment - 1));
}

}  // namespace isochron
