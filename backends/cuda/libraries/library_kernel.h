// Kernels that call a library.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/backends/cuda/common/launches.h"
#include "isochron/core/cuda/library_algorithm.h"

namespace isochron::ops {

/// A library call with the kernels that run before and after it.
struct LibraryParts {
  std::shared_ptr<cuda::LibraryAlgorithm> call;
  std::vector<Slot> tensors;  // the library's tensors, among the call's addresses
  /// Bytes at the start of the workspace for tensors that are stored there. The library's workspace follows.
  size_t tensor_bytes = 0;
  std::shared_ptr<graph::Kernel> before = nullptr, after = nullptr;
  /// The call is made `times` times. After each call, the address of tensor t advances by steps[t] bytes; if
  /// `steps` is empty, addresses don't change.
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

/// A floating-point result that must be all NaN if all inputs of the library are NaN.
struct NanResult {
  size_t tensor;  // index of the library's tensor
  DType dtype;
};
/// Those of `algorithms` that run, can be captured and, if `nan` is given, propagate NaN. The library doesn't
/// report this, so each algorithm is tried. `bytes`: the size of each tensor. If memory runs out, algorithms
/// are kept untried; with `nan`, however, the result is then empty.
cuda::LibraryAlgorithms working_algorithms(const cuda::KernelModule& module,
                                           cuda::LibraryAlgorithms algorithms,
                                           const std::vector<size_t>& bytes,
                                           const std::optional<NanResult>& nan = {});

/// One of several kernels for a call, with a name that distinguishes it from the others.
struct Candidate {
  std::string name;
  std::unique_ptr<graph::Kernel> kernel;
};
/// A kernel for each of `algorithms`, with `parts` before and after the library call.
std::vector<Candidate> candidates_of(cuda::LibraryAlgorithms algorithms, LibraryParts parts);

/// Whether the project's own kernel is worth timing against a library's. False if nothing is timed
/// (set_deterministic), and for calls of many operations.
bool worth_trying(const graph::KernelRequest& request);

/// The fastest of `candidates`, which are listed with the expected fastest first (see choose in
/// backends/common/choices.h). They are timed on separate memory once the request's module is loaded; if
/// there is no memory for that, the first is chosen. Candidates that fail or can't be captured are skipped;
/// if none works, loading the module throws kUnsupported. Until the module is loaded, the kernel requests the
/// largest workspace of any candidate. `name`: the library's name; `library` may be null.
std::unique_ptr<graph::Kernel> choose_kernel(const graph::KernelRequest& request, std::string_view name,
                                             cuda::AnyKernelLibrary* library,
                                             std::vector<Candidate> candidates);

}  // namespace isochron::ops
