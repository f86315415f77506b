#include "isochron/backends/cuda/libraries/library_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "isochron/backends/common/choices.h"
#include "isochron/core/base/checked.h"
#include "isochron/core/base/clock.h"
#include "isochron/core/base/error.h"
#include "isochron/graph/ir/half_storage.h"

namespace isochron::ops {
namespace {

using cuda::DevicePtr;
using graph::KernelArgs;
using graph::KernelRequest;

constexpr int kMaxRuns = 20;             // per launch: the host may need longer per call than a run takes
constexpr int64_t kRunsNs = 20'000'000;  // limit for the total time of these runs
// A candidate isn't timed if its run takes more than kTooSlow times as long as another's plus kTooSlowNs.
constexpr int64_t kTooSlow = 4, kTooSlowNs = 2'000'000;

DevicePtr pointer_of(const std::byte* address) { return reinterpret_cast<uintptr_t>(address); }

/// Enqueues a call in a stream.
using Enqueue = std::function<void(std::span<const DevicePtr> tensors, DevicePtr workspace, cuda::Stream)>;

/// Memory for the tensors of a call, and a stream. The memory is filled with `byte`; for timing, 0 is as good
/// as any other value.
class Trial {
 public:
  Trial(const cuda::KernelModule& module, const std::vector<size_t>& bytes, size_t workspace_bytes,
        uint8_t byte = 0)
      : module_(module), context_(module.context()), stream_(context_.create_stream(false)) {
    try {
      for (const size_t each : bytes) add(each, byte);
      add(workspace_bytes, byte);
    } catch (...) {
      give_back();
      throw;
    }
  }
  ~Trial() { give_back(); }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  /// Runs the call once and returns the time in ns, measured on the host.
  int64_t run_once(const Enqueue& call) {
    const int64_t start = now_ns();
    enqueue(call);
    context_.synchronize(stream_);
    return now_ns() - start;
  }
  /// Records `runs` runs of a call as one launch. The number is the same for all calls.
  cuda::GraphExec record(const Enqueue& call, int runs) {
    recorded_.push_back(capture_graph(context_, stream_, [&] {
      for (int run = 0; run < runs; ++run) enqueue(call);
    }));
    return recorded_.back();
  }
  /// Reads the first bytes of a tensor.
  void read(size_t tensor, std::span<std::byte> to) {
    context_.copy_to_host(to.data(), made_[tensor], to.size(), stream_);
    context_.synchronize(stream_);
  }
  void fill(size_t tensor, uint8_t byte, size_t bytes) { context_.fill(made_[tensor], byte, bytes, stream_); }
  void launch(cuda::GraphExec runs) {
    context_.launch(runs, stream_);
    context_.synchronize(stream_);
  }

 private:
  void add(size_t bytes, uint8_t byte) {
    memory_.push_back(module_.allocate(std::max<size_t>(bytes, 1)));
    made_.push_back(pointer_of(memory_.back().get()));
    if (bytes > 0) context_.fill(made_.back(), byte, bytes, stream_);
  }
  void enqueue(const Enqueue& call) { call(std::span(made_).first(made_.size() - 1), made_.back(), stream_); }
  void give_back() noexcept {
    try {
      context_.synchronize(stream_);
      for (const cuda::GraphExec each : recorded_) context_.destroy(each);
      context_.destroy(stream_);
    } catch (const Error&) {  // the device is lost, and its memory with it
    }
  }

  const cuda::KernelModule& module_;
  cuda::Context& context_;
  const cuda::Stream stream_;
  std::vector<std::shared_ptr<std::byte>> memory_;
  std::vector<DevicePtr> made_;  // the addresses of `memory_`
  std::vector<cuda::GraphExec> recorded_;
};

/// Whether all of the numbers, of a floating dtype, are NaN.
template <typename T>
bool all_nan(std::span<const std::byte> numbers) {
  for (size_t at = 0; at < numbers.size(); at += sizeof(T)) {
    T number;
    std::memcpy(&number, numbers.data() + at, sizeof number);
    if (!std::isnan(static_cast<float>(number))) return false;
  }
  return true;
}
bool all_nan(std::span<const std::byte> numbers, DType dtype) {
  if (dtype == DType::kF32) return all_nan<float>(numbers);
  return dtype == DType::kF16 ? all_nan<float16>(numbers) : all_nan<bfloat16>(numbers);
}

/// Describes the requested call, the device and the library.
std::string describe(const KernelRequest& request, const std::string& library) {
  std::string call = request.op.name;
  for (const TensorSpec& spec : request.inputs) call += fmt::format(" {}", spec.str());
  return call + fmt::format(" {} {}on {} by {} or its own kernels", request.attributes.str(),
                            request.module->tf32() ? "tf32 " : "", request.module->device().name, library);
}

/// The candidates for a call. Once they can be launched, the fastest is chosen and the others are dropped.
class Choice {
 public:
  Choice(const KernelRequest& request, const std::string& library, std::vector<Candidate> candidates)
      : module_(*request.module),
        call_(describe(request, library)),
        inputs_(request.inputs.size()),
        unread_(request.unread.begin(), request.unread.end()),
        candidates_(std::move(candidates)) {
    for (const std::span<const TensorSpec> specs : {request.inputs, request.outputs}) {
      for (const TensorSpec& spec : specs) bytes_.push_back(spec.size_bytes());
    }
    unread_.resize(request.outputs.size(), false);
  }

