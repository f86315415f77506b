#include "isochron/memory/cuda/gpu.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "isochron/core/base/error.h"
#include "isochron/core/cuda/kernel_module.h"

namespace isochron::cuda {
namespace {

class DeviceBuffer final : public Storage {
 public:
  DeviceBuffer(std::shared_ptr<Gpu> gpu, std::byte* address, size_t bytes)
      : Storage(address, bytes, gpu->device()), gpu_(std::move(gpu)) {}
  ~DeviceBuffer() override { gpu_->pool().deallocate(data(), size_bytes()); }

  std::string owner() const override { return "the next write to its buffer"; }
  void read(size_t offset, std::byte* to, size_t bytes) const override {
    if (bytes == 0) return;
    gpu_->context().copy_to_host(to, address(offset), bytes, gpu_->stream());
    gpu_->synchronize();
  }
  void write(size_t offset, const std::byte* from, size_t bytes) override {
    if (bytes == 0) return;
    gpu_->context().copy_to_device(address(offset), from, bytes, gpu_->stream());
  }

 private:
  DevicePtr address(size_t offset) const { return reinterpret_cast<uintptr_t>(data()) + offset; }

  const std::shared_ptr<Gpu> gpu_;
};

struct OpenGpus {
  std::mutex mutex;
  std::map<int, std::shared_ptr<Gpu>> by_index;
};

/// Never destroyed, so that objects alive at the end of the process still have their device.
OpenGpus& open_gpus() {
  static OpenGpus& gpus = *new OpenGpus;
  return gpus;
}

}  // namespace

std::shared_ptr<Gpu> Gpu::create(std::shared_ptr<Context> context, const KernelSources& sources,
                                 const DevicePoolOptions& memory) {
  return std::shared_ptr<Gpu>(new Gpu(std::move(context), sources, memory));
}

Gpu::Gpu(std::shared_ptr<Context> context, const KernelSources& sources, const DevicePoolOptions& memory)
    : context_(std::move(context)),
      sources_(sources),
      memory_(memory),
      pool_(context_, memory),
      stream_(context_->create_stream(false)) {}

Gpu::~Gpu() {
  try {
    context_->synchronize(stream_);
    context_->destroy(stream_);
  } catch (const Error&) {  // the device is lost, and with it everything on it
  }
}

Ref<Storage> Gpu::allocate(size_t bytes, std::string_view tag) {
  auto* address = static_cast<std::byte*>(pool_.allocate(bytes, tag));
  try {
    return make_ref<DeviceBuffer>(shared_from_this(), address, bytes);
  } catch (...) {
    pool_.deallocate(address, bytes);
    throw;
  }
}

std::unique_ptr<KernelModule> Gpu::make_module(bool tf32) {
  return std::make_unique<KernelModule>(context_, sources_, tf32, [this](size_t bytes) {
    synchronize();  // the stream may still use freed memory, and kernels are timed in another stream
    const Ref<Storage> storage = allocate(bytes, "kernels tried");
    return std::shared_ptr<std::byte>(storage->data(), [storage](std::byte*) {});
  });
}

size_t Gpu::available_bytes() {
  const AllocatorStats stats = pool_.stats();
  const size_t more = memory_.max_bytes > stats.reserved_bytes ? memory_.max_bytes - stats.reserved_bytes : 0;
  return stats.free_bytes + std::min(more, context_->memory_info().free_bytes);
}

void limit_memory(Device device, size_t bytes) {
  const std::shared_ptr<Gpu> before = gpu(device);
  require(before->pool().stats().live_allocations == 0, ErrorCode::kInvalidArgument, "cuda",
          "tensors already live on {}; limit its memory before the first tensor is created there",
          device.str());
  const size_t step = before->context().granularity();
  require(bytes >= step, ErrorCode::kInvalidArgument, "cuda",
          "a memory limit of {} bytes; {} takes at least {} at once", bytes, device.str(), step);
  DevicePoolOptions memory;
  memory.max_bytes = bytes / step * step;
  memory.initial_bytes = std::min(memory.initial_bytes, memory.max_bytes);
  set_gpu(device.index, Gpu::create(before->shared_context(), before->sources(), memory));
}

std::shared_ptr<Gpu> gpu(Device device) {
  require(!device.is_cpu(), ErrorCode::kInvalidArgument, "cuda", "{} is not a CUDA device", device.str());
  OpenGpus& gpus = open_gpus();
  const std::lock_guard lock(gpus.mutex);
  std::shared_ptr<Gpu>& found = gpus.by_index[device.index];
  if (!found) {
    std::shared_ptr<Context> context = machine_driver().open(device.index);  // first: says what is missing
    found = Gpu::create(std::move(context), machine_sources());
  }
  return found;
}

std::shared_ptr<Gpu> set_gpu(int index, std::shared_ptr<Gpu> replacement) {
  OpenGpus& gpus = open_gpus();
  const std::lock_guard lock(gpus.mutex);
  return std::exchange(gpus.by_index[index], std::move(replacement));
}

}  // namespace isochron::cuda
