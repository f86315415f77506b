// Sums over ranks, with bits that don't depend on the number of ranks.
#pragma once

#include <vector>

#include "isochron/comm/group/group.h"

namespace isochron::comm {

/// Adds up numbers over the ranks, in place, as ((r0 + r1) + (r2 + r3)) + ..., a binary tree over positions
/// 0, 1, 2, .... A position beyond the last rank adds nothing. If every rank's numbers are themselves such a
/// sum over 2^k parts, in order, the result is the tree's sum over all parts, so every split of the parts
/// gives equal bits. Ranks exchange slices, add them up and exchange the sums. Each rank therefore sends and
/// receives as many bytes as in any other all-reduce: 2 (N - 1) / N times the data.
class TreeSum final : public Collective {
 public:
  /// Consecutive numbers of one dtype: f64, f32 or i64.
  struct Run {
    DType dtype = DType::kF32;
    size_t bytes = 0;
  };
  /// The `runs` are contiguous in memory. Throws kDtypeMismatch.
  TreeSum(int ranks, std::vector<Run> runs);
  /// A reduce-scatter: every rank gets only its own slice of the sum. Slices have equal sizes and are cut
  /// between numbers.
  TreeSum(int ranks, Run run, size_t slice_bytes);
  size_t scratch_bytes() const { return static_cast<size_t>(ranks_) * slices_.slice_bytes; }
  const Slices& slices() const { return slices_; }
  /// Sets the memory; call this before the first start. Both pointers are aligned to 64 bytes.
  void bind(std::byte* numbers, std::byte* scratch) {
    numbers_ = numbers;
    scratch_ = scratch;
  }

 protected:
  size_t run(Communicator& communicator) override;

 private:
  void add(size_t at, std::byte* a, const std::byte* b, size_t bytes) const;

  int ranks_;
  std::vector<Run> runs_;
  Slices slices_;
  bool gathers_ = true;
  std::byte* numbers_ = nullptr;
  std::byte* scratch_ = nullptr;
};

}  // namespace isochron::comm
