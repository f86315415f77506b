#include "isochron/ops/cuda/library_kernel.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "isochron/core/error.h"
#include "isochron/ops/choices.h"

namespace isochron::ops {
namespace {

using cuda::DevicePtr;
using cuda::LibraryCall;
using graph::KernelArgs;
using graph::KernelRequest;

constexpr int kRunsATiming = 5;  // a run by itself may be shorter than waiting for it

DevicePtr address_of(const KernelArgs& args, const Slot& slot) {
  const std::byte* address = slot.kind == Slot::kInput    ? args.inputs[slot.index]
                             : slot.kind == Slot::kOutput ? args.outputs[slot.index]
                                                          : args.workspace;
  return reinterpret_cast<uintptr_t>(address);
}

/// Memory for the tensors of a call, and a stream. Its content is 0: that is as good as any to time with.
class Trial {
 public:
  Trial(const KernelRequest& request, const std::vector<Slot>& tensors, size_t workspace_bytes)
      : context_(request.module->context()), stream_(context_.create_stream(false)) {
    try {
      for (const Slot& slot : tensors) {
        const TensorSpec& spec =
            slot.kind == Slot::kInput ? request.inputs[slot.index] : request.outputs[slot.index];
        add(spec.size_bytes());
      }
      add(workspace_bytes);
    } catch (...) {
      give_back();
      throw;
    }
  }
  ~Trial() { give_back(); }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  void run(LibraryCall& call) {
    for (int run = 0; run < kRunsATiming; ++run)
      call.enqueue(std::span(made_).first(made_.size() - 1), made_.back(), stream_);
    context_.synchronize(stream_);
  }

 private:
  void add(size_t bytes) {
    made_.push_back(context_.allocate(std::max<size_t>(bytes, 1)));
    context_.fill(made_.back(), 0, bytes, stream_);
  }
  void give_back() noexcept {
    try {
      context_.synchronize(stream_);
      for (const DevicePtr each : made_) context_.free(each);
      context_.destroy(stream_);
    } catch (const Error&) {  // of a device that is lost, with all it had
    }
  }

  cuda::Context& context_;
  const cuda::Stream stream_;
  std::vector<DevicePtr> made_;
};

}  // namespace

LibraryKernel::LibraryKernel(std::unique_ptr<LibraryCall> call, std::vector<Slot> tensors,
                             std::unique_ptr<graph::Kernel> after)
    : call_(std::move(call)), tensors_(std::move(tensors)), after_(std::move(after)) {}

size_t LibraryKernel::workspace_bytes() const {
  return std::max(call_->workspace_bytes(), after_ ? after_->workspace_bytes() : 0);
}

void LibraryKernel::bind(const KernelArgs& args) {
  for (const Slot& slot : tensors_) {
    const DevicePtr address = address_of(args, slot);
    require(address % cuda::kLibraryAlignment == 0, ErrorCode::kInvalidArgument, "cuda",
            "a tensor of {} begins at {:#x}, which is no multiple of {} bytes; copy it first", call_->name(),
            address, cuda::kLibraryAlignment);
  }
  if (after_) after_->bind(args);
}

void LibraryKernel::run(const KernelArgs& args) {
  std::vector<DevicePtr> addresses;
  for (const Slot& slot : tensors_) addresses.push_back(address_of(args, slot));
  call_->enqueue(addresses, reinterpret_cast<uintptr_t>(args.workspace), args.stream);
  if (after_) after_->run(args);
}

std::unique_ptr<LibraryCall> fastest(const KernelRequest& request, const std::string& library,
                                     cuda::LibraryCalls ways, const std::vector<Slot>& tensors) {
  if (ways.empty()) return nullptr;
  if (ways.size() == 1) return std::move(ways.front());
  std::string call = request.op.name;
  for (const TensorSpec& spec : request.inputs) call += fmt::format(" {}", spec.str());
  call += fmt::format(" {} {}on {} by {}", request.attributes.str(), request.module->tf32() ? "tf32 " : "",
                      request.module->device().name, library);
  std::vector<std::string> names;
  size_t workspace_bytes = 0;
  for (const auto& way : ways) {
    names.push_back(way->name());
    workspace_bytes = std::max(workspace_bytes, way->workspace_bytes());
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  std::optional<Trial> trial;
  size_t chosen = 0;
  try {
    chosen = choose(call, views, [&](size_t way) -> std::function<void()> {
      return [&, way] {
        if (!trial) trial.emplace(request, tensors, workspace_bytes);
        trial->run(*ways[way]);
      };
    });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
  }
  return std::move(ways[chosen]);
}

}  // namespace isochron::ops
