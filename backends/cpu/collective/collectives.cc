#include "isochron/backends/cpu/collective/collectives.h"

#include "isochron/backends/cpu/common/copy_bytes.h"
#include "isochron/comm/group/tree_sum.h"
#include "isochron/core/base/checked.h"
#include "isochron/ops/collective/group_attributes.h"
#include "isochron/ops/collective/packed_sum.h"

namespace isochron::ops {
namespace {

using comm::Communicator;
using graph::KernelArgs;
using graph::KernelRequest;

constexpr size_t kAlignment = 64;

/// A kernel that keeps a reference to its group.
class CollectiveKernel : public graph::Kernel {
 public:
  explicit CollectiveKernel(const KernelRequest& request)
      : group_(request.attributes.object<GroupAttribute>("group")->group) {}

 protected:
  RankGroup group_;
};

class AllReduceKernel final : public graph::Kernel {
 public:
  explicit AllReduceKernel(const KernelRequest& request)
      : sum_(request.attributes.object<GroupAttribute>("group")->group, request.inputs,
             content_of(request.attributes)) {}
  size_t workspace_bytes() const override { return sum_.range_bytes() + sum_.scratch_bytes(); }
  void run(const KernelArgs& args) override {
    sum_.start(args.inputs, args.workspace, args.workspace + sum_.range_bytes(),
               PackedSum::Begin::kWhenFinished);
    sum_.finish(args.outputs);
  }

 private:
  PackedSum sum_;
};

/// The two halves of an all_reduce. They share the packed range and its scratch memory, which are in use
/// between them.
class AllReduceStartKernel final : public graph::Kernel {
 public:
  explicit AllReduceStartKernel(const KernelRequest& request)
      : pending_(request.attributes.object<PendingSum>("pending")),
        begin_(request.attributes.get_or("waited_for_at_once", false) ? PackedSum::Begin::kWhenFinished
                                                                      : PackedSum::Begin::kNow) {}
  AllReduceStartKernel(const AllReduceStartKernel&) = delete;
  AllReduceStartKernel& operator=(const AllReduceStartKernel&) = delete;
  ~AllReduceStartKernel() override { pending_->sum.abandon(); }
  void run(const KernelArgs& args) override {
    pending_->sum.start(args.inputs, args.outputs[0], args.outputs[1], begin_);
  }

 private:
  std::shared_ptr<const PendingSum> pending_;
  PackedSum::Begin begin_;
};

class AllReduceWaitKernel final : public graph::Kernel {
 public:
  explicit AllReduceWaitKernel(const KernelRequest& request)
      : pending_(request.attributes.object<PendingSum>("pending")) {}
  void run(const KernelArgs& args) override { pending_->sum.finish(args.outputs); }

 private:
  std::shared_ptr<const PendingSum> pending_;
};

/// A collective that makes one call of the transport, on bytes at a given address.
template <typename Call>
class CallOnBytes final : public comm::Collective {
 public:
  CallOnBytes(Call call, const char* label, size_t bytes, uint64_t content) : call_(std::move(call)) {
    describe(label, bytes, content);
  }
  std::byte* data = nullptr;

 protected:
  size_t run(Communicator& communicator) override { return call_(communicator, data); }

 private:
  Call call_;
};

class AllGatherKernel final : public CollectiveKernel {
 public:
  explicit AllGatherKernel(const KernelRequest& request)
      : CollectiveKernel(request),
        bytes_(request.inputs[0].size_bytes()),
        gather_(Gather{bytes_}, "all_gather", bytes_ * static_cast<size_t>(group_->size()),
                hash_of(request.inputs)) {}

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
        sum_(group_->size(), {request.inputs[0].dtype, bytes_}, own_bytes_) {
    sum_.describe("reduce_scatter", bytes_, hash_of(request.inputs));
  }

  /// The input is read-only, so the sum is computed in a copy.
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
        broadcast_(Broadcast{bytes_, static_cast<int>(request.attributes.get<int64_t>("root"))}, "broadcast",
                   bytes_,
                   hash_of(request.inputs) + static_cast<uint64_t>(request.attributes.get<int64_t>("root"))) {
  }

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
std::unique_ptr<graph::Kernel> prepare_all_reduce_start(const KernelRequest& request) {
  return std::make_unique<AllReduceStartKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_all_reduce_wait(const KernelRequest& request) {
  return std::make_unique<AllReduceWaitKernel>(request);
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
