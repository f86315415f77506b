// The only access to oneDNN: its engine and stream, translation of its errors to ours, and primitives bound
// to our memory. Changes for another major version of the library belong here.
#pragma once

#include <dnnl.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "isochron/core/base/error.h"
#include "isochron/graph/ir/kernel.h"

namespace isochron::ops::onednn {

const dnnl::engine& cpu_engine();

/// Sets the number of threads for primitives that the calling thread creates or runs from now on.
void use_threads(int threads);

/// Our error code for a failure of the library.
inline ErrorCode error_code(dnnl_status_t status) {
  return status == dnnl_out_of_memory ? ErrorCode::kOutOfMemory : ErrorCode::kUnsupported;
}

/// Throws if a call of the library's C interface failed. `what` names the object, e.g. "a primitive", "the
/// product".
inline void require_success(dnnl_status_t status, std::string_view where, std::string_view what) {
  require(status == dnnl_success, error_code(status), where, "oneDNN: {} failed with status {}", what,
          static_cast<int>(status));
}

/// Throws kOutOfMemory if so little address space is left that the library might fail to generate code. Some
/// of its functions can't report that failure.
void require_room(std::string_view where);

/// Runs `body`, which creates an object of the library. An error of the library is translated to ours:
/// kOutOfMemory or kUnsupported.
template <typename F>
decltype(auto) translated(std::string_view where, F&& body) {
  require_room(where);
  try {
    return body();
  } catch (const dnnl::error& error) {
    fail(error_code(error.status), where, "oneDNN says: {}", error.what());
  }
}

/// Whether an operand of a primitive is an input or an output of the kernel.
enum class Port { kInput, kOutput };

struct Operand {
  int argument;  // DNNL_ARG_...
  Port port;
  int index;                // index among the kernel's inputs or outputs
  dnnl::memory::desc own;   // the layout that the primitive requires
  dnnl::memory::desc user;  // the layout of our tensor
};

/// A primitive on tensors in our layout. If the primitive requires another layout for an operand, the operand
/// is reordered in the workspace: inputs before the primitive runs, outputs after it.
class BoundPrimitive {
 public:
  /// `scratchpad` describes the primitive's scratchpad (user mode). Throws what `translated` throws.
  BoundPrimitive(dnnl::primitive primitive, std::vector<Operand> operands,
                 const dnnl::memory::desc& scratchpad, int threads);
  size_t workspace_bytes() const { return workspace_bytes_; }
  void bind(const graph::KernelArgs& args);
  void run();

 private:
  /// One execution of a primitive, with its arguments as oneDNN takes them.
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  /// A memory object and the source of its address.
  struct Bound {
    dnnl::memory memory;
    enum class Source { kInput, kOutput, kWorkspace } source;
    size_t index;  // index of an input or output, or offset in the workspace
  };
  size_t place(const dnnl::memory::desc& desc);
  dnnl_memory_t add(const dnnl::memory::desc& desc, Bound::Source source, size_t index);

  std::vector<Bound> bound_;
  std::vector<Step> steps_;
  size_t workspace_bytes_ = 0;
  int threads_;
};

}  // namespace isochron::ops::onednn
