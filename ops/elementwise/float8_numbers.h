// Numbers in 8 bits: rounding to them, their bytes, and scales from the magnitudes of steps before. Compiled
// by NVRTC too, behind scalar_functors.h and the prelude, whose bits_of and float_of these use there.
//
// Source: Micikevicius et al., "FP8 Formats for Deep Learning" (2022).
#pragma once

#ifndef ISOCHRON_OPS_CUDA_ELEMENT_PRELUDE_H_
#include <bit>

#include "isochron/ops/elementwise/scalar_functors.h"
namespace isochron::ops::element {
ISOCHRON_SCALAR unsigned bits_of(float x) { return std::bit_cast<unsigned>(x); }
ISOCHRON_SCALAR float float_of(unsigned bits) { return std::bit_cast<float>(bits); }
}  // namespace isochron::ops::element
#endif

namespace isochron {
namespace ops {
namespace element {

/// 4 bits of exponent, 3 of fraction: for what the forward pass multiplies.
struct E4M3 {
  static constexpr int kFraction = 3;
  static constexpr int kMinExponent = -6;  // below, steps stay as they are
  static constexpr int kMaxExponent = 8;
  static constexpr float kLargest = 448;
};
/// 5 bits of exponent, 2 of fraction: for gradients.
struct E5M2 {
  static constexpr int kFraction = 2;
  static constexpr int kMinExponent = -14;
  static constexpr int kMaxExponent = 15;
  static constexpr float kLargest = 57344;
};

/// How many magnitudes of a tensor are kept, the newest last.
constexpr int kFloat8History = 16;

/// The least power of two by which the largest of `history` but for the newest can be divided to be held in
/// the format; by which the newest can, where none before is above 0; 1 where none at all is. Both formats'
/// largest numbers are 1.75 x 2^kMaxExponent.
template <typename Format>
ISOCHRON_SCALAR float float8_scale(const float* history) {
  float largest = 0;
  for (int i = 0; i + 1 < kFloat8History; ++i) largest = history[i] > largest ? history[i] : largest;
  if (!(largest > 0)) largest = history[kFloat8History - 1];
  if (!(largest > 0)) return 1;
  const unsigned bits = bits_of(largest);
  const bool above = (bits & 0x7fffffu) > 0x600000u;
  const int exponent = static_cast<int>(bits >> 23) - 127 - Format::kMaxExponent + (above ? 1 : 0);
  constexpr int kMin = -100;  // so that its reciprocal is a number too, and what it scales
  return float_of(static_cast<unsigned>((exponent > kMin ? exponent : kMin) + 127) << 23);
}

/// x / scale in the format, to nearest even; beyond its largest number that, but NaN for infinities and NaN.
/// `scale` is a power of two.
template <typename Format>
ISOCHRON_SCALAR float rounded_to_float8(float x, float scale) {
  // As bits, since NaN and infinities are the largest then.
  const unsigned sign = bits_of(x) & 0x80000000u, magnitude = bits_of(x) & 0x7fffffffu;
  const unsigned limit = bits_of(Format::kLargest * scale);
  const float y = float_of(sign | (magnitude < limit ? magnitude : limit)) * (1 / scale);
  constexpr unsigned kMin = static_cast<unsigned>(Format::kMinExponent + 127) << 23;
  const unsigned exponent = bits_of(y) & 0x7f800000u;
  // Adding 1.5 x 2^(23 - kFraction) of y's steps leaves no room for a finer fraction.
  const float shift = float_of(((exponent > kMin ? exponent : kMin) | 0x400000u) +
                               (static_cast<unsigned>(23 - Format::kFraction) << 23));
  const unsigned rounded = bits_of((y + shift) - shift);
  return float_of(magnitude < 0x7f800000u ? rounded : 0x7fc00000u);
}

/// The byte of a number that the format holds, or of NaN.
template <typename Format>
ISOCHRON_SCALAR unsigned char float8_byte(float x) {
  const unsigned bits = bits_of(x);
  const unsigned sign = (bits >> 24) & 0x80u;
  const unsigned magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<unsigned char>(sign | 0x7fu);
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  unsigned digits = 0;
  if (exponent >= Format::kMinExponent) {
    digits = (static_cast<unsigned>(exponent - Format::kMinExponent + 1) << Format::kFraction) |
             ((magnitude & 0x7fffffu) >> (23 - Format::kFraction));
  } else {
    constexpr unsigned kSteps = static_cast<unsigned>(Format::kFraction - Format::kMinExponent + 127) << 23;
    digits = static_cast<unsigned>(float_of(magnitude) * float_of(kSteps));
  }
  return static_cast<unsigned char>(sign | digits);
}

}  // namespace element
}  // namespace ops
}  // namespace isochron
