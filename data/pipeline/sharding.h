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
  /// The position in the input of the shard's element `position`. Throws kOverflow.
  int64_t input_position(int64_t position) const {
    const int64_t groups = checked_mul(position / block, group_elems(), "shard");
    return checked_add(groups, index * block + position % block, "shard");
  }
  bool takes(int64_t input_position) const { return input_position / block % shards == index; }
  /// How many elements the shard takes from an input of `input_elems`.
  int64_t elems_of(int64_t input_elems) const {
    const int64_t rest = input_elems % group_elems();  // in an incomplete last group
    return input_elems / group_elems() * block + std::clamp<int64_t>(rest - index * block, 0, block);
  }
};

/// The sharding of a shard stage.
inline Sharding sharding_of(const OrderStage& stage) { return {stage.elems, stage.index, stage.block}; }

/// The sharding of the last stage that changes the order; nullopt if that stage isn't a shard.
inline std::optional<Sharding> last_sharding(const Recipe& recipe) {
  if (recipe.order.empty() || recipe.order.back().kind != OrderStage::kShard) return std::nullopt;
  return sharding_of(recipe.order.back());
}

/// The epoch of a repeat's input in pass `pass` of epoch `epoch`. Passes are counted on from epoch to epoch.
/// If the repeat is endless, epochs begin at mixed numbers that leave room for 2^32 passes each, so that
/// nested repeats don't collide.
inline uint64_t epoch_of_pass(const OrderStage& repeat, uint64_t epoch, int64_t pass) {
  const auto number = static_cast<uint64_t>(pass);
  if (repeat.passes_are_epochs) return epoch + number;
  if (repeat.elems != kInfinite) return epoch * static_cast<uint64_t>(repeat.elems) + number;
  return epoch == 0 ? number : epoch * 0x9E3779B97F4A7C15u + number;
}

/// The next epoch after a loop took `elements` elements of epoch `epoch`, and each other shard took as many.
/// After a repeat with `passes_are_epochs` it is the pass after the last one that was begun.
inline uint64_t epoch_after(const Recipe& recipe, uint64_t epoch, int64_t elements) {
  for (auto stage = recipe.order.rbegin(); stage != recipe.order.rend(); ++stage) {
    if (stage->kind == OrderStage::kShard) {
      const Sharding sharding = sharding_of(*stage);
      const int64_t groups = elements / sharding.block + (elements % sharding.block != 0 ? 1 : 0);
      elements = checked_mul(groups, sharding.group_elems(), "shard");
      continue;
    }
    if (stage->passes_are_epochs)
      epoch = epoch_of_pass(*stage, epoch, std::max<int64_t>(elements - 1, 0) / stage->input_size);
    break;
  }
  return epoch + 1;
}

/// The position that map functions get for the recipe's element at `position`. After a shard it is the
/// element's number in the shard's input, so that the result doesn't depend on the number of shards. After a
/// repeat with `passes_are_epochs` it is the number within the pass. Throws kOverflow.
inline Position map_position(const Recipe& recipe, Position position) {
  for (auto stage = recipe.order.rbegin(); stage != recipe.order.rend(); ++stage) {
    if (stage->kind == OrderStage::kShard) {
      position.element = sharding_of(*stage).input_position(position.element);
    } else if (stage->passes_are_epochs) {
      position.epoch = epoch_of_pass(*stage, position.epoch, position.element / stage->input_size);
      position.element %= stage->input_size;
    } else {
      break;
    }
  }
  return position;
}

}  // namespace isochron::data
