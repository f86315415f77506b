// Packs several tensors into one range of memory and sums them over ranks in one exchange. On request the
// exchange also carries the ranks' notes (comm/group/rank_notes.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "isochron/comm/group/tree_sum.h"
#include "isochron/core/base/checked.h"
#include "isochron/core/tensor/shape.h"

namespace isochron::ops {

/// A hash of dtypes and shapes, for comm::Collective::describe.
uint64_t hash_of(std::span<const TensorSpec> tensors);

class PackedSum {
 public:
  /// What is summed: any tensors; the gradients of an update; or such gradients together with the ranks'
  /// notes.
  enum class Content { kTensors, kGradients, kGradientsAndNotes };
  /// Tensors of f32, f64 and i64.
  PackedSum(std::shared_ptr<comm::Group> group, std::span<const TensorSpec> tensors, Content content);
  PackedSum(const PackedSum&) = delete;
  PackedSum& operator=(const PackedSum&) = delete;

  /// The sizes of the packed range and of the exchange's scratch memory; both are 0 in a group of one rank.
  size_t range_bytes() const { return group_->size() == 1 ? 0 : align_up(packed_, kAlignment); }
  size_t scratch_bytes() const { return group_->size() == 1 ? 0 : sum_->scratch_bytes(); }
  /// The offset of each tensor in the range: a multiple of 64.
  const std::vector<size_t>& offsets() const { return offsets_; }

  enum class Begin { kNow, kWhenFinished };
  /// Packs the tensors that aren't in the range yet. The exchange is then run by the group's thread (kNow) or
  /// by the caller of `finish` (kWhenFinished). `range` and `scratch` must not be touched until `finish`
  /// returns. Throws kCommunication if an error kept `finish` from being called for the previous start.
  void start(std::byte* const* tensors, std::byte* range, std::byte* scratch, Begin begin);
  /// Waits for the exchange, and unpacks the sums that aren't meant to stay in the range.
  void finish(std::byte* const* sums);
  /// Call this instead of `finish` after an error, before the memory is freed. It returns once nothing uses
  /// the memory any more (see Group::abandon).
  void abandon();

 private:
  static constexpr size_t kAlignment = 64;
  size_t add(size_t bytes);
  void copy(std::byte* const* to, std::byte* const* from) const;

  std::shared_ptr<comm::Group> group_;
  std::vector<size_t> bytes_;
  std::vector<std::byte*> places_;  // addresses; for a group of one, of the inputs
  std::vector<size_t> offsets_;
  std::vector<std::pair<size_t, size_t>> gaps_;  // between tensors: first byte, bytes
  std::optional<size_t> notes_;                  // offset of the notes in the range
  std::byte* range_ = nullptr;                   // argument of the latest start
  bool in_flight_ = false;
  size_t packed_ = 0;  // bytes, with the gaps
  std::optional<comm::TreeSum> sum_;
};

}  // namespace isochron::ops
