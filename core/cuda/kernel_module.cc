#include "isochron/core/cuda/kernel_module.h"

#include <algorithm>
#include <utility>

#include "isochron/core/base/error.h"

namespace isochron::cuda {
namespace {

constexpr size_t kSharedBytesOfAnyBlock = 48 << 10;  // may be used without allow_shared_bytes

}  // namespace

KernelModule::KernelModule(std::shared_ptr<Context> context, const KernelSources& sources, bool tf32,
                           Allocate allocate)
    : context_(std::move(context)), sources_(sources), tf32_(tf32), allocate_(std::move(allocate)) {}

KernelModule::~KernelModule() {
  if (module_ == Module::kNone) return;
  try {
    context_->unload(module_);
  } catch (const Error&) {  // the device is lost, with all that it held
  }
}

std::shared_ptr<std::byte> KernelModule::allocate(size_t bytes) const {
  if (allocate_) return allocate_(bytes);
  const DevicePtr taken = context_->allocate(bytes);
  return {reinterpret_cast<std::byte*>(taken), [context = context_, taken](std::byte*) {
            try {
              context->free(taken);
            } catch (const Error&) {  // the device is lost, with all that it held
            }
          }};
}

std::string KernelModule::unique_name(std::string_view what) { return fmt::format("{}_{}", what, named_++); }

void KernelModule::add_shared(const std::string& text) {
  if (shared_.insert(text).second) text_ += text;
}

std::string KernelModule::add_named(std::string_view what, const std::string& text) {
  const auto [found, added] = names_.try_emplace(text);
  if (!added) return found->second;
  found->second = unique_name(what);
  for (const char c : text) {
    if (c == kNamePlace) {
      text_ += found->second;
    } else {
      text_ += c;
    }
  }
  return found->second;
}

size_t KernelModule::add_function(const std::string& name, size_t shared_bytes) {
  const auto found = std::ranges::find(asked_, name, &Asked::name);
  if (found != asked_.end()) return static_cast<size_t>(found - asked_.begin());
  asked_.push_back({name, shared_bytes});
  return asked_.size() - 1;
}

unsigned KernelModule::add_arrivals(int64_t count) {
  const int64_t first = std::exchange(arrivals_, arrivals_ + count);
  require(arrivals_ < int64_t{1} << 31, ErrorCode::kUnsupported, "cuda",
          "the kernels of a plan have more blocks that wait for others than are counted");
  return static_cast<unsigned>(first);
}

void KernelModule::load() {
  if (!asked_.empty()) compile();
  for (const std::function<void()>& then : std::exchange(after_load_, {})) then();
}

void KernelModule::compile() {
  if (arrivals_ > 0) text_ = fmt::format("static __device__ unsigned arrivals[{}];\n", arrivals_) + text_;
  const DeviceProperties& properties = device();
  const std::vector<char> image =
      sources_.compiler->compile(text_, "kernels", properties.major, properties.minor, device_runtime_);
  module_ = context_->load(image);
  for (const Asked& asked : asked_) {
    functions_.push_back(context_->function(module_, asked.name));
    if (asked.shared_bytes > kSharedBytesOfAnyBlock)
      context_->allow_shared_bytes(functions_.back(), asked.shared_bytes);
  }
}

void KernelModule::launch(size_t function, const LaunchSize& size, std::span<void* const> arguments,
                          Stream stream) const {
  require(function < functions_.size(), ErrorCode::kInvalidArgument, "cuda",
          "a kernel is launched before its module is loaded");
  context_->launch(functions_[function], size, arguments, stream);
}

}  // namespace isochron::cuda
