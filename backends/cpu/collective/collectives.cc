#include "isochron/backends/cpu/collective/collectives.h"

#include <cstring>
#include <optional>
#include <vector>

#include "isochron/comm/group/tree_sum.h"
#include "isochron/core/base/checked.h"
#include "isochron/ops/collective/collectives.h"

namespace isochron::ops {
namespace {

using comm::Communicator;
using graph::KernelArgs;
using graph::KernelRequest;

constexpr size_t kAlignment = 64;

void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

/// Keeps the group that it takes part in.
class CollectiveKernel : public graph::Kernel {
 public:
  explicit CollectiveKernel(const KernelRequest& request)
      : group_(request.attributes.object<GroupAttribute>("group")->group) {}

 protected:
  RankGroup group_;
};

/// The tensors are packed into one range, those of a dtype together.
class AllReduceKernel final : public CollectiveKernel {
 public:
  explicit AllReduceKernel(const KernelRequest& request) : CollectiveKernel(request) {
    offsets_.resize(request.inputs.size());
    std::vector<comm::TreeSum::Run> runs;
    for (const DType dtype : {DType::kF64, DType::kI64, DType::kF32}) {
      const size_t begin = packed_;
      for (size_t i = 0; i < request.inputs.size(); ++i) {
        if (request.inputs[i].dtype != dtype) continue;
        offsets_[i] = packed_;
        packed_ += request.inputs[i].size_bytes();
      }
      if (packed_ > begin) runs.push_back({dtype, packed_ - begin});
    }
    for (const TensorSpec& spec : request.inputs) bytes_.push_back(spec.size_bytes());
    sum_.emplace(group_->size(), std::move(runs));
  }

  size_t workspace_bytes() const override {
    return group_->size() == 1 ? 0 : align_up(packed_, kAlignment) + sum_->scratch_bytes();
  }

  void run(const KernelArgs& args) override {
    if (group_->size() == 1) {
      for (size_t i = 0; i < bytes_.size(); ++i) copy_bytes(args.outputs[i], args.inputs[i], bytes_[i]);
      return;
    }
    sum_->bind(args.workspace, args.workspace + align_up(packed_, kAlignment));
    for (size_t i = 0; i < bytes_.size(); ++i)
      copy_bytes(args.workspace + offsets_[i], args.inputs[i], bytes_[i]);
    group_->run(*sum_);
    for (size_t i = 0; i < bytes_.size(); ++i)
      copy_bytes(args.outputs[i], args.workspace + offsets_[i], bytes_[i]);
  }

 private:
  std::vector<size_t> offsets_;  // of each tensor in the range
  std::vector<size_t> bytes_;
  size_t packed_ = 0;
  std::optional<comm::TreeSum> sum_;
};

/// What one call of the transport does with the bytes at an address.
template <typename Call>
class CallOnBytes final : public comm::Collective {
 public:
  explicit CallOnBytes(Call call) : call_(std::move(call)) {}
  std::byte* data = nullptr;

 protected:
  size_t run(Communicator& communicator) override { return call_(communicator, data); }

 private:
  Call call_;
};

class AllGatherKernel final : public CollectiveKernel {
 public:
  explicit AllGatherKernel(const KernelRequest& request)
      : CollectiveKernel(request), bytes_(request.inputs[0].size_bytes()), gather_(Gather{bytes_}) {}

  void run(const KernelArgs& args) override {
    copy_bytes(args.outputs[0] + static_cast<size_t>(group_->rank()) * bytes_, args.inputs[0], bytes_);
    if (bytes_ == 0) return;
    gather_.data = args.outputs[0];
    group_->run(gather_);
  }

 private:
  struct Gather {
    size_t bytes;
    size_t operator()(Communicator& communicator, std::byte* data) const {
      const auto ranks = static_cast<size_t>(communicator.size());
      communicator.all_gather(data, {ranks * bytes, bytes});
      return (ranks - 1) * bytes;
    }
  };
  size_t bytes_;
  CallOnBytes<Gather> gather_;
};

class ReduceScatterKernel final : public CollectiveKernel {
 public:
  explicit ReduceScatterKernel(const KernelRequest& request)
      : CollectiveKernel(request),
        bytes_(request.inputs[0].size_bytes()),
        own_bytes_(request.outputs[0].size_bytes()),
        sum_(group_->size(), {request.inputs[0].dtype, bytes_}, own_bytes_) {}

  /// Its input is read only, so it is summed up in a copy.
  size_t workspace_bytes() const override {
    return group_->size() == 1 ? 0 : align_up(bytes_, kAlignment) + sum_.scratch_bytes();
  }

  void run(const KernelArgs& args) override {
    if (group_->size() == 1 || bytes_ == 0) return copy_bytes(args.outputs[0], args.inputs[0], bytes_);
    copy_bytes(args.workspace, args.inputs[0], bytes_);
    sum_.bind(args.workspace, args.workspace + align_up(bytes_, kAlignment));
    group_->run(sum_);
    copy_bytes(args.outputs[0], args.workspace + static_cast<size_t>(group_->rank()) * own_bytes_,
               own_bytes_);
  }

 private:
  size_t bytes_, own_bytes_;
  comm::TreeSum sum_;
};

class BroadcastKernel final : public CollectiveKernel {
 public:
  explicit BroadcastKernel(const KernelRequest& request)
      : CollectiveKernel(request),
        bytes_(request.inputs[0].size_bytes()),
        broadcast_(Broadcast{bytes_, static_cast<int>(request.attributes.get<int64_t>("root"))}) {}

  void run(const KernelArgs& args) override {
    copy_bytes(args.outputs[0], args.inputs[0], bytes_);
    if (bytes_ == 0) return;
    broadcast_.data = args.outputs[0];
    group_->run(broadcast_);
  }

 private:
  struct Broadcast {
    size_t bytes;
    int root;
    size_t operator()(Communicator& communicator, std::byte* data) const {
      communicator.broadcast({data, bytes}, root);
      return communicator.rank() == root ? bytes : 0;
    }
  };
  size_t bytes_;
  CallOnBytes<Broadcast> broadcast_;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_all_reduce(const KernelRequest& request) {
  return std::make_unique<AllReduceKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_all_gather(const KernelRequest& request) {
  return std::make_unique<AllGatherKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_reduce_scatter(const KernelRequest& request) {
  return std::make_unique<ReduceScatterKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_broadcast(const KernelRequest& request) {
  return std::make_unique<BroadcastKernel>(request);
}

}  // namespace isochron::ops
