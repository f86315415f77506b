#include "isochron/backends/cuda/library_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "isochron/backends/common/choices.h"
#include "isochron/core/base/checked.h"
#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/event.h"

namespace isochron::ops {
namespace {

using cuda::DevicePtr;
using cuda::LibraryCall;
using graph::KernelArgs;
using graph::KernelRequest;

constexpr int kRunsATiming = 20;  // of one launch: what the host does for a call may take longer than a run

DevicePtr pointer_of(const std::byte* address) { return reinterpret_cast<uintptr_t>(address); }

/// Memory for the tensors of a call, and a stream. Its content is 0, which is as good as any to time with,
/// unless it is asked for another byte.
class Trial {
 public:
  Trial(cuda::Context& context, const std::vector<size_t>& bytes, size_t workspace_bytes, uint8_t byte = 0)
      : context_(context), stream_(context_.create_stream(false)) {
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

  void run_once(LibraryCall& call) {
    enqueue(call);
    context_.synchronize(stream_);
  }
  /// kRunsATiming runs as one launch.
  cuda::GraphExec record(LibraryCall& call) {
    recorded_.push_back(capture_graph(context_, stream_, [&] {
      for (int run = 0; run < kRunsATiming; ++run) enqueue(call);
    }));
    return recorded_.back();
  }
  /// The first bytes of a tensor.
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
    made_.push_back(context_.allocate(std::max<size_t>(bytes, 1)));
    if (bytes > 0) context_.fill(made_.back(), byte, bytes, stream_);
  }
  void enqueue(LibraryCall& call) {
    call.enqueue(std::span(made_).first(made_.size() - 1), made_.back(), stream_);
  }
  void give_back() noexcept {
    try {
      context_.synchronize(stream_);
      for (const cuda::GraphExec each : recorded_) context_.destroy(each);
      for (const DevicePtr each : made_) context_.free(each);
      context_.destroy(stream_);
    } catch (const Error&) {  // of a device that is lost, with all it had
    }
  }

  cuda::Context& context_;
  const cuda::Stream stream_;
  std::vector<DevicePtr> made_;
  std::vector<cuda::GraphExec> recorded_;
};

/// Is each of the numbers, of a floating dtype, neither finite nor infinite?
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

/// Of what is asked for, of whom.
std::string describe(const KernelRequest& request, const std::string& library) {
  std::string call = request.op.name;
  for (const TensorSpec& spec : request.inputs) call += fmt::format(" {}", spec.str());
  return call + fmt::format(" {} {}on {} by {}", request.attributes.str(),
                            request.module->tf32() ? "tf32 " : "", request.module->device().name, library);
}

}  // namespace

LibraryKernel::LibraryKernel(LibraryParts parts)
    : parts_(std::move(parts)), addresses_(parts_.tensors.size()) {}

size_t LibraryKernel::workspace_bytes() const {
  return std::max({checked_add(parts_.tensor_bytes, parts_.call->workspace_bytes()),
                   parts_.before ? parts_.before->workspace_bytes() : 0,
                   parts_.after ? parts_.after->workspace_bytes() : 0});
}

void LibraryKernel::bind(const KernelArgs& args) {
  for (const Slot& slot : parts_.tensors) {
    const DevicePtr address = pointer_of(slot.address(args));
    require(address % cuda::kLibraryAlignment == 0, ErrorCode::kInvalidArgument, "cuda",
            "a tensor of {} begins at {:#x}, which is no multiple of {} bytes; copy it first",
            parts_.call->name(), address, cuda::kLibraryAlignment);
  }
  require(pointer_of(args.workspace) % cuda::kDeviceAlignment == 0, ErrorCode::kInvalidArgument, "cuda",
          "the workspace of {} begins at {:#x}, which is no multiple of {} bytes", parts_.call->name(),
          pointer_of(args.workspace), cuda::kDeviceAlignment);
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

cuda::LibraryCalls ways_that_keep_nan(cuda::Context& context, cuda::LibraryCalls ways,
                                      const std::vector<size_t>& bytes, size_t result, DType dtype) {
  constexpr uint8_t kNan = 0xFF;  // each byte of one, in all dtypes
  cuda::LibraryCalls kept;
  std::vector<std::byte> numbers(std::min<size_t>(bytes[result], 4096));
  for (auto& way : ways) {
    try {
      Trial trial(context, bytes, way->workspace_bytes(), kNan);
      trial.fill(result, 0, bytes[result]);
      trial.run_once(*way);
      trial.read(result, numbers);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kDeviceLost) throw;
      if (error.code() == ErrorCode::kOutOfMemory) return {};
      continue;  // the library was wrong about it
    }
    if (all_nan(numbers, dtype)) kept.push_back(std::move(way));
  }
  return kept;
}

std::unique_ptr<LibraryCall> choose_way(const KernelRequest& request, const std::string& library,
                                        cuda::LibraryCalls ways, const std::vector<size_t>& bytes) {
  const std::string call = describe(request, library);
  std::vector<std::string> names;
  size_t workspace_bytes = 0;
  for (const auto& way : ways) {
    names.push_back(way->name());
    workspace_bytes = std::max(workspace_bytes, way->workspace_bytes());
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  std::optional<Trial> trial;
  std::string reason = "it offers none";
  size_t chosen = ways.size();
  std::vector<bool> refused(ways.size(), false);
  try {
    chosen = choose(call, views, [&](size_t way) -> std::function<void()> {
      if (!trial) trial.emplace(request.module->context(), bytes, workspace_bytes);
      try {
        trial->run_once(*ways[way]);
        return [&trial, runs = trial->record(*ways[way])] { trial->launch(runs); };
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kDeviceLost || error.code() == ErrorCode::kOutOfMemory) throw;
        reason = error.what();
        refused[way] = true;
        return {};  // the library was wrong about it, or it can't be captured
      }
    });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    // No memory to try it: the recorded way needs none, and others take the first that may serve.
    const std::map<std::string, std::string> recorded = recorded_choices();
    const auto known = recorded.find(call);
    const auto named = known == recorded.end() ? names.end() : std::ranges::find(names, known->second);
    if (named != names.end()) {
      chosen = static_cast<size_t>(named - names.begin());
    } else {
      chosen = static_cast<size_t>(std::ranges::find(refused, false) - refused.begin());
      if (chosen < ways.size()) restore_choices({{call, names[chosen]}});  // equal calls run equal code
    }
  }
  if (chosen < ways.size()) return std::move(ways[chosen]);
  emit({EventKind::kNotice, request.op.name,
        fmt::format("{} has no way to compute it ({}); a plain kernel does, which is slow", call, reason)});
  return nullptr;
}

}  // namespace isochron::ops
