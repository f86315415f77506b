// The beginning of every generated kernel: types, the element functions as classes by dtype, and casts. It
// comes after scalar_functors.h and functors-inl.h in the source that NVRTC compiles. Tests compile the same
// source for the host.
#ifndef ISOCHRON_OPS_CUDA_ELEMENT_PRELUDE_H_
#define ISOCHRON_OPS_CUDA_ELEMENT_PRELUDE_H_

namespace isochron {
namespace ops {
namespace element {

#ifdef __CUDACC_RTC__
#define ISOCHRON_UNROLL _Pragma("unroll")  // so that what it indexes stays in registers
#define ISOCHRON_NO_UNROLL _Pragma("unroll 1")
#define ISOCHRON_PRAGMA(text) _Pragma(#text)
#define ISOCHRON_UNROLL_BY(times) ISOCHRON_PRAGMA(unroll times)
#else
#define ISOCHRON_UNROLL
#define ISOCHRON_NO_UNROLL
#define ISOCHRON_UNROLL_BY(times)
#endif

template <typename T>
struct Floats : scalar_target::Functors<ScalarMath<T>>, FloatRest<T> {};

/// Storage of 16-bit floats. Arithmetic is in f32; stores round to nearest even.
struct float16 {
  unsigned short bits;
};
struct bfloat16 {
  unsigned short bits;
};

#ifdef __CUDACC_RTC__
ISOCHRON_SCALAR float widen(float16 x) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
}
ISOCHRON_SCALAR float16 to_float16(float x) {
  float16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
}
ISOCHRON_SCALAR unsigned bits_of(float x) { return __float_as_uint(x); }
ISOCHRON_SCALAR float float_of(unsigned bits) { return __uint_as_float(bits); }
ISOCHRON_SCALAR double double_of(unsigned long long bits) {
  return __longlong_as_double(static_cast<long long>(bits));
}
#else
ISOCHRON_SCALAR float widen(float16 x) {
  _Float16 half;
  __builtin_memcpy(&half, &x.bits, 2);
  return static_cast<float>(half);
}
ISOCHRON_SCALAR float16 to_float16(float x) {
  const _Float16 half = static_cast<_Float16>(x);
  float16 result;
  __builtin_memcpy(&result.bits, &half, 2);
  return result;
}
ISOCHRON_SCALAR unsigned bits_of(float x) {
  unsigned bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}
ISOCHRON_SCALAR float float_of(unsigned bits) {
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}
ISOCHRON_SCALAR double double_of(unsigned long long bits) {
  double x;
  __builtin_memcpy(&x, &bits, 8);
  return x;
}
#endif
ISOCHRON_SCALAR float widen(bfloat16 x) { return float_of(static_cast<unsigned>(x.bits) << 16); }
ISOCHRON_SCALAR bfloat16 to_bfloat16(float x) {
  const unsigned u = bits_of(x);
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
  const unsigned rounded = nan ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return {static_cast<unsigned short>(rounded)};
}
template <typename T>
ISOCHRON_SCALAR T widen(T x) {
  return x;
}

/// Neighboring elements that are loaded and stored with one access if their address is aligned.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T of[kCount];
};
template <int kCount, typename T>
ISOCHRON_SCALAR bool packs_fit(const T* at) {
  return reinterpret_cast<unsigned long long>(at) % (sizeof(T) * kCount) == 0;
}
template <int kCount, typename T>
ISOCHRON_SCALAR Pack<T, kCount> load_pack(const T* from, bool at_once) {
  if (at_once) return *reinterpret_cast<const Pack<T, kCount>*>(from);
  Pack<T, kCount> pack;
  ISOCHRON_UNROLL
  for (int i = 0; i < kCount; ++i) pack.of[i] = from[i];
  return pack;
}
template <int kCount, typename T>
ISOCHRON_SCALAR void store_pack(T* to, const Pack<T, kCount>& pack, bool at_once) {
  if (at_once) {
    *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
    return;
  }
  ISOCHRON_UNROLL
  for (int i = 0; i < kCount; ++i) to[i] = pack.of[i];
}

/// Converts from the type of computation to the stored type.
template <typename Stored>
struct Store {
  ISOCHRON_SCALAR Stored of(Stored x) { return x; }
};
template <>
struct Store<float16> {
  ISOCHRON_SCALAR float16 of(float x) { return to_float16(x); }
};
template <>
struct Store<bfloat16> {
  ISOCHRON_SCALAR bfloat16 of(float x) { return to_bfloat16(x); }
};
template <typename Stored, typename T>
ISOCHRON_SCALAR void put(Stored* to, T x) {
  *to = Store<Stored>::of(x);
}
/// Rounds to the nearest number that can be stored.
template <typename Stored, typename T>
ISOCHRON_SCALAR T rounded(T x) {
  return widen(Store<Stored>::of(x));
}

template <typename To>
struct Cast {
  template <typename From>
  ISOCHRON_SCALAR To of(From x) {
    return static_cast<To>(x);
  }
};
template <>
struct Cast<bool> {
  template <typename From>
  ISOCHRON_SCALAR bool of(From x) {
    return x != From(0);
  }
};

#ifdef __CUDACC_RTC__
extern "C" __device__ void cudaGraphSetConditional(unsigned long long condition, unsigned value);
ISOCHRON_SCALAR void set_condition(unsigned long long condition, bool value) {
  cudaGraphSetConditional(condition, value);
}
/// On a device, prints a line from a format and at least one argument, and traps.
#define ISOCHRON_FAULT(format, ...)   \
  do {                                \
    printf(format "\n", __VA_ARGS__); \
    asm("trap;");                     \
  } while (false)
#else
ISOCHRON_SCALAR void set_condition(unsigned long long condition, bool value) {
  *reinterpret_cast<unsigned*>(condition) = value;
}
/// The first fault in kernels that run on the host, which continue after it.
extern "C" char host_fault[256];
char host_fault[256] = "";
#define ISOCHRON_FAULT(format, ...)                                                                \
  do {                                                                                             \
    using isochron::ops::element::host_fault;                                                      \
    if (*host_fault == 0) __builtin_snprintf(host_fault, sizeof(host_fault), format, __VA_ARGS__); \
  } while (false)
#endif

/// Returns `index`; reports a fault unless it lies in [0, extent).
ISOCHRON_SCALAR unsigned checked_index(long long index, unsigned extent, const char* op) {
  if (index >= 0 && index < extent) return static_cast<unsigned>(index);
  ISOCHRON_FAULT("%s: index %lld is outside [0, %u)", op, index, extent);
  return 0;
}

// How reductions fold b into a. NaN stays.
struct SumOf {
  template <typename T>
  ISOCHRON_SCALAR T of(T a, T b) {
    return a + b;
  }
};
struct ProductOf {
  template <typename T>
  ISOCHRON_SCALAR T of(T a, T b) {
    return a * b;
  }
};
struct MaximumOf {
  template <typename T>
  ISOCHRON_SCALAR T of(T a, T b) {
    return b > a || b != b ? b : a;
  }
};
struct MinimumOf {
  template <typename T>
  ISOCHRON_SCALAR T of(T a, T b) {
    return b < a || b != b ? b : a;
  }
};

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