  size_t workspace_bytes() const {
    size_t bytes = 0;
    for (const Candidate& each : candidates_) bytes = std::max(bytes, each.kernel->workspace_bytes());
    return bytes;
  }

  graph::Kernel& kernel() const {
    require(candidates_.size() == 1, ErrorCode::kInvalidArgument, "cuda",
            "a kernel is run before its module is loaded");
    return *candidates_[0].kernel;
  }

  void make() {
    Candidate chosen = std::move(candidates_[fastest()]);
    candidates_.clear();
    candidates_.push_back(std::move(chosen));
  }

 private:
  size_t fastest() {
    std::vector<std::string_view> names;
    for (const Candidate& candidate : candidates_) names.push_back(candidate.name);
    std::optional<Trial> trial;
    std::vector<bool> refused(candidates_.size(), false);
    std::string reason;
    int64_t least_ns = 0;
    int runs = 0;
    try {
      const size_t chosen = choose(call_, names, [&](size_t i) -> std::function<void()> {
        if (!trial) trial.emplace(module_, bytes_, workspace_bytes());
        const Enqueue call = [&kernel = *candidates_[i].kernel, this](auto tensors, DevicePtr workspace,
                                                                      cuda::Stream stream) {
          enqueue(kernel, tensors, workspace, stream);
        };
        try {
          trial->run_once(call);  // this also loads the code of the call
          int64_t took_ns = trial->run_once(call);
          const auto too_slow = [&] { return runs > 0 && took_ns > kTooSlow * least_ns + kTooSlowNs; };
          // The host may have caused the delay.
          for (int again = 0; again < 2 && too_slow(); ++again)
            took_ns = std::min(took_ns, trial->run_once(call));
          if (too_slow()) return {};
          const int most = runs > 0 ? runs
                                    : static_cast<int>(std::clamp<int64_t>(
                                          kRunsNs / std::max<int64_t>(took_ns, 1), 1, kMaxRuns));
          const cuda::GraphExec recorded = trial->record(call, most);
          least_ns = runs > 0 ? std::min(least_ns, took_ns) : took_ns;
          runs = most;
          return [&trial, recorded] { trial->launch(recorded); };
        } catch (const Error& error) {
          if (error.code() == ErrorCode::kDeviceLost || error.code() == ErrorCode::kOutOfMemory) throw;
          refused[i] = true;
          reason = error.what();
          return {};  // not supported after all, or can't be captured
        }
      });
      require(chosen < candidates_.size(), ErrorCode::kUnsupported, "cuda",
              "no way to compute {} works, the last one for: {}; do without libraries (use_plain_kernels, "
              "--plain-kernels)",
              call_, reason);
      return chosen;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOutOfMemory) throw;
    }
    // There is no memory to try the candidates. Use the recorded candidate, otherwise the first one that
    // wasn't refused.
    const std::map<std::string, std::string> recorded = recorded_choices();
    if (const auto known = recorded.find(call_); known != recorded.end()) {
      const auto named = std::ranges::find(names, known->second);
      if (named != names.end()) return static_cast<size_t>(named - names.begin());
    }
    const auto first = std::ranges::find(refused, false);
    const size_t chosen = first == refused.end() ? 0 : static_cast<size_t>(first - refused.begin());
    restore_choices({{call_, candidates_[chosen].name}});  // equal calls run equal code
    return chosen;
  }

  void enqueue(graph::Kernel& kernel, std::span<const DevicePtr> tensors, DevicePtr workspace,
               cuda::Stream stream) const {
    std::vector<std::byte*> addresses;
    for (size_t t = 0; t < tensors.size(); ++t) {
      const bool null = t >= inputs_ && unread_[t - inputs_];
      addresses.push_back(null ? nullptr : reinterpret_cast<std::byte*>(tensors[t]));
    }
    const KernelArgs args{addresses.data(), addresses.data() + inputs_,
                          reinterpret_cast<std::byte*>(workspace), stream};
    kernel.bind(args);
    kernel.run(args);
  }

