#include "isochron/optim/clipping.h"

#include <limits>

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/tensor_lists.h"

namespace isochron::optim {
namespace {

template <typename F>
std::vector<Tensor> each_defined(std::span<const Tensor> tensors, F f) {
  std::vector<Tensor> result;
  result.reserve(tensors.size());
  for (const Tensor& tensor : tensors) result.push_back(tensor.defined() ? f(tensor) : Tensor());
  return result;
}

void check_norm(double max_norm, std::string_view where) {
  require(max_norm > 0, ErrorCode::kInvalidArgument, where, "max_norm must be > 0, got {}", max_norm);
}

}  // namespace

Tensor global_norm(std::span<const Tensor> tensors) {
  std::vector<Tensor> defined;
  for (const Tensor& tensor : tensors) {
    if (tensor.defined()) defined.push_back(tensor);
  }
  require(!defined.empty(), ErrorCode::kInvalidArgument, "global_norm", "none of the {} tensors is defined",
          tensors.size());
  const Tensor squares = square_sum(defined);
  const Tensor some = not_equal(squares, scalar(0, squares.dtype()));
  // The derivative of the square root at 0 is infinite; that of the norm is defined as 0.
  const Tensor norm = where(some, sqrt(where(some, squares, scalar(1, squares.dtype()))), squares);
  return cast(norm, defined[0].dtype());
}

namespace {

/// The factor for a tensor of this norm. A limit that the dtype can't represent is never reached.
Tensor clip_factor(const Tensor& norm, double max_norm) {
  const double largest =
      norm.dtype() == DType::kF64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
  return max_norm > largest ? scalar(1, norm.dtype()) : max_norm / maximum(norm, max_norm);
}

}  // namespace

std::vector<Tensor> clip_by_global_norm(std::span<const Tensor> tensors, double max_norm) {
  check_norm(max_norm, "clip_by_global_norm");
  const Tensor factor = clip_factor(global_norm(tensors), max_norm);
  return each_defined(tensors, [&](const Tensor& tensor) { return tensor * factor; });
}

std::vector<Tensor> clip_by_norm(std::span<const Tensor> tensors, double max_norm) {
  check_norm(max_norm, "clip_by_norm");
  return each_defined(tensors, [&](const Tensor& tensor) {
    return tensor * clip_factor(global_norm({&tensor, 1}), max_norm);
  });
}

std::vector<Tensor> clip_by_value(std::span<const Tensor> tensors, double limit) {
  require(limit > 0, ErrorCode::kInvalidArgument, "clip_by_value", "limit must be > 0, got {}", limit);
  return each_defined(tensors, [&](const Tensor& tensor) { return clip(tensor, -limit, limit); });
}

}  // namespace isochron::optim
