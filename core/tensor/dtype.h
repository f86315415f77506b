// Element types of tensors, the 16-bit float types, and the mapping between C++ types and `DType`.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "isochron/core/base/error.h"

namespace isochron {

/// IEEE binary16. Storage only: arithmetic happens in f32. Conversion rounds to nearest even.
struct float16 {
  uint16_t bits = 0;
  float16() = default;
  explicit float16(float value);
  explicit operator float() const;
};

/// bfloat16 (the upper half of an f32). Storage only; conversion rounds to nearest even, NaN stays NaN.
struct bfloat16 {
  uint16_t bits = 0;
  bfloat16() = default;
  explicit bfloat16(float value) {
    uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((u >> 16) | 0x40u);
    } else {
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

inline float16::operator float() const { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
inline float16::float16(float value) : bits(std::bit_cast<uint16_t>(static_cast<_Float16>(value))) {}

enum class DType : uint8_t { kF64, kF32, kF16, kBF16, kI64, kI32, kU8, kBool };
inline constexpr int kDTypeCount = 8;

/// Bytes per element.
constexpr size_t dtype_size(DType dtype) {
  constexpr size_t kSizes[kDTypeCount] = {8, 4, 2, 2, 8, 4, 1, 1};
  return kSizes[static_cast<int>(dtype)];
}
constexpr bool is_floating(DType dtype) { return dtype <= DType::kBF16; }
/// Is it one of the 16-bit floats?
constexpr bool is_half(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }
constexpr bool is_integer(DType dtype) { return dtype >= DType::kI64 && dtype <= DType::kU8; }

/// "f32", "bool", ... as used in printed graphs, JSON and error texts.
constexpr std::string_view dtype_name(DType dtype) {
  constexpr std::string_view kNames[kDTypeCount] = {"f64", "f32", "f16", "bf16", "i64", "i32", "u8", "bool"};
  return kNames[static_cast<int>(dtype)];
}

template <typename T>
struct DTypeOf;
#define ISOCHRON_DTYPE_OF(type, dtype)    \
  template <>                             \
  struct DTypeOf<type> {                  \
    static constexpr DType value = dtype; \
  };
ISOCHRON_DTYPE_OF(double, DType::kF64)
ISOCHRON_DTYPE_OF(float, DType::kF32)
ISOCHRON_DTYPE_OF(float16, DType::kF16)
ISOCHRON_DTYPE_OF(bfloat16, DType::kBF16)
ISOCHRON_DTYPE_OF(int64_t, DType::kI64)
ISOCHRON_DTYPE_OF(int32_t, DType::kI32)
ISOCHRON_DTYPE_OF(uint8_t, DType::kU8)
ISOCHRON_DTYPE_OF(bool, DType::kBool)
#undef ISOCHRON_DTYPE_OF
template <typename T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

/// The type in which kernels compute on elements of type E: f32 for the 16-bit floats, otherwise E.
template <typename E>
using ComputeType = std::conditional_t<sizeof(E) == 2, float, E>;

/// Calls `f(T{})` with the C++ type of `dtype`; the result type must be the same for all.
template <typename F>
decltype(auto) dispatch_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF64:
      return f(double{});
    case DType::kF32:
      return f(float{});
    case DType::kF16:
      return f(float16{});
    case DType::kBF16:
      return f(bfloat16{});
    case DType::kI64:
      return f(int64_t{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kU8:
      return f(uint8_t{});
    case DType::kBool:
      return f(bool{});
  }
  fail(ErrorCode::kInvalidArgument, "dtype", "dtype {} does not exist", static_cast<int>(dtype));
}

}  // namespace isochron
