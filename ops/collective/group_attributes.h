// Attributes of the nodes of collective ops: the group, and a sum in progress.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "isochron/graph/ir/attributes.h"
#include "isochron/ops/collective/collectives.h"
#include "isochron/ops/collective/packed_sum.h"

namespace isochron::ops {

/// A group as an attribute of a node.
struct GroupAttribute final : graph::AttributeObject {
  explicit GroupAttribute(RankGroup ranks) : group(std::move(ranks)) {}
  std::string str() const override;
  const RankGroup group;
};
comm::Group& group_of(const graph::Attributes& attributes);
/// What an all_reduce with these attributes sums.
PackedSum::Content content_of(const graph::Attributes& attributes);

/// The sum that an `all_reduce_start` and its `all_reduce_wait` share: one run at a time.
struct PendingSum final : graph::AttributeObject {
  PendingSum(const RankGroup& group, std::span<const TensorSpec> specs, PackedSum::Content content)
      : tensors(specs.begin(), specs.end()), sum(group, specs, content) {}
  std::string str() const override { return "a sum in flight"; }
  const std::vector<TensorSpec> tensors;
  mutable PackedSum sum;
};

}  // namespace isochron::ops
