#include "isochron/nn/module/residual.h"

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::nn {

Function::Function(Call call) : call_(std::move(call)) {
  require(static_cast<bool>(call_), ErrorCode::kInvalidArgument, "function", "the function is empty");
}

Tensor Residual::forward(const Tensor& x) {
  const Tensor y = (*inner_)(x);
  const Tensor around = shortcut_ ? (*shortcut_)(x) : x;
  require(
      y.spec() == around.spec(), ErrorCode::kShapeMismatch, kind(),
      "the inner module returns {}, but the shortcut around it {}; give the constructor a shortcut that fits",
      y.spec().str(), around.spec().str());
  return around + y;
}

void Residual::members(Members& list) {
  list("inner", *inner_);
  if (shortcut_) list("shortcut", *shortcut_);
}

Tensor Parallel::forward(const Tensor& x) {
  require(!branches_.empty(), ErrorCode::kInvalidArgument, kind(), "has no branches");
  std::vector<Tensor> results;
  for (const auto& branch : branches_) results.push_back((*branch)(x));
  return concatenate(results, axis_);
}

void Parallel::members(Members& list) {
  for (size_t i = 0; i < branches_.size(); ++i) list(fmt::format("branch_{}", i), *branches_[i]);
}

}  // namespace isochron::nn
