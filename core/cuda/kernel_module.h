// The device code of a plan. Kernels add their text while they are prepared. All of it is compiled and loaded
// together, because starting the compiler costs more than a kernel. Then each kernel finds its functions by
// number.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isochron/core/cuda/driver.h"
#include "isochron/core/cuda/kernel_sources.h"
#include "isochron/core/tensor/device.h"

namespace isochron::cuda {

class KernelModule {
 public:
  /// Allocates device memory, which is freed with its last owner. Throws kOutOfMemory.
  using Allocate = std::function<std::shared_ptr<std::byte>(size_t bytes)>;

  /// `tf32`: libraries may round f32 factors (ProductSpec::tf32). `allocate` provides the memory that kernels
  /// are tried with before one is chosen; null: the driver provides it.
  KernelModule(std::shared_ptr<Context> context, const KernelSources& sources, bool tf32 = false,
               Allocate allocate = {});
  ~KernelModule();
  KernelModule(const KernelModule&) = delete;
  KernelModule& operator=(const KernelModule&) = delete;

  Context& context() const { return *context_; }
  const DeviceProperties& device() const { return context_->properties(); }
  const KernelSources& sources() const { return sources_; }
  bool tf32() const { return tf32_; }
  std::shared_ptr<std::byte> allocate(size_t bytes) const;
  Device target() const { return {DeviceKind::kCuda, static_cast<int16_t>(context_->index())}; }

  /// Returns `what` with a number. No other function of this module has this name.
  std::string unique_name(std::string_view what);
  /// Adds text that comes before text added afterwards. Adding the same text again has no effect.
  void add_shared(const std::string& text);
  void add(const std::string& text) { text_ += text; }
  /// Says that the text calls a function that device code has only in a library: cudaGraphSetConditional.
  void need_device_runtime() { device_runtime_ = true; }
  /// Adds text in which kNamePlace stands for a unique name: `what` with a number. Returns the name. Adding
  /// the same text again has no effect and returns the same name.
  std::string add_named(std::string_view what, const std::string& text);
  static constexpr char kNamePlace = '@';
  /// Returns the number of a function of the text. Its launches request this much shared memory.
  size_t add_function(const std::string& name, size_t shared_bytes = 0);
  /// Reserves `count` elements of the unsigned array `arrivals` for one launch and returns the first. The
  /// blocks of the launch count there how many of them have arrived. The elements are 0 before a launch and
  /// must be 0 again after it.
  unsigned add_arrivals(int64_t count);

  /// Calls `then` once the functions can be launched, in the order of these calls.
  void after_load(std::function<void()> then) { after_load_.push_back(std::move(then)); }

  /// Compiles the text and finds its functions, if any were added, and then runs the callbacks of
  /// `after_load`. Throws like the compiler, the driver and the callbacks.
  void load();
  /// Launches a function in `stream`. `arguments` are the addresses of its arguments, which are read before
  /// this returns. Call it after `load`.
  void launch(size_t function, const LaunchSize& size, std::span<void* const> arguments, Stream stream) const;

  const std::string& text() const { return text_; }

 private:
  void compile();

  const std::shared_ptr<Context> context_;
  const KernelSources sources_;
  const bool tf32_;
  const Allocate allocate_;
  std::string text_;
  std::set<std::string> shared_;
  std::map<std::string, std::string> names_;  // by text
  struct Asked {
    std::string name;
    size_t shared_bytes;
  };
  std::vector<Asked> asked_;
  int64_t arrivals_ = 0;
  std::vector<Function> functions_;
  std::vector<std::function<void()>> after_load_;
  Module module_ = Module::kNone;
  int named_ = 0;
  bool device_runtime_ = false;
};

}  // namespace isochron::cuda
