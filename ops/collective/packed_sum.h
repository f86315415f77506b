// Several tensors, packed into one range of memory and summed over ranks in one exchange; where asked for,
// the ranks' notes (comm/group/rank_notes.h) go with them.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "isochron/comm/group/tree_sum.h"
#include "isochron/core/tensor/shape.h"

namespace isochron::ops {

class PackedSum {
 public:
  /// What is summed up beside tensors of anybody: those of an update, and with the last of them the notes.
  enum class Content { kTensors, kGradients, kGradientsAndNotes };
  /// Tensors of f32, f64 and i64.
  PackedSum(std::shared_ptr<comm::Group> group, std::span<const TensorSpec> tensors, Content content);

  /// Of the memory that it works in: the range and room for the exchange; 0 in a group of one rank.
  size_t workspace_bytes() const;
  /// Packs the tensors and starts. `workspace` is its own until `finish`.
  void start(std::byte* const* tensors, std::byte* workspace);
  /// Waits, and unpacks the sums.
  void finish(std::byte* const* sums);

 private:
  static constexpr size_t kAlignment = 64;
  void copy(std::byte* const* to, std::byte* const* from) const;

  std::shared_ptr<comm::Group> group_;
  std::vector<size_t> bytes_;
  std::vector<std::byte*> places_;  // of each tensor in the range
  std::vector<size_t> offsets_;
  std::optional<size_t> notes_;  // where they begin in the range
  std::byte* range_ = nullptr;   // in flight
  size_t packed_ = 0;
  std::optional<comm::TreeSum> sum_;
};

}  // namespace isochron::ops
