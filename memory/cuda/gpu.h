// A device as the framework uses it: the context, the stream in which steps run, the pool for its tensors,
// the sources of its kernels.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>

#include "isochron/core/cuda/driver.h"
#include "isochron/core/cuda/kernel_sources.h"
#include "isochron/core/tensor/tensor.h"
#include "isochron/memory/cuda/device_allocators.h"
#include "isochron/memory/cuda/limit_memory.h"

namespace isochron::cuda {

class KernelModule;

class Gpu : public std::enable_shared_from_this<Gpu> {
 public:
  static std::shared_ptr<Gpu> create(std::shared_ptr<Context> context, const KernelSources& sources,
                                     const DevicePoolOptions& memory = {});
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  Device device() const { return {DeviceKind::kCuda, static_cast<int16_t>(context_->index())}; }
  Context& context() const { return *context_; }
  const std::shared_ptr<Context>& shared_context() const { return context_; }
  const KernelSources& sources() const { return sources_; }
  /// Makes a module for the kernels of a plan or a call; kernel candidates are timed with memory of the pool.
  /// `tf32`: see KernelModule.
  std::unique_ptr<KernelModule> make_module(bool tf32 = false);
  /// All work on tensors is enqueued in this stream, so that later work sees the results of earlier work.
  Stream stream() const { return stream_; }
  DevicePool& pool() { return pool_; }
  /// The most memory that tensors could still take: what the pool has free and what it may take from the
  /// device. The largest contiguous piece may be smaller.
  size_t available_bytes();
  /// Host memory that is page-locked for copies to and from this device, as reported by the code that
  /// allocates and frees it.
  int64_t pinned_bytes() const { return pinned_bytes_; }
  void note_pinned(int64_t bytes) { pinned_bytes_ += bytes; }

  /// Allocates bytes of unspecified content at a multiple of kDeviceAlignment. The storage keeps this Gpu
  /// alive. Throws kOutOfMemory.
  Ref<Storage> allocate(size_t bytes, std::string_view tag);
  void synchronize() { context_->synchronize(stream_); }

 private:
  Gpu(std::shared_ptr<Context> context, const KernelSources& sources, const DevicePoolOptions& memory);

  const std::shared_ptr<Context> context_;
  const KernelSources sources_;
  const DevicePoolOptions memory_;
  DevicePool pool_;
  const Stream stream_;
  std::atomic<int64_t> pinned_bytes_{0};
};

/// The process's Gpu for `device`; the first call opens it. Throws kInvalidArgument for the CPU, and the
/// errors of machine_driver, Driver::open and machine_sources.
std::shared_ptr<Gpu> gpu(Device device);
/// Replaces the Gpu that `gpu` returns for `index`; returns the previous one.
std::shared_ptr<Gpu> set_gpu(int index, std::shared_ptr<Gpu> replacement);

}  // namespace isochron::cuda
