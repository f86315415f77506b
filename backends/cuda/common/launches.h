// A device kernel that consists of one or more launches, run in order.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/backends/cuda/common/kernel_text.h"
#include "isochron/core/cuda/kernel_module.h"
#include "isochron/graph/ir/element_op.h"
#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

/// One of a call's addresses.
struct Slot {
  enum Kind : uint8_t { kInput, kOutput, kWorkspace } kind = kInput;
  size_t index = 0;     // index of the input or output; for the workspace a byte offset
  size_t bytes_in = 0;  // byte offset from its beginning

  std::byte* address(const graph::KernelArgs& args) const {
    return (kind == kInput    ? args.inputs[index]
            : kind == kOutput ? args.outputs[index]
                              : args.workspace + index) +
           bytes_in;
  }
};

/// The form in which the driver takes an address as an argument: a pointer to the address.
inline void* argument_of(std::byte* const& address) { return const_cast<std::byte**>(&address); }

/// A number of rows, columns or positions as a 32-bit number, as kernels use for counting. Throws
/// kUnsupported if it doesn't fit.
unsigned counted(const graph::KernelRequest& request, int64_t count);

/// A one-dimensional grid of `blocks` blocks of `threads` threads. Throws kUnsupported if a launch can't have
/// so many.
cuda::LaunchSize row_of_blocks(const graph::KernelRequest& request, int64_t blocks, unsigned threads);

class LaunchKernel final : public graph::Kernel {
 public:
  explicit LaunchKernel(const graph::KernelRequest& request);

  /// Adds a function with this body to the request's module. Its parameters are `const IN0* in0`, ..., `OUT0*
  /// out0`, ..., `void* workspace`; `type` gives the type names for the call's dtypes. Unread outputs are
  /// null. The body must begin with "// threads meet" if threads of a block wait for each other.
  void add(const graph::KernelRequest& request, std::string_view body, const cuda::LaunchSize& size,
           std::string_view (*type)(DType) = storage_type) {
    add(request, body, size, all_, type);
  }
  /// Adds a function whose parameters are `slots` and `workspace`. `arrivals`: how many elements of that
  /// array (KernelModule) the function uses. If not 0, its last parameter is `unsigned arrival`, the index of
  /// the first one.
  void add(const graph::KernelRequest& request, std::string_view body, const cuda::LaunchSize& size,
           std::vector<Slot> slots, std::string_view (*type)(DType) = storage_type, int64_t arrivals = 0);
  /// Adds a function whose threads each run `body` for one `i` in [0, elems); surplus threads do nothing.
  /// Adds nothing if `elems` is 0.
  void add_loop(const graph::KernelRequest& request, int64_t elems, std::string_view body,
                std::vector<Slot> slots, std::string_view (*type)(DType) = storage_type);
  /// The same with all of the call's tensors.
  void add_loop(const graph::KernelRequest& request, int64_t elems, std::string_view body,
                std::string_view (*type)(DType) = storage_type) {
    add_loop(request, elems, body, all_, type);
  }
  /// An element program whose operands are the call's inputs and whose outputs are its outputs.
  void add_program(const graph::ElementProgram& program) { add_program(program, all_); }
  /// Adds an element program whose operands and outputs are `slots`.
  void add_program(const graph::ElementProgram& program, std::vector<Slot> slots);

  /// Adds the column sums of a (rows, columns) tensor, computed in the compute type of `to` and stored as
  /// `to`.
  void add_row_sums(const Shape& shape, DType from, DType to, std::vector<Slot> slots);

  void need_workspace(size_t bytes) { workspace_bytes_ = std::max(workspace_bytes_, bytes); }

  size_t workspace_bytes() const override { return workspace_bytes_; }
  void run(const graph::KernelArgs& args) override;

 private:
  struct Launch {
    size_t function;
    cuda::LaunchSize size;
    std::vector<Slot> slots;
    std::vector<std::byte*> addresses;
    std::unique_ptr<unsigned> arrival;
    std::vector<void*> arguments;  // pointers to `addresses` and `arrival`
  };
  void add_launch(const std::string& function, const cuda::LaunchSize& size, std::vector<Slot> slots,
                  int64_t arrivals = 0);

  cuda::KernelModule& module_;
  const std::string name_;
  size_t workspace_bytes_ = 0;
  std::vector<Slot> all_;
  std::vector<Launch> launches_;
};

}  // namespace isochron::ops
