// A library's calls as kernels.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "isochron/backends/cuda/launches.h"
#include "isochron/core/cuda/library_call.h"

namespace isochron::ops {

/// A call with what goes before and after it.
struct LibraryParts {
  std::unique_ptr<cuda::LibraryCall> call;
  std::vector<Slot> tensors;  // the library's, among the call's addresses
  /// Of the workspace, at its beginning, for tensors that lie there; the library's own follows.
  size_t tensor_bytes = 0;
  std::unique_ptr<graph::Kernel> before = nullptr, after = nullptr;
  /// The call is made so many times, each time with every tensor so many bytes further on; empty: none moves.
  int64_t times = 1;
  std::vector<size_t> steps = {};
};

class LibraryKernel final : public graph::Kernel {
 public:
  explicit LibraryKernel(LibraryParts parts);

  size_t workspace_bytes() const override;
  /// Throws kInvalidArgument for an address that isn't a multiple of kLibraryAlignment.
  void bind(const graph::KernelArgs& args) override;
  void run(const graph::KernelArgs& args) override;

 private:
  const LibraryParts parts_;
  std::vector<cuda::DevicePtr> addresses_;
};

/// Those of `ways` that make a result of NaN alone where all they are given is NaN: found by trying, since
/// the library doesn't say. `bytes`: of each tensor; `result`: which of them that is, of `dtype`. Empty where
/// there is no memory left to try with.
cuda::LibraryCalls ways_that_keep_nan(cuda::Context& context, cuda::LibraryCalls ways,
                                      const std::vector<size_t>& bytes, size_t result, DType dtype);

/// One of `ways`, those that the library expects to be fastest first: the fastest of them (see choose in
/// backends/common/choices.h), timed on memory of their own, which is given back; the first where there is
/// none left to time with. Ways that fail, or can't be captured, are left out. `library`: its name and
/// version; `bytes`: of each tensor. Null: there is none, which is told as an event kNotice.
std::unique_ptr<cuda::LibraryCall> choose_way(const graph::KernelRequest& request, const std::string& library,
                                              cuda::LibraryCalls ways, const std::vector<size_t>& bytes);

}  // namespace isochron::ops
