// Runs work on a device depending on conditions that are in the device's memory. In a CUDA graph capture, the
// work becomes conditional nodes; otherwise the host waits for the condition and reads it.
#pragma once

#include <functional>

#include "isochron/core/cuda/kernel_module.h"
#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

/// Enqueues work in the stream that it is given.
using EnqueueFunction = std::function<void(cuda::Stream stream)>;

class DeviceControl {
 public:
  /// Adds its functions to the module.
  explicit DeviceControl(cuda::KernelModule& module);

  /// Runs `body` if the bool at `predicate`, in device memory, equals `wanted`.
  void run_if(cuda::Stream stream, const std::byte* predicate, bool wanted,
              const EnqueueFunction& body) const;
  /// Repeats `body` while the bool at `predicate` is true. `body` must update the bool each time.
  void run_while(cuda::Stream stream, const std::byte* predicate, const EnqueueFunction& body) const;
  cuda::Context& context() const { return module_.context(); }

 private:
  void set(cuda::Stream stream, cuda::Condition condition, const std::byte* predicate, bool wanted) const;
  bool read(cuda::Stream stream, const std::byte* predicate) const;

  cuda::KernelModule& module_;
  size_t set_;
};

/// The operations between the iterations of a loop.
class DeviceLoop {
 public:
  /// Adds its functions to the module.
  explicit DeviceLoop(cuda::KernelModule& module);

  void set_number(cuda::Stream stream, std::byte* number, int64_t value) const;
  void count_iteration(cuda::Stream stream, std::byte* iteration) const;
  /// Sets the bool at `continues` to whether `iteration` is below `bound`.
  void test_bound(cuda::Stream stream, const std::byte* iteration, int64_t bound, std::byte* continues) const;
  /// Copies `row` (`bytes` bytes) to the row of `stack` whose number is the i64 at `index`.
  void save_row(cuda::Stream stream, const std::byte* row, std::byte* stack, const std::byte* index,
                size_t bytes) const;

 private:
  cuda::KernelModule& module_;
  size_t set_number_, count_iteration_, test_bound_, save_row_;
};

}  // namespace isochron::ops
