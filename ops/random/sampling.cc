#include "isochron/ops/random/sampling.h"

#include <cmath>

#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/reduction/sorting.h"
#include "isochron/ops/shape/creation.h"

namespace isochron {

Tensor random_integers(const Shape& shape, int64_t low, int64_t high, random::Generator& generator) {
  const ErrorScope scope("random_integers");
  constexpr uint64_t kMax = uint64_t{1} << 53;  // f64 holds all integers up to here
  const uint64_t count = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  require(low < high && count <= kMax, ErrorCode::kInvalidArgument, "random",
          "needs low < high and at most 2^53 numbers, got [{}, {})", low, high);
  const Tensor numbers = random_uniform(shape, 0, static_cast<double>(count), DType::kF64, generator);
  return cast(numbers, DType::kI64) + from_vector({}, std::vector<int64_t>{low});
}

Tensor random_permutation(int64_t count, random::Generator& generator) {
  const ErrorScope scope("random_permutation");
  require(count >= 1, ErrorCode::kInvalidArgument, "random", "needs at least one number, got {}", count);
  return argsort(random_uniform({count}, 0, 1, DType::kF64, generator));
}

Tensor random_categorical(const Tensor& logits, random::Generator& generator) {
  const ErrorScope scope("random_categorical");
  require(logits.defined() && is_floating(logits.dtype()), ErrorCode::kDtypeMismatch, "random",
          "takes floating logits, got {}", logits.defined() ? logits.spec().str() : "an undefined tensor");
  require(logits.rank() >= 1 && logits.extent(-1) >= 1, ErrorCode::kShapeMismatch, "random",
          "needs a last axis of at least one class, got {}", logits.spec().str());
  const DType dtype = logits.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  const double least = std::ldexp(1.0, -25);  // log(0) would make any class equal to one with logit -infinity
  Tensor numbers = random_uniform(logits.shape(), least, 1, dtype, generator);
  if (graph::Capture::current() == nullptr) numbers = to_device(numbers, logits.device());
  return argmax(cast(logits, dtype) - log(neg(log(numbers))), -1);
}

}  // namespace isochron
