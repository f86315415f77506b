// Helpers for kernels over rows, and for kernels that are written once for f32 and f64 and compiled per
// instruction set.
#pragma once

#include <memory>
#include <type_traits>

#include "isochron/core/process/threads.h"
#include "isochron/graph/ir/kernel.h"

/// Calls the function exported to Highway's dispatch as name_f32 or name_f64, depending on the type `T` at
/// the place of use.
#define ISOCHRON_CALL(name, ...)                     \
  do {                                               \
    if constexpr (sizeof(T) == 4) {                  \
      HWY_DYNAMIC_DISPATCH(name##_f32)(__VA_ARGS__); \
    } else {                                         \
      HWY_DYNAMIC_DISPATCH(name##_f64)(__VA_ARGS__); \
    }                                                \
  } while (false)

/// The same for functions that are also exported for tensors stored as `E`, a 16-bit float.
#define ISOCHRON_CALL_STORED(name, ...)                \
  do {                                                 \
    if constexpr (std::is_same_v<E, bfloat16>) {       \
      HWY_DYNAMIC_DISPATCH(name##_bf16)(__VA_ARGS__);  \
    } else if constexpr (std::is_same_v<E, float16>) { \
      HWY_DYNAMIC_DISPATCH(name##_f16)(__VA_ARGS__);   \
    } else if constexpr (sizeof(E) == 4) {             \
      HWY_DYNAMIC_DISPATCH(name##_f32)(__VA_ARGS__);   \
    } else {                                           \
      HWY_DYNAMIC_DISPATCH(name##_f64)(__VA_ARGS__);   \
    }                                                  \
  } while (false)

namespace isochron::ops {

/// Creates a K<float> or K<double> from `arguments`.
template <template <typename> class K, typename... Arguments>
std::unique_ptr<graph::Kernel> by_dtype(DType dtype, const Arguments&... arguments) {
  if (dtype == DType::kF32) return std::make_unique<K<float>>(arguments...);
  return std::make_unique<K<double>>(arguments...);
}

/// The same with K<float16> and K<bfloat16>.
template <template <typename> class K, typename... Arguments>
std::unique_ptr<graph::Kernel> by_stored_dtype(DType dtype, const Arguments&... arguments) {
  if (dtype == DType::kF16) return std::make_unique<K<float16>>(arguments...);
  if (dtype == DType::kBF16) return std::make_unique<K<bfloat16>>(arguments...);
  return by_dtype<K>(dtype, arguments...);
}

/// A kernel over the rows of its first input, split between threads.
template <typename T>
class RowsKernel : public graph::Kernel {
 public:
  explicit RowsKernel(const graph::KernelRequest& request)
      : columns_(request.inputs[0].shape.back()),
        rows_(columns_ == 0 ? 0 : request.inputs[0].shape.elems() / columns_),
        threads_(rows_ * columns_ >= 2 * kElemsPerThread && rows_ > 1 ? request.threads : 1) {}

 protected:
  static const T* input(const graph::KernelArgs& args, int i) {
    return reinterpret_cast<const T*>(args.inputs[i]);
  }
  static T* output(const graph::KernelArgs& args, int i) { return reinterpret_cast<T*>(args.outputs[i]); }
  /// The element type of statistics and parameters, which are stored in the type that T is computed in.
  using Number = ComputeType<T>;
  static const Number* number_input(const graph::KernelArgs& args, int i) {
    return reinterpret_cast<const Number*>(args.inputs[i]);
  }
  static Number* number_output(const graph::KernelArgs& args, int i) {
    return reinterpret_cast<Number*>(args.outputs[i]);
  }
  /// Calls body(thread, first row, end row) on every thread.
  template <typename Body>
  void each_part(Body body) const {
    parallel_for(threads_, threads_, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) body(t, rows_ * t / threads_, rows_ * (t + 1) / threads_);
    });
  }
  int64_t columns_, rows_;
  int threads_;

 private:
  static constexpr int64_t kElemsPerThread = 16 * 1024;  // elements that make another thread pay off
};

}  // namespace isochron::ops
