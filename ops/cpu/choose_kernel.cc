#include "isochron/ops/cpu/choose_kernel.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "isochron/core/checked.h"
#include "isochron/ops/choices.h"

namespace isochron::ops {
namespace {

using graph::Kernel;
using graph::KernelArgs;
using graph::KernelRequest;

/// Memory of a call's tensors for timing it, outside every pool, filled with ordinary numbers.
class TrialMemory {
 public:
  explicit TrialMemory(const KernelRequest& request) {
    for (const TensorSpec& spec : request.inputs) inputs_.push_back(add(spec.size_bytes()));
    for (const TensorSpec& spec : request.outputs) outputs_.push_back(add(spec.size_bytes()));
  }
  KernelArgs args(size_t workspace_bytes) {
    if (workspace_bytes > workspace_bytes_) {
      workspace_ = add(workspace_bytes);
      workspace_bytes_ = workspace_bytes;
    }
    return {inputs_.data(), outputs_.data(), workspace_};
  }

 private:
  struct Free {
    void operator()(std::byte* block) const { std::free(block); }
  };
  std::byte* add(size_t bytes) {
    const size_t rounded = align_up<size_t>(std::max<size_t>(bytes, 1), 64);
    blocks_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(64, rounded)));
    require(blocks_.back() != nullptr, ErrorCode::kOutOfMemory, "choose_kernel",
            "no {} bytes to time implementations with", rounded);
    float* numbers = reinterpret_cast<float*>(blocks_.back().get());
    for (size_t i = 0; i < rounded / sizeof(float); ++i) numbers[i] = static_cast<float>(i % 61) * 0.01f;
    return blocks_.back().get();
  }
  std::vector<std::unique_ptr<std::byte, Free>> blocks_;
  std::vector<std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
  std::byte* workspace_ = nullptr;
  size_t workspace_bytes_ = 0;
};

std::string describe(const KernelRequest& request, int threads) {
  std::string text;
  for (const TensorSpec& spec : request.inputs) text += spec.str();
  return fmt::format("{} {} {} {} threads", request.op.name, text, request.attributes.str(), threads);
}

}  // namespace

std::unique_ptr<Kernel> choose_kernel(const KernelRequest& request, int threads,
                                      std::span<const std::string_view> names,
                                      const std::function<std::unique_ptr<Kernel>(size_t)>& make) {
  std::optional<TrialMemory> memory;
  const auto prepare = [&](size_t i) -> std::function<void()> {
    std::shared_ptr<Kernel> kernel = make(i);
    if (!kernel) return {};
    return [kernel, &memory, &request] {
      if (!memory) memory.emplace(request);
      const KernelArgs args = memory->args(kernel->workspace_bytes());
      kernel->bind(args);
      kernel->run(args);
    };
  };
  const size_t chosen = choose(describe(request, threads), names, prepare);
  return chosen < names.size() ? make(chosen) : nullptr;
}

}  // namespace isochron::ops
