// Sums over ranks whose bits don't depend on how many ranks there are.
#pragma once

#include <vector>

#include "isochron/comm/group/group.h"

namespace isochron::comm {

/// Adds up numbers over the ranks, in place: ((r0 + r1) + (r2 + r3)) + ..., the binary tree over positions 0,
/// 1, 2, ..., in which a position beyond the last rank adds nothing. Where every rank's numbers are such a
/// sum over 2^k parts, in order, the result is the tree's over all parts: equal bits for every split of them.
/// Ranks exchange slices, add them up themselves and exchange the sums, so that each sends and receives as
/// many bytes as in any other all-reduce, 2 (N - 1) / N of them.
class TreeSum final : public Collective {
 public:
  /// Numbers of one dtype, f64, f32 or i64, one after another.
  struct Run {
    DType dtype = DType::kF32;
    size_t bytes = 0;
  };
  /// `runs` lie back to back. Throws kDtypeMismatch.
  TreeSum(int ranks, std::vector<Run> runs);
  /// Of which every rank gets its slice alone (reduce-scatter): slices of equal bytes, cut between numbers.
  TreeSum(int ranks, Run run, size_t slice_bytes);
  size_t scratch_bytes() const { return static_cast<size_t>(ranks_) * slices_.slice_bytes; }
  const Slices& slices() const { return slices_; }
  /// Before it is started. Both are aligned to 64 bytes.
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
