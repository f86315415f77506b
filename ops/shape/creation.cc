#include "isochron/ops/shape/creation.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "isochron/core/telemetry/counters.h"
#include "isochron/core/tensor/elements.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/ops/shape/held_numbers.h"

namespace isochron {
namespace {

void count_host_copy(const Tensor& tensor) {
  count(Counter::kHostCopies, 1);
  count(Counter::kHostCopyBytes, static_cast<int64_t>(tensor.size_bytes()));
}

}  // namespace

void ops::require_uncut(double number, DType dtype, const char* where) {
  require(is_floating(dtype) || number == std::trunc(number), ErrorCode::kDtypeMismatch, where,
          "{} would be truncated to the integer dtype of the tensor, {}; cast the tensor to f32 first",
          number, dtype_name(dtype));
}

double ops::largest_finite(DType dtype) {
  double largest = 0;
  if (dtype == DType::kF64) largest = std::numeric_limits<double>::max();
  if (dtype == DType::kF32) largest = std::numeric_limits<float>::max();
  if (dtype == DType::kBF16) largest = 0x1.FEp127;
  if (dtype == DType::kF16) largest = 65504;
  require(largest != 0, ErrorCode::kDtypeMismatch, "largest_finite", "expected a floating dtype, got {}",
          dtype_name(dtype));
  return largest;
}

bool ops::out_of_half_range(double number, DType dtype) {
  if (!is_half(dtype) || number == 0 || !std::isfinite(number)) return false;
  const double smallest = dtype == DType::kF16 ? 0x1p-14 : 0x1p-126;
  return std::abs(number) < smallest || std::abs(number) > largest_finite(dtype);
}

void ops::require_held(double number, DType dtype, const char* where) {
  if (dtype == DType::kBool) return;
  dispatch_dtype(dtype, [&]<typename T>(T) {
    if constexpr (!std::is_integral_v<T>) {
      using Wide = std::conditional_t<sizeof(T) == 2, float, T>;
      const bool held = std::isfinite(static_cast<Wide>(T(static_cast<Wide>(number))));
      require(held || !std::isfinite(number), ErrorCode::kOutOfRange, where,
              "{} is beyond the largest number of {}, {}; use infinity, or cast the tensor to {} first",
              number, dtype_name(dtype), largest_finite(dtype), is_half(dtype) ? "f32" : "f64");
    } else if constexpr (!std::is_same_v<T, bool>) {
      const double cut = std::trunc(number), lowest = static_cast<double>(std::numeric_limits<T>::lowest());
      // No double equals the highest i64, 2^63 - 1; the next one is 2^63, which is out of range.
      const double beyond = std::ldexp(1.0, std::numeric_limits<T>::digits);
      require(cut >= lowest && cut < beyond, ErrorCode::kOutOfRange, where,
              "{} is out of the range of {}; cast the tensor to a dtype that can hold it", number,
              dtype_name(dtype));
    }
  });
}

Tensor full(const Shape& shape, double number, DType dtype) {
  ops::require_held(number, dtype, "full");
  Tensor result = empty({dtype, shape}, "full");
  std::array<std::byte, 8> one{};
  store_number(one.data(), dtype, number);
  fill_elements(result.raw(), dtype, one.data(), result.elems());
  return result;
}

Tensor scalar(double number, DType dtype) {
  ops::require_held(number, dtype, "scalar");
  Tensor result = empty({dtype, {}}, "scalar");
  store_number(result.raw(), dtype, number);
  result.storage()->set_constant();
  return result;
}

Tensor zeros(const Shape& shape, DType dtype) { return full(shape, 0, dtype); }
Tensor ones(const Shape& shape, DType dtype) { return full(shape, 1, dtype); }
Tensor zeros_like(const Tensor& tensor) {
  const ErrorScope scope("zeros_like");
  return to_device(zeros(tensor.shape(), tensor.dtype()), tensor.device());
}
Tensor ones_like(const Tensor& tensor) {
  const ErrorScope scope("ones_like");
  return to_device(ones(tensor.shape(), tensor.dtype()), tensor.device());
}

Tensor arange(int64_t count, DType dtype) {
  require(count >= 0, ErrorCode::kInvalidArgument, "arange", "count must be >= 0, got {}", count);
  if (count > 0) ops::require_held(static_cast<double>(count - 1), dtype, "arange");
  Tensor result = empty({dtype, {count}}, "arange");
  for (int64_t i = 0; i < count; ++i) {
    store_number(result.raw() + static_cast<size_t>(i) * dtype_size(dtype), dtype, static_cast<double>(i));
  }
  return result;
}

Tensor linspace(double start, double stop, int64_t count, DType dtype) {
  require(count >= 0, ErrorCode::kInvalidArgument, "linspace", "count must be >= 0, got {}", count);
  require(std::isfinite(start) && std::isfinite(stop), ErrorCode::kInvalidArgument, "linspace",
          "both ends must be finite, got {} and {}", start, stop);
  ops::require_held(start, dtype, "linspace");
  ops::require_held(stop, dtype, "linspace");
  Tensor result = empty({dtype, {count}}, "linspace");
  for (int64_t i = 0; i < count; ++i) {
    const double share = count == 1 ? 0.0 : static_cast<double>(i) / static_cast<double>(count - 1);
    store_number(result.raw() + static_cast<size_t>(i) * dtype_size(dtype), dtype,
                 std::lerp(start, stop, share));
  }
  return result;
}

Tensor from_vector(const Shape& shape, const std::vector<double>& values, DType dtype) {
  require(shape.elems() == static_cast<int64_t>(values.size()), ErrorCode::kShapeMismatch, "from_vector",
          "shape {} has {} elements, got {} values", shape.str(), shape.elems(), values.size());
  Tensor result = empty({dtype, shape}, "from_vector");
  count_host_copy(result);
  for (size_t i = 0; i < values.size(); ++i) {
    ops::require_held(values[i], dtype, "from_vector");
    store_number(result.raw() + i * dtype_size(dtype), dtype, values[i]);
  }
  return result;
}

Tensor constant(const Tensor& tensor) {
  const ErrorScope scope("constant");
  require(
      !tensor.is_value(), ErrorCode::kCaptureViolation, "constant",
      "{} is a value of the graph being captured, which has no content yet; compute the content outside of "
      "the captured function, or leave constant() out: results of constants alone are folded",
      tensor.spec().str());
  require(tensor.contiguous(), ErrorCode::kInvalidArgument, "constant",
          "{} is strided; make it contiguous() first", tensor.spec().str());
  Tensor result = graph::internal::copy_now(tensor);
  result.storage()->set_constant();
  return result;
}

namespace internal {

Tensor copy_in(const TensorSpec& spec, const void* data, size_t count) {
  require(spec.shape.elems() == static_cast<int64_t>(count), ErrorCode::kShapeMismatch, "from_span",
          "shape {} has {} elements, got {} values", spec.shape.str(), spec.shape.elems(), count);
  Tensor result = empty(spec, "from_span");
  count_host_copy(result);
  if (count > 0) std::memcpy(result.raw(), data, result.size_bytes());
  return result;
}

}  // namespace internal
}  // namespace isochron
