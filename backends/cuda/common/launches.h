// A kernel for a device that is some launches, one after the other.
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
  size_t index = 0;     // of an input or output; in the workspace the offset in bytes
  size_t bytes_in = 0;  // from where that begins

  std::byte* address(const graph::KernelArgs& args) const {
    return (kind == kInput    ? args.inputs[index]
            : kind == kOutput ? args.outputs[index]
                              : args.workspace + index) +
           bytes_in;
  }
};

/// What the driver takes for an argument that is an address: where that address is.
inline void* argument_of(std::byte* const& address) { return const_cast<std::byte**>(&address); }

/// A number of rows, columns or places that a kernel counts by 32 bits. Throws kUnsupported for more.
unsigned counted(const graph::KernelRequest& request, int64_t count);

/// `blocks` in a row, of `threads`. Throws kUnsupported for more than a launch has.
cuda::LaunchSize row_of_blocks(const graph::KernelRequest& request, int64_t blocks, unsigned threads);

class LaunchKernel final : public graph::Kernel {
 public:
  explicit LaunchKernel(const graph::KernelRequest& request);

  /// A function of the request's module with this body, whose parameters are `const IN0* in0`, ..., `OUT0*
  /// out0`, ..., `void* workspace`, with the names `type` gives the call's dtypes; outputs that nobody reads
  /// are null. The body of one whose threads wait for each other begins with "// threads meet".
  void add(const graph::KernelRequest& request, std::string_view body, const cuda::LaunchSize& size,
           std::string_view (*type)(DType) = storage_type) {
    add(request, body, size, all_, type);
  }
  /// One with these parameters and `workspace`. `arrivals`: how many elements of that array (KernelModule) it
  /// takes; not 0: its last parameter is `unsigned arrival`, the first of them.
  void add(const graph::KernelRequest& request, std::string_view body, const cuda::LaunchSize& size,
           std::vector<Slot> slots, std::string_view (*type)(DType) = storage_type, int64_t arrivals = 0);
  /// One whose threads each run `body`, without those above, for one `i` in [0, elems); none for none.
  void add_loop(const graph::KernelRequest& request, int64_t elems, std::string_view body,
                std::vector<Slot> slots, std::string_view (*type)(DType) = storage_type);
  /// The same with all of the call's tensors.
  void add_loop(const graph::KernelRequest& request, int64_t elems, std::string_view body,
                std::string_view (*type)(DType) = storage_type) {
    add_loop(request, elems, body, all_, type);
  }
  /// An element program whose operands are the call's inputs and whose outputs are its outputs.
  void add_program(const graph::ElementProgram& program) { add_program(program, all_); }
  /// One whose operands and outputs are these.
  void add_program(const graph::ElementProgram& program, std::vector<Slot> slots);

  /// The sums of the columns of (rows, columns), added up as they are computed with and stored as `to`.
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
    std::vector<void*> arguments;  // where those are
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
