// The device code of a plan. Kernels add their text while they are prepared; it is compiled and loaded at
// once, for a compiler's start costs more than a kernel; then each finds its functions by number.
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
  /// Bytes of the device, given back with the last owner. Throws kOutOfMemory.
  using Allocate = std::function<std::shared_ptr<std::byte>(size_t bytes)>;

  /// `tf32`: libraries may round f32 factors (ProductSpec::tf32). `allocate`: what kernels are tried with
  /// before one is chosen comes from there; null: from the driver.
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

  /// `what` with a number: no other function of this module is called so.
  std::string unique_name(std::string_view what);
  /// Text that comes before what is added afterwards; the same text again adds nothing.
  void add_shared(const std::string& text);
  void add(const std::string& text) { text_ += text; }
  /// The text calls what device code alone has in a library: cudaGraphSetConditional.
  void need_device_runtime() { device_runtime_ = true; }
  /// Adds text in which kNamePlace stands for a name of its own: `what` with a number, which is returned. The
  /// same text again adds nothing and has the name that it got.
  std::string add_named(std::string_view what, const std::string& text);
  static constexpr char kNamePlace = '@';
  /// The number of a function of the text, whose launches ask for this much shared memory.
  size_t add_function(const std::string& name, size_t shared_bytes = 0);
  /// The first of `count` elements of the array `arrivals` of unsigned that are one launch's alone: there its
  /// blocks count how many of them have arrived. They are 0 before a launch and must be so after it.
  unsigned add_arrivals(int64_t count);

  /// `then` is called once the functions can be launched, in the order of these calls.
  void after_load(std::function<void()> then) { after_load_.push_back(std::move(then)); }

  /// Compiles the text and finds its functions, where some were added; then calls what waits for it. Throws
  /// as the compiler, the driver and those do.
  void load();
  /// Puts a function in `stream`; `arguments` are the addresses of its arguments, read at once. After `load`.
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
