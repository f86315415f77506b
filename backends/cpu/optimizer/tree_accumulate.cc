#include "isochron/backends/cpu/optimizer/tree_accumulate.h"

#include <cstring>

#include "isochron/backends/cpu/common/copy_bytes.h"
#include "isochron/backends/cpu/common/tensor_blocks.h"
#include "isochron/comm/group/add_numbers.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;
using graph::KernelRequest;

class TreeAccumulateKernel final : public graph::Kernel {
 public:
  explicit TreeAccumulateKernel(const KernelRequest& request)
      : count_(static_cast<size_t>(request.attributes.get<int64_t>("gradients"))),
        levels_((request.inputs.size() - 2) / count_ - 1),
        blocks_(request.outputs.first(count_), request.threads) {
    for (const TensorSpec& spec : request.outputs.first(count_)) dtypes_.push_back(spec.dtype);
  }

  void run(const KernelArgs& args) override {
    int64_t phase;
    bool due;
    std::memcpy(&phase, args.inputs[0], sizeof phase);
    std::memcpy(&due, args.inputs[1], sizeof due);
    blocks_.each([&](size_t, const TensorBlocks::Block& block) { add_block(args, phase, due, block); });
  }

 private:
  void add_block(const KernelArgs& args, int64_t phase, bool due, const TensorBlocks::Block& block) const {
    const size_t elem_bytes = dtype_size(dtypes_[block.tensor]);
    const size_t at = static_cast<size_t>(block.begin) * elem_bytes;
    const size_t bytes = static_cast<size_t>(block.count) * elem_bytes;
    const auto add_to =
        dtypes_[block.tensor] == DType::kF32 ? comm::add_numbers<float> : comm::add_numbers<double>;
    std::byte* const total = args.outputs[block.tensor] + at;
    copy_bytes(total, args.inputs[2 + block.tensor] + at, bytes);
    bool placed = due;
    for (size_t level = 0; level < levels_; ++level) {
      const size_t index = (1 + level) * count_ + block.tensor;
      const std::byte* const before = args.inputs[2 + index] + at;
      std::byte* const after = args.outputs[index] + at;
      const bool set = ((phase >> level) & 1) != 0;
      if (set && (due || !placed)) add_to(total, before, bytes);
      if (!set && !placed) {
        copy_bytes(after, total, bytes);
        placed = true;
      } else {
        copy_bytes(after, before, bytes);
      }
    }
  }

  size_t count_;
  size_t levels_;
  TensorBlocks blocks_;
  std::vector<DType> dtypes_;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_tree_accumulate(const KernelRequest& request) {
  return std::make_unique<TreeAccumulateKernel>(request);
}

}  // namespace isochron::ops
