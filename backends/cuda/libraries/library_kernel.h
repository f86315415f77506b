// A library's calls as kernels.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/backends/cuda/common/launches.h"
#include "isochron/core/cuda/library_call.h"

namespace isochron::ops {

/// A call with what goes before and after it.
struct LibraryParts {
  std::shared_ptr<cuda::LibraryCall> call;
  std::vector<Slot> tensors;  // the library's, among the call's addresses
  /// Of the workspace, at its beginning, for tensors that lie there; the library's own follows.
  size_t tensor_bytes = 0;
  std::shared_ptr<graph::Kernel> before = nullptr, after = nullptr;
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

/// A result of a floating dtype that must be NaN alone where all that a way is given is NaN.
struct NanResult {
  size_t tensor;  // the library's
  DType dtype;
};
/// Those of `ways` that run, can be captured and keep NaN in `nan`: found by trying, since the library
/// doesn't say. `bytes`: of each tensor. Where there is no memory left to try with all of them, or with `nan`
/// none.
cuda::LibraryCalls working_ways(const cuda::KernelModule& module, cuda::LibraryCalls ways,
                                const std::vector<size_t>& bytes, const std::optional<NanResult>& nan = {});

/// One of several kernels for a call, and what tells it from the others.
struct Candidate {
  std::string name;
  std::unique_ptr<graph::Kernel> kernel;
};
/// A kernel for each of `ways`, with `parts` around it.
std::vector<Candidate> candidates_of(cuda::LibraryCalls ways, LibraryParts parts);

/// Is a kernel of the project's own worth trying beside a library's? Not where nothing is timed
/// (set_deterministic), nor for calls of many operations.
bool worth_trying(const graph::KernelRequest& request);

/// The fastest of `candidates`, of which those come first that are expected to be (see choose in
/// backends/common/choices.h), timed on memory of their own once the request's module is loaded, whose load
/// throws kUnsupported where none works; the first where there is no memory to time them. Those that fail, or
/// can't be captured, are left out. Until then the kernel asks for as much workspace as any of them.
/// `name`: of the library, which may be null.
std::unique_ptr<graph::Kernel> choose_kernel(const graph::KernelRequest& request, std::string_view name,
                                             cuda::AnyKernelLibrary* library,
                                             std::vector<Candidate> candidates);

}  // namespace isochron::ops
