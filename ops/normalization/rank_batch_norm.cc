#include "isochron/ops/normalization/rank_batch_norm.h"

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/normalization/normalization_row.h"
#include "isochron/ops/normalization/normalize_by_moments.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron {
namespace {

constexpr std::string_view kWhere = "rank_batch_norm";

/// Moments over the rows of all ranks, in f64.
struct RankMoments {
  Moments moments;
  Tensor rows;
};
RankMoments moments_of_all(const Moments& own, double own_rows, const RankGroup& group) {
  const int64_t channels = own.mean.extent(0);
  const Tensor packed = concatenate({cast(own.mean, DType::kF64), cast(own.variance, DType::kF64),
                                     constant(full({1}, own_rows, DType::kF64))});
  const Tensor all = all_gather(reshape(packed, {1, 2 * channels + 1}), group);
  const Tensor means = narrow(all, 1, 0, channels), variances = narrow(all, 1, channels, channels);
  const Tensor rows = stop_gradient(narrow(all, 1, 2 * channels, 1));
  const Tensor all_rows = sum(rows);
  const Tensor shares = rows / all_rows;
  const Tensor mean = sum(means * shares, {0});
  return {{mean, sum((variances + square(means - mean)) * shares, {0})}, all_rows};
}

}  // namespace

NormalizedRanks rank_batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon,
                                const RankGroup& group) {
  require(group != nullptr, ErrorCode::kInvalidArgument, kWhere, "the group is null; comm::world() is one");
  require(x.defined() && x.rank() >= 1 && x.elems() > 0, ErrorCode::kShapeMismatch, kWhere,
          "the input must be (..., C) with at least one row, got {}",
          x.defined() ? x.spec().str() : "an undefined tensor");
  const double own_rows = static_cast<double>(x.elems() / x.extent(-1));
  if (group->size() == 1) {
    NormalizedBatch alone = batch_norm(x, gamma, beta, epsilon);
    return {std::move(alone.y), std::move(alone.moments), constant(scalar(own_rows, DType::kF64))};
  }
  const Tensor wide = is_half(x.dtype()) ? ops::in_f32(x) : x;
  const RankMoments all = moments_of_all(channel_moments(wide), own_rows, group);
  const Moments moments = {cast(all.moments.mean, wide.dtype()), cast(all.moments.variance, wide.dtype())};
  if (!is_half(x.dtype()))
    return {ops::normalize_by_moments(x, moments, gamma, beta, epsilon), moments, all.rows};
  return {cast(ops::normalize_by_moments(wide, moments, ops::in_f32(gamma), ops::in_f32(beta), epsilon),
               x.dtype()),
          moments, all.rows};
}

}  // namespace isochron
