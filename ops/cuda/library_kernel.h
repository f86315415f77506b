// A library's calls as kernels.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "isochron/core/cuda/library_call.h"
#include "isochron/ops/cuda/launches.h"

namespace isochron::ops {

class LibraryKernel final : public graph::Kernel {
 public:
  /// `tensors`: which of the call's addresses are the library's tensors. `after`, which may be null, runs
  /// behind it.
  LibraryKernel(std::unique_ptr<cuda::LibraryCall> call, std::vector<Slot> tensors,
                std::unique_ptr<graph::Kernel> after = nullptr);

  size_t workspace_bytes() const override;
  /// Throws kInvalidArgument for an address that isn't a multiple of kLibraryAlignment.
  void bind(const graph::KernelArgs& args) override;
  void run(const graph::KernelArgs& args) override;

 private:
  const std::unique_ptr<cuda::LibraryCall> call_;
  const std::vector<Slot> tensors_;
  const std::unique_ptr<graph::Kernel> after_;
};

/// The fastest of `ways` (see choose in ops/choices.h), timed on memory of their own, which is given back;
/// the first where there is none left to time with. `library`: its name and version. Null: there are none.
std::unique_ptr<cuda::LibraryCall> fastest(const graph::KernelRequest& request, const std::string& library,
                                           cuda::LibraryCalls ways, const std::vector<Slot>& tensors);

}  // namespace isochron::ops
