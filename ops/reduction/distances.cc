#include "isochron/ops/reduction/distances.h"

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron {
namespace {

void require_epsilon(double epsilon, std::string_view where) {
  require(epsilon > 0, ErrorCode::kInvalidArgument, where, "epsilon must be > 0, got {}", epsilon);
}

Tensor in_f32(const Tensor& x) { return is_half(x.dtype()) ? cast(x, DType::kF32) : x; }

}  // namespace

Tensor normalize(const Tensor& x, double p, int64_t axis, double epsilon) {
  const ErrorScope scope("normalize");
  ops::require_defined(x, "normalize");
  require_epsilon(epsilon, "normalize");
  const Tensor wide = in_f32(x);
  return cast(wide / maximum(norm(wide, p, {axis}, true), epsilon), x.dtype());
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t axis, double epsilon) {
  const ErrorScope scope("cosine_similarity");
  ops::require_defined(a, "cosine_similarity");
  ops::require_defined(b, "cosine_similarity");
  require_epsilon(epsilon, "cosine_similarity");
  const auto unit = [&](const Tensor& x) { return normalize(in_f32(x), 2, axis, epsilon); };
  require(a.dtype() == b.dtype(), ErrorCode::kDtypeMismatch, "cosine_similarity",
          "{} and {} differ; cast one", a.spec().str(), b.spec().str());
  return cast(sum(unit(a) * unit(b), {axis}), a.dtype());
}

Tensor pairwise_distances(const Tensor& a, const Tensor& b, double p) {
  const ErrorScope scope("pairwise_distances");
  ops::require_defined(a, "pairwise_distances");
  ops::require_defined(b, "pairwise_distances");
  require(a.rank() >= 2 && b.rank() >= 2 && a.extent(-1) == b.extent(-1), ErrorCode::kShapeMismatch,
          "pairwise_distances", "expected rows of one length, (..., N, D) and (..., M, D), got {} and {}",
          a.spec().str(), b.spec().str());
  require(p >= 1, ErrorCode::kInvalidArgument, "pairwise_distances", "p must be >= 1, got {}", p);
  const Tensor differences = expand_dims(a, -2) - expand_dims(b, -3);
  if (p != 2) return norm(differences, p, {-1});
  // Without the scaling by which `norm` avoids overflow: differences aren't stored.
  const Tensor squares = sum(square(in_f32(differences)), {-1});
  const Tensor none = equal(squares, 0);
  return cast(where(none, 0, sqrt(where(none, 1, squares))), a.dtype());
}

}  // namespace isochron
