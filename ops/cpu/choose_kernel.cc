#include "isochron/ops/cpu/choose_kernel.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "isochron/memory/system_memory.h"
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
    for (const TensorSpec& spec : request.inputs) inputs_.push_back(add(spec.size_bytes(), spec.dtype));
    for (const TensorSpec& spec : request.outputs) outputs_.push_back(add(spec.size_bytes(), spec.dtype));
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
    size_t bytes;
    void operator()(std::byte* block) const { system_free(block, bytes); }
  };
  template <typename T>
  static std::span<const std::byte> pattern() {
    static const std::vector<T> numbers = [] {
      std::vector<T> result(61 * 32);
      for (size_t i = 0; i < result.size(); ++i) result[i] = T(static_cast<float>(i % 61) * 0.01f);
      return result;
    }();
    return std::as_bytes(std::span(numbers));
  }
  std::byte* add(size_t bytes, DType dtype = DType::kF32) {
    const std::span<const std::byte> numbers = dtype == DType::kBF16  ? pattern<bfloat16>()
                                               : dtype == DType::kF16 ? pattern<float16>()
                                                                      : pattern<float>();
    std::byte* block = static_cast<std::byte*>(system_allocate(bytes));
    require(block != nullptr, ErrorCode::kOutOfMemory, "choose_kernel",
            "no {} bytes to time implementations with; free memory, or choose by rule (set_deterministic)",
            bytes);
    blocks_.emplace_back(block, Free{bytes});
    for (size_t at = 0; at < bytes; at += numbers.size()) {
      std::memcpy(block + at, numbers.data(), std::min(numbers.size(), bytes - at));
    }
    return block;
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
  size_t workspace_bytes = 0;  // of the largest candidate: all are prepared before one runs
  const auto prepare = [&](size_t i) -> std::function<void()> {
    std::shared_ptr<Kernel> kernel = make(i);
    if (!kernel) return {};
    workspace_bytes = std::max(workspace_bytes, kernel->workspace_bytes());
    return [kernel, &memory, &request, &workspace_bytes] {
      if (!memory) memory.emplace(request);
      const KernelArgs args = memory->args(workspace_bytes);
      kernel->bind(args);
      kernel->run(args);
    };
  };
  const size_t chosen = choose(describe(request, threads), names, prepare);
  return chosen < names.size() ? make(chosen) : nullptr;
}

}  // namespace isochron::ops
