#include "isochron/backends/cpu/common/choose_kernel.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "isochron/backends/common/choices.h"
#include "isochron/core/base/checked.h"
#include "isochron/memory/allocators/allocator.h"
#include "isochron/memory/allocators/system_memory.h"

namespace isochron::ops {
namespace {

using graph::Kernel;
using graph::KernelArgs;
using graph::KernelRequest;

/// A memory block outside every pool. It grows to the largest size requested so far.
class Block {
 public:
  Block() = default;
  ~Block() { system_free(memory_, bytes_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Returns memory of unspecified content. The memory returned before becomes invalid.
  std::byte* of(size_t bytes) {
    if (bytes <= bytes_) return memory_;
    system_free(memory_, bytes_);
    memory_ = static_cast<std::byte*>(system_allocate(bytes));
    bytes_ = memory_ == nullptr ? 0 : bytes;
    require(memory_ != nullptr, ErrorCode::kOutOfMemory, "choose_kernel",
            "{} bytes for timing implementations are not available; free memory, or choose by rule "
            "(set_deterministic)",
            bytes);
    return memory_;
  }

 private:
  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
};

/// Memory for timing kernels, reused for one call after another.
class TrialMemory {
 public:
  /// The tensors of `request`, with inputs filled with ordinary numbers, and a workspace. They are valid
  /// until the next call.
  KernelArgs args(const KernelRequest& request, size_t workspace_bytes) {
    size_t bytes = workspace_bytes;
    for (const auto& specs : {request.inputs, request.outputs}) {
      for (const TensorSpec& spec : specs)
        bytes = checked_add(bytes, align_up(spec.size_bytes(), kCpuAlignment));
    }
    std::byte* at = block_.of(bytes);
    inputs_.clear();
    outputs_.clear();
    for (const TensorSpec& spec : request.inputs) {
      fill(at, spec);
      inputs_.push_back(std::exchange(at, at + align_up(spec.size_bytes(), kCpuAlignment)));
    }
    for (const TensorSpec& spec : request.outputs)
      outputs_.push_back(std::exchange(at, at + align_up(spec.size_bytes(), kCpuAlignment)));
    return {inputs_.data(), outputs_.data(), at};
  }

 private:
  template <typename T>
  static std::span<const std::byte> pattern() {
    static const std::vector<T> numbers = [] {
      std::vector<T> result(61 * 32, T(1));  // 1 is a valid length or index almost everywhere
      if constexpr (!std::is_integral_v<T>) {
        for (size_t i = 0; i < result.size(); ++i) result[i] = T(static_cast<float>(i % 61) * 0.01f);
      }
      return result;
    }();
    return std::as_bytes(std::span(numbers));
  }
  static std::span<const std::byte> numbers_of(DType dtype) {
    switch (dtype) {
      case DType::kBF16:
        return pattern<bfloat16>();
      case DType::kF16:
        return pattern<float16>();
      case DType::kI32:
        return pattern<int32_t>();
      case DType::kI64:
        return pattern<int64_t>();
      default:
        return pattern<float>();
    }
  }
  static void fill(std::byte* content, const TensorSpec& spec) {
    const std::span<const std::byte> numbers = numbers_of(spec.dtype);
    const size_t bytes = spec.size_bytes();
    for (size_t at = 0; at < bytes; at += numbers.size())
      std::memcpy(content + at, numbers.data(), std::min(numbers.size(), bytes - at));
  }
  Block block_;
  std::vector<std::byte*> inputs_;
  std::vector<std::byte*> outputs_;
};

/// The trial memory of the plan that the kernel belongs to.
std::shared_ptr<TrialMemory> trial_memory(const KernelRequest& request) {
  if (request.shared == nullptr) return std::make_shared<TrialMemory>();
  if (!*request.shared) *request.shared = std::make_shared<TrialMemory>();
  return std::static_pointer_cast<TrialMemory>(*request.shared);
}

std::string describe(const KernelRequest& request, int threads) {
  std::string text;
  for (const TensorSpec& spec : request.inputs) text += spec.str();
  return fmt::format("{} {} {} {} threads", request.op.name, text, request.attributes.str(), threads);
}

}  // namespace

std::unique_ptr<Kernel> choose_kernel(const KernelRequest& request, int threads,
                                      std::span<const std::string_view> names,
                                      const std::function<std::unique_ptr<Kernel>(size_t)>& make) {
  const std::shared_ptr<TrialMemory> memory = trial_memory(request);
  std::vector<std::unique_ptr<Kernel>> kernels(names.size());
  KernelArgs args;
  const auto prepare = [&](size_t i) -> std::function<void()> {
    kernels[i] = make(i);
    if (!kernels[i]) return {};
    return [kernel = kernels[i].get(), &args] {
      kernel->bind(args);
      kernel->run(args);
    };
  };
  const auto before_timing = [&] {
    size_t workspace_bytes = 0;
    for (const auto& kernel : kernels) {
      if (kernel) workspace_bytes = std::max(workspace_bytes, kernel->workspace_bytes());
    }
    args = memory->args(request, workspace_bytes);
  };
  const size_t chosen = choose(describe(request, threads), names, prepare, before_timing);
  return chosen < names.size() ? std::move(kernels[chosen]) : nullptr;
}

}  // namespace isochron::ops
