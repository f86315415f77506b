#include "isochron/comm/group/tree_sum.h"

#include "isochron/comm/group/add_numbers.h"
#include "isochron/core/base/error.h"

namespace isochron::comm {
namespace {

constexpr size_t kSliceUnit = 256;        // bytes, so that slices begin at whole cache lines
constexpr size_t kBlockBytes = 16 << 10;  // bytes that are summed over all ranks while they are in the cache

size_t total_of(const std::vector<TreeSum::Run>& runs) {
  size_t bytes = 0;
  for (const TreeSum::Run& run : runs) {
    require(run.dtype == DType::kF32 || run.dtype == DType::kF64 || run.dtype == DType::kI64,
            ErrorCode::kDtypeMismatch, "all_reduce", "sums f32, f64 or i64, got {}; cast first",
            dtype_name(run.dtype));
    bytes += run.bytes;
  }
  return bytes;
}

}  // namespace

TreeSum::TreeSum(int ranks, std::vector<Run> runs)
    : ranks_(ranks), runs_(std::move(runs)), slices_(Slices::of(total_of(runs_), ranks, kSliceUnit)) {
  describe("all_reduce", slices_.total_bytes);
}

TreeSum::TreeSum(int ranks, Run run, size_t slice_bytes)
    : ranks_(ranks), runs_({run}), slices_{total_of(runs_), slice_bytes}, gathers_(false) {
  describe("reduce_scatter", slices_.total_bytes);
}

/// Computes a += b for the part of the numbers that begins at byte `at`.
void TreeSum::add(size_t at, std::byte* a, const std::byte* b, size_t bytes) const {
  size_t begin = 0;  // the byte at which the run begins
  for (const Run& run : runs_) {
    const size_t from = std::max(at, begin), to = std::min(at + bytes, begin + run.bytes);
    begin += run.bytes;
    if (from >= to) continue;
    if (run.dtype == DType::kF32) {
      add_numbers<float>(a + (from - at), b + (from - at), to - from);
    } else if (run.dtype == DType::kF64) {
      add_numbers<double>(a + (from - at), b + (from - at), to - from);
    } else {
      add_numbers<int64_t>(a + (from - at), b + (from - at), to - from);
    }
  }
}

size_t TreeSum::run(Communicator& communicator) {
  communicator.all_to_all(numbers_, scratch_, slices_);
  const int own = communicator.rank();
  const size_t begin = slices_.begin(own), bytes = slices_.bytes(own);
  const auto part = [&](int rank) {
    return rank == own ? numbers_ + begin : scratch_ + static_cast<size_t>(rank) * slices_.slice_bytes;
  };
  for (size_t at = 0; at < bytes; at += kBlockBytes) {
    const size_t block = std::min(kBlockBytes, bytes - at);
    for (int stride = 1; stride < ranks_; stride *= 2) {
      for (int rank = 0; rank + stride < ranks_; rank += 2 * stride)
        add(begin + at, part(rank) + at, part(rank + stride) + at, block);
    }
    if (own != 0) std::copy_n(part(0) + at, block, part(own) + at);
  }
  const size_t sent = slices_.total_bytes - bytes;
  if (!gathers_) return sent;
  communicator.all_gather(numbers_, slices_);
  return sent + bytes * static_cast<size_t>(ranks_ - 1);
}

}  // namespace isochron::comm