  const cuda::KernelModule& module_;  // calls make() once it is loaded
  const std::string call_;
  const size_t inputs_;
  std::vector<bool> unread_;
  std::vector<size_t> bytes_;  // of the inputs, and of the outputs
  std::vector<Candidate> candidates_;
};

class ChosenKernel final : public graph::Kernel {
 public:
  explicit ChosenKernel(std::shared_ptr<Choice> choice) : choice_(std::move(choice)) {}

  size_t workspace_bytes() const override { return choice_->workspace_bytes(); }
  void bind(const KernelArgs& args) override { choice_->kernel().bind(args); }
  void run(const KernelArgs& args) override { choice_->kernel().run(args); }

 private:
  const std::shared_ptr<Choice> choice_;
};

}  // namespace

LibraryKernel::LibraryKernel(LibraryParts parts)
    : parts_(std::move(parts)), addresses_(parts_.tensors.size()) {}

size_t LibraryKernel::workspace_bytes() const {
  return std::max({checked_add(parts_.tensor_bytes, parts_.call->workspace_bytes()),
                   parts_.before ? parts_.before->workspace_bytes() : 0,
                   parts_.after ? parts_.after->workspace_bytes() : 0});
}

void LibraryKernel::bind(const KernelArgs& args) {
  const auto require_multiple = [&](std::byte* address, size_t of, const char* what) {
    if (pointer_of(address) % of == 0) return;
    fail(ErrorCode::kInvalidArgument, "cuda",
         "{} of {} begins at {:#x}, which is not a multiple of {} bytes; copy it first", what,
         parts_.call->name(), pointer_of(address), of);
  };
  for (const Slot& slot : parts_.tensors)
    require_multiple(slot.address(args), cuda::kLibraryAlignment, "a tensor");
  require_multiple(args.workspace, cuda::kDeviceAlignment, "the workspace");
  if (parts_.before) parts_.before->bind(args);
  if (parts_.after) parts_.after->bind(args);
}

void LibraryKernel::run(const KernelArgs& args) {
  if (parts_.before) parts_.before->run(args);
  for (size_t t = 0; t < addresses_.size(); ++t) addresses_[t] = pointer_of(parts_.tensors[t].address(args));
  for (int64_t time = 0; time < parts_.times; ++time) {
    parts_.call->enqueue(addresses_, pointer_of(args.workspace + parts_.tensor_bytes), args.stream);
    for (size_t t = 0; t < parts_.steps.size(); ++t) addresses_[t] += parts_.steps[t];
  }
  if (parts_.after) parts_.after->run(args);
}

cuda::LibraryAlgorithms working_algorithms(const cuda::KernelModule& module,
                                           cuda::LibraryAlgorithms algorithms,
                                           const std::vector<size_t>& bytes,
                                           const std::optional<NanResult>& nan) {
  constexpr uint8_t kNan = 0xFF;  // bytes of a NaN in every dtype
  cuda::LibraryAlgorithms kept;
  for (auto& algorithm : algorithms) {
    const Enqueue call = [&algorithm](auto tensors, DevicePtr workspace, cuda::Stream stream) {
      algorithm->enqueue(tensors, workspace, stream);
    };
    try {
      Trial trial(module, bytes, algorithm->workspace_bytes(), nan ? kNan : 0);
      if (nan) trial.fill(nan->tensor, 0, bytes[nan->tensor]);
      trial.run_once(call);
      trial.record(call, 1);
      if (nan) {
        std::vector<std::byte> numbers(std::min<size_t>(bytes[nan->tensor], 4096));
        trial.read(nan->tensor, numbers);
        if (!all_nan(numbers, nan->dtype)) continue;
      }
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kDeviceLost) throw;
      if (error.code() == ErrorCode::kOutOfMemory && nan) return {};
      if (error.code() != ErrorCode::kOutOfMemory) continue;  // not supported after all
    }
    kept.push_back(std::move(algorithm));
  }
  return kept;
}

std::vector<Candidate> candidates_of(cuda::LibraryAlgorithms algorithms, LibraryParts parts) {
  std::vector<Candidate> candidates;
  for (auto& algorithm : algorithms) {
    parts.call = std::move(algorithm);
    candidates.push_back({parts.call->name(), std::make_unique<LibraryKernel>(parts)});
  }
  return candidates;
}

bool worth_trying(const KernelRequest& request) {
  return !deterministic() && request.op.flops(graph::DefinedCall(request).call) <= 3e9;
}

std::unique_ptr<graph::Kernel> choose_kernel(const KernelRequest& request, std::string_view name,
                                             cuda::AnyKernelLibrary* library,
                                             std::vector<Candidate> candidates) {
  if (candidates.size() == 1) return std::move(candidates[0].kernel);
  auto choice = std::make_shared<Choice>(
      request, fmt::format("{} {}", name, library != nullptr ? library->version() : 0),
      std::move(candidates));
  request.module->after_load([choice] { choice->make(); });
  return std::make_unique<ChosenKernel>(std::move(choice));
}

}  // namespace isochron::ops
