#include "isochron/core/cuda/kernel_module.h"

#include <utility>

#include "isochron/core/base/error.h"

namespace isochron::cuda {
namespace {

constexpr size_t kSharedBytesOfAnyBlock = 48 << 10;  // that need not be allowed

}  // namespace

KernelModule::KernelModule(std::shared_ptr<Context> context, const KernelSources& sources, bool tf32)
    : context_(std::move(context)), sources_(sources), tf32_(tf32) {}

KernelModule::~KernelModule() {
  if (module_ == Module::kNone) return;
  try {
    context_->unload(module_);
  } catch (const Error&) {  // of a device that is lost, with all it had
  }
}

std::string KernelModule::unique_name(std::string_view what) { return fmt::format("{}_{}", what, named_++); }

void KernelModule::add_shared(const std::string& text) {
  if (shared_.insert(text).second) text_ += text;
}

size_t KernelModule::add_function(std::string name, size_t shared_bytes) {
  names_.push_back(std::move(name));
  shared_bytes_.push_back(shared_bytes);
  return names_.size() - 1;
}

void KernelModule::load() {
  if (names_.empty()) return;
  const DeviceProperties& properties = device();
  const std::vector<char> image =
      sources_.compiler->compile(text_, "kernels", properties.major, properties.minor, device_runtime_);
  module_ = context_->load(image);
  for (size_t f = 0; f < names_.size(); ++f) {
    functions_.push_back(context_->function(module_, names_[f]));
    if (shared_bytes_[f] > kSharedBytesOfAnyBlock)
      context_->allow_shared_bytes(functions_[f], shared_bytes_[f]);
  }
}

void KernelModule::launch(size_t function, const LaunchSize& size, std::span<void* const> arguments,
                          Stream stream) const {
  require(function < functions_.size(), ErrorCode::kInvalidArgument, "cuda",
          "a kernel is launched before its module is loaded");
  context_->launch(functions_[function], size, arguments, stream);
}

}  // namespace isochron::cuda
