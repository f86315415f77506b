// How much of each element along an axis an interpolated element takes. Compiled by NVRTC too, behind
// scalar_functors.h and the prelude.
#pragma once

#ifndef ISOCHRON_OPS_CUDA_ELEMENT_PRELUDE_H_
#include "isochron/ops/elementwise/scalar_functors.h"
#endif

namespace isochron {
namespace ops {
namespace element {

/// The elements that one takes from: `count` of them from `begin` on, `first` if there were no edge.
struct InterpolationRow {
  long long begin, count, first;
  double position;  // among the elements, whose centers are 0, 1, ...
};

/// `from` elements taken to `to`; both > 0 and at most 2^24. The options are those of ResizeOptions; neither
/// `nearest` nor `cubic` nor `area`: linear.
struct InterpolationAxis {
  long long from, to;
  bool nearest, cubic, area, align_corners, antialias;

  ISOCHRON_INLINE double position(long long r) const {
    const double row = static_cast<double>(r);
    if (!align_corners) return (row + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
    return to == 1 ? 0 : row * static_cast<double>(from - 1) / static_cast<double>(to - 1);
  }
  /// By how much antialiasing widens the filter.
  ISOCHRON_INLINE double scale() const {
    const double ratio = static_cast<double>(from) / static_cast<double>(to);
    return ratio > 1 ? ratio : 1;
  }
  /// Half the width of the filter under antialiasing.
  ISOCHRON_INLINE double support() const { return (cubic ? 2.0 : 1.0) * scale(); }
  /// Elements that count without antialiasing.
  ISOCHRON_INLINE int taps() const { return nearest ? 1 : cubic ? 4 : 2; }
  /// No row takes more elements.
  ISOCHRON_INLINE long long most_count() const {
    const long long most = area        ? from / to + 2
                           : antialias ? static_cast<long long>(2 * support()) + 2
                                       : taps();
    return most < from ? most : from;
  }

  ISOCHRON_INLINE InterpolationRow row(long long r) const {
    if (area) {
      const long long begin = r * from / to, end = ((r + 1) * from + to - 1) / to;
      return {begin, end - begin, begin, 0};
    }
    const double at = position(r);
    if (antialias) {  // beyond the edge there is nothing
      const long long begin = floored(at + 0.5 - support() + 0.5);
      const long long end = floored(at + 0.5 + support() + 0.5);
      const long long inside = begin > 0 ? begin : 0;
      return {inside, (end < from ? end : from) - inside, inside, at};
    }
    const long long first = nearest ? floored(at + 0.5) : floored(at) - (cubic ? 1 : 0);
    const long long begin = clamped(first);
    return {begin, clamped(first + taps() - 1) + 1 - begin, first, at};
  }

  /// Of element `begin + k`. Under antialiasing they are to be divided by their sum.
  ISOCHRON_INLINE double weight(const InterpolationRow& row, long long k) const {
    if (area) return 1.0 / static_cast<double>(row.count);
    if (antialias) {
      const double distance = (static_cast<double>(row.begin + k) - row.position) / scale();
      return cubic ? cubic_filter(distance, -0.5) : linear_filter(distance);
    }
    const double rest = row.position - floor_of(row.position);
    double sum = 0;  // those beyond the edge are the one at the edge
    for (int t = 0; t < taps(); ++t) {
      if (clamped(row.first + t) == row.begin + k) sum += tap(rest, t);
    }
    return sum;
  }

 private:
  ISOCHRON_SCALAR double floor_of(double x) { return ScalarMath<double>::floor(x); }
  ISOCHRON_SCALAR long long floored(double x) { return static_cast<long long>(floor_of(x)); }
  ISOCHRON_INLINE long long clamped(long long element) const {
    return element < 0 ? 0 : element < from ? element : from - 1;
  }

  /// Of the t-th element from `first` on, `rest` behind that which lies below.
  ISOCHRON_INLINE double tap(double rest, int t) const {
    if (nearest) return 1;
    if (!cubic) return t == 0 ? 1 - rest : rest;
    return cubic_filter(t < 2 ? rest + (1 - t) : (t - 1) - rest, -0.75);
  }
  ISOCHRON_SCALAR double linear_filter(double distance) {
    const double x = ScalarMath<double>::abs(distance);
    return x < 1 ? 1 - x : 0;
  }
  /// Keys, "Cubic convolution interpolation for digital image processing", 1981, with his parameter a.
  ISOCHRON_SCALAR double cubic_filter(double distance, double a) {
    const double x = ScalarMath<double>::abs(distance);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
    return 0;
  }
};

}  // namespace element
}  // namespace ops
}  // namespace isochron
