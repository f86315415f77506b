// Sharding: which elements of its input a shard takes. The input falls into groups of `shards` blocks of
// `block` consecutive elements; a shard takes its block of every group.
#pragma once

#include <algorithm>
#include <optional>

#include "isochron/core/base/checked.h"
#include "isochron/data/pipeline/recipe.h"

namespace isochron::data {

struct Sharding {
  int64_t shards = 1, index = 0, block = 1;
  bool operator==(const Sharding&) const = default;

  /// Elements of the input in a group. Fits 64 bits, as `Dataset::shard` checks.
  int64_t group_elems() const { return shards * block; }
  /// Where the shard's element `position` stands in the input. Throws kOverflow.
  int64_t input_position(int64_t position) const {
    const int64_t groups = checked_mul(position / block, group_elems(), "shard");
    return checked_add(groups, index * block + position % block, "shard");
  }
  bool takes(int64_t input_position) const { return input_position / block % shards == index; }
  /// Elements of the shard of an input of `input_elems`.
  int64_t elems_of(int64_t input_elems) const {
    const int64_t rest = input_elems % group_elems();  // in an incomplete last group
    return input_elems / group_elems() * block + std::clamp<int64_t>(rest - index * block, 0, block);
  }
};

/// Of the last stage that acts on the order of elements, if that is a shard.
inline std::optional<Sharding> last_sharding(const Recipe& recipe) {
  if (recipe.order.empty() || recipe.order.back().kind != OrderStage::kShard) return std::nullopt;
  const OrderStage& stage = recipe.order.back();
  return Sharding{stage.elems, stage.index, stage.block};
}

/// The number that maps are told of element `position`: behind a shard it is that in the shard's input, so
/// that what is made of an element doesn't depend on the number of shards. Throws kOverflow.
inline int64_t element_number(const Recipe& recipe, int64_t position) {
  const std::optional<Sharding> sharding = last_sharding(recipe);
  return sharding ? sharding->input_position(position) : position;
}

}  // namespace isochron::data
