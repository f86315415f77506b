// Several tensors, packed into one range of memory and summed over ranks in one exchange; where asked for,
// the ranks' notes (comm/group/rank_notes.h) go with them.
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

/// Of dtypes and shapes, for comm::Collective::describe.
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

  /// Of the range, and of what the exchange works in; 0 in a group of one rank.
  size_t range_bytes() const { return group_->size() == 1 ? 0 : align_up(packed_, kAlignment); }
  size_t scratch_bytes() const { return group_->size() == 1 ? 0 : sum_->scratch_bytes(); }
  /// Of each tensor in the range: a multiple of 64.
  const std::vector<size_t>& offsets() const { return offsets_; }

  enum class Begin { kNow, kWhenFinished };
  /// Packs the tensors that aren't in the range yet. The exchange is then run by the group's thread (kNow) or
  /// by the caller of `finish` (kWhenFinished); until `finish` returns, both memory ranges belong to it.
  /// Throws kCommunication if an error kept `finish` from being called for the previous start.
  void start(std::byte* const* tensors, std::byte* range, std::byte* scratch, Begin begin);
  /// Waits for the exchange, and unpacks the sums that aren't meant to stay in the range.
  void finish(std::byte* const* sums);
  /// For the case that an error kept `finish` from being called: returns once nothing uses the memory any
  /// more (see Group::abandon). Call it before that memory is freed.
  void abandon();

 private:
  static constexpr size_t kAlignment = 64;
  size_t add(size_t bytes);
  void copy(std::byte* const* to, std::byte* const* from) const;

  std::shared_ptr<comm::Group> group_;
  std::vector<size_t> bytes_;
  std::vector<std::byte*> places_;  // of each tensor
  std::vector<size_t> offsets_;
  std::vector<std::pair<size_t, size_t>> gaps_;  // between tensors: first byte, bytes
  std::optional<size_t> notes_;                  // where they begin in the range
  std::byte* range_ = nullptr;                   // of the newest start
  bool in_flight_ = false;
  size_t packed_ = 0;  // bytes, with the gaps
  std::optional<comm::TreeSum> sum_;
};

}  // namespace isochron::ops
