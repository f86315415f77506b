// Pooling with one thread per element of the result. Comes after window_text.h. `x`, `g` and `at` point to
// the first pixel of an image, in the thread's channel; pixels are `channels` elements apart.
#ifndef ISOCHRON_OPS_CUDA_POOLING_TEXT_H_
#define ISOCHRON_OPS_CUDA_POOLING_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

/// The largest element of a window (NaN if it contains one), and its first position (either null: not
/// wanted).
template <typename T, typename P>
ISOCHRON_SCALAR void max_of_window(const Window& window, const T* x, unsigned channels, int pixel, T* y,
                                   P* at) {
  int found = kOutside;
  T most{};
  for (int k = 0; k < window.elems(); ++k) {
    const int from = window.source(pixel, k);
    if (from < 0) continue;
    const T value = x[static_cast<unsigned long long>(from) * channels];
    const auto a = widen(value), b = widen(most);
    if (found >= 0 && !(a > b) && !(a != a && b == b)) continue;
    most = value;
    found = k;
  }
  if (y) *y = most;
  if (at) *at = static_cast<P>(found);
}

/// The sum of the gradients of the windows whose largest element is this one.
template <typename Sum, typename T, typename P>
ISOCHRON_SCALAR Sum gradient_of_max(const Window& window, const T* g, const P* at, unsigned channels,
                                    int pixel) {
  Sum sum = 0;
  for (int k = 0; k < window.elems(); ++k) {
    const int to = window.target(pixel, k);
    if (to < 0) continue;
    const unsigned long long i = static_cast<unsigned long long>(to) * channels;
    if (static_cast<int>(at[i]) == k) sum += widen(g[i]);
  }
  return sum;
}

template <typename Sum, typename T>
ISOCHRON_SCALAR Sum average_of_window(const Window& window, const T* x, unsigned channels, int pixel,
                                      bool count_padding) {
  Sum sum = 0;
  for (int k = 0; k < window.elems(); ++k) {
    const int from = window.source(pixel, k);
    if (from >= 0) sum += widen(x[static_cast<unsigned long long>(from) * channels]);
  }
  return sum * (Sum(1) / Sum(count_padding ? window.elems() : window.inside(pixel)));
}

template <typename Sum, typename T>
ISOCHRON_SCALAR Sum gradient_of_average(const Window& window, const T* g, unsigned channels, int pixel,
                                        bool count_padding) {
  Sum sum = 0;
  for (int k = 0; k < window.elems(); ++k) {
    const int to = window.target(pixel, k);
    if (to < 0) continue;
    const Sum factor = Sum(1) / Sum(count_padding ? window.elems() : window.inside(to));
    sum += widen(g[static_cast<unsigned long long>(to) * channels]) * factor;
  }
  return sum;
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
