// A kernel computes one call of an op. Backends make kernels (graph/ir/backend.h); plans run them.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "isochron/core/cuda/handles.h"
#include "isochron/graph/ir/op.h"

namespace isochron::cuda {
class KernelModule;
}

namespace isochron::graph {

class Backend;

/// Addresses of one kernel call. `outputs[i]` is null if nobody reads that result and the op's row allows it.
struct KernelArgs {
  std::byte* const* inputs = nullptr;
  std::byte* const* outputs = nullptr;
  std::byte* workspace = nullptr;
  cuda::Stream stream = cuda::Stream::kNone;  // the stream in which a device kernel enqueues its work
};

/// A prepared kernel. Preparation may allocate; `bind` and `run` may not. In `run`, a kernel for a device
/// only enqueues work in the stream that it is given, which may be under capture.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// Size of the scratch memory that the planner must place for the duration of `run`.
  virtual size_t workspace_bytes() const { return 0; }
  /// Called before the first `run` and again whenever an address has changed.
  virtual void bind(const KernelArgs& /*args*/) {}
  virtual void run(const KernelArgs& args) = 0;
};

/// The call that a kernel is made for. Tensors have the dtypes in which they are stored
/// (graph/ir/half_storage.h).
struct KernelRequest {
  const OpDef& op;
  std::span<const TensorSpec> inputs;
  std::span<const TensorSpec> outputs;
  const Attributes& attributes;
  int threads = 1;                       // the most this kernel may use: 1 or compute_threads()
  std::span<const bool> unread = {};     // outputs whose address will be null; empty: none
  cuda::KernelModule* module = nullptr;  // of the device that the kernel is for; null: the CPU
  /// State that the kernels of one plan share while they are prepared, such as memory to time candidates in;
  /// null: none. The first kernel that needs it creates it (only backends/cpu/common/choose_kernel.cc so
  /// far).
  std::shared_ptr<void>* shared = nullptr;
  const Backend* backend = nullptr;  // the backend that makes the kernel; null: the device's (backend_of)
};

}  // namespace isochron::graph
