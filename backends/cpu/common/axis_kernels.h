// Shared by kernels that work along one axis: distribution of columns over threads, index arrays, and
// conversion of numbers to the type in which they are summed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "isochron/backends/common/axis_view.h"
#include "isochron/core/process/threads.h"
#include "isochron/core/tensor/dtype.h"

namespace isochron::ops {

/// The number of elements per thread from which waking another thread pays off.
inline constexpr int64_t kElemsPerThread = 32 * 1024;

/// Calls `body(outer, begin, end)` for runs of at most `longest` inner positions. The runs together cover all
/// of (outer, inner); each is processed by one thread.
template <typename Body>
void for_columns(int threads, int64_t outer, int64_t inner, int64_t longest, Body&& body) {
  parallel_for(threads, outer * inner, [&](int64_t first, int64_t last) {
    if (first == last) return;
    int64_t at = first / inner;
    int64_t begin = first % inner;
    for (int64_t rest = last - first; rest > 0;) {
      const int64_t count = std::min({inner - begin, rest, longest});
      body(at, begin, begin + count);
      rest -= count;
      begin += count;
      if (begin < inner) continue;
      begin = 0;
      ++at;
    }
  });
}

/// Reads an i32 or i64 array of indices.
class Indices {
 public:
  Indices(const std::byte* data, DType dtype) : data_(data), wide_(dtype == DType::kI64) {}
  int64_t operator[](int64_t i) const {
    return wide_ ? reinterpret_cast<const int64_t*>(data_)[i] : reinterpret_cast<const int32_t*>(data_)[i];
  }

 private:
  const std::byte* data_;
  bool wide_;
};

template <typename T>
inline constexpr bool half_type = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

/// Converts 16-bit floats to f32, for computing; returns other numbers unchanged.
template <typename T>
auto widen(T x) {
  if constexpr (half_type<T>) {
    return static_cast<float>(x);
  } else {
    return x;
  }
}

}  // namespace isochron::ops
