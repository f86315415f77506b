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

/// Sets the number of threads that the calling thread's next primitives are made for and run with.
void use_threads(int threads);

/// Our error code for a failure of the library.
inline ErrorCode error_code(dnnl_status_t status) {
  return status == dnnl_out_of_memory ? ErrorCode::kOutOfMemory : ErrorCode::kUnsupported;
}

/// For calls of the library's C interface, which throws nothing. `what`: "a primitive", "the product".
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

/// Where an operand of a primitive is found in a kernel call.
enum class Port { kInput, kOutput };

struct Operand {
  int argument;  // DNNL_ARG_...
  Port port;
  int index;                // of the kernel's inputs or outputs
  dnnl::memory::desc own;   // the layout that the primitive requires
  dnnl::memory::desc user;  // the layout of our tensor
};

/// A primitive between tensors of our layout: operands that it wants in a layout of its own are reordered
/// through the workspace, before (inputs) or after it (outputs).
class BoundPrimitive {
 public:
  /// `scratchpad` is the primitive's, in user mode. Throws what `translated` throws.
  BoundPrimitive(dnnl::primitive primitive, std::vector<Operand> operands,
                 const dnnl::memory::desc& scratchpad, int threads);
  size_t workspace_bytes() const { return workspace_bytes_; }
  void bind(const graph::KernelArgs& args);
  void run();

 private:
  /// One execution with its arguments in the library's form.
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  /// A memory object and where its address comes from.
  struct Bound {
    dnnl::memory memory;
    enum class Source { kInput, kOutput, kWorkspace } source;
    size_t index;  // of inputs or outputs; offset in the workspace
  };
  size_t place(const dnnl::memory::desc& desc);
  dnnl_memory_t add(const dnnl::memory::desc& desc, Bound::Source source, size_t index);

  std::vector<Bound> bound_;
  std::vector<Step> steps_;
  size_t workspace_bytes_ = 0;
  int threads_;
};

}  // namespace isochron::ops::onednn
