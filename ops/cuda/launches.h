// A kernel for a device that is some launches, one after the other.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "isochron/core/cuda/kernel_module.h"
#include "isochron/graph/op.h"

namespace isochron::ops {

/// One of a call's addresses.
struct Slot {
  enum Kind : uint8_t { kInput, kOutput, kWorkspace } kind = kInput;
  size_t index = 0;
};

class LaunchKernel final : public graph::Kernel {
 public:
  LaunchKernel(const graph::KernelRequest& request, size_t workspace_bytes)
      : module_(*request.module), workspace_bytes_(workspace_bytes) {
    for (size_t i = 0; i < request.inputs.size(); ++i) all_.push_back({Slot::kInput, i});
    for (size_t o = 0; o < request.outputs.size(); ++o) all_.push_back({Slot::kOutput, o});
    all_.push_back({Slot::kWorkspace, 0});
  }

  /// A function of the module's text that takes the addresses of all inputs, all outputs, and the workspace.
  void add(const std::string& function, const cuda::LaunchSize& size) { add(function, size, all_); }
  /// One that takes these.
  void add(const std::string& function, const cuda::LaunchSize& size, std::vector<Slot> slots) {
    std::vector<void*> arguments(slots.size());
    launches_.push_back({module_.add_function(function), size, std::move(slots), std::move(arguments)});
  }
  /// What `other`, of the same call, does, after what is there.
  void add_all(const LaunchKernel& other) {
    launches_.insert(launches_.end(), other.launches_.begin(), other.launches_.end());
    need_workspace(other.workspace_bytes_);
  }
  void need_workspace(size_t bytes) { workspace_bytes_ = std::max(workspace_bytes_, bytes); }

  size_t workspace_bytes() const override { return workspace_bytes_; }
  void run(const graph::KernelArgs& args) override {
    for (Launch& launch : launches_) {
      for (size_t a = 0; a < launch.slots.size(); ++a) {
        const auto [kind, index] = launch.slots[a];
        std::byte* const& address = kind == Slot::kInput    ? args.inputs[index]
                                    : kind == Slot::kOutput ? args.outputs[index]
                                                            : args.workspace;
        launch.arguments[a] = const_cast<std::byte**>(&address);
      }
      module_.launch(launch.function, launch.size, launch.arguments, args.stream);
    }
  }

 private:
  struct Launch {
    size_t function;
    cuda::LaunchSize size;
    std::vector<Slot> slots;
    std::vector<void*> arguments;
  };

  cuda::KernelModule& module_;
  size_t workspace_bytes_;
  std::vector<Slot> all_;
  std::vector<Launch> launches_;
};

}  // namespace isochron::ops
