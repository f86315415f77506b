// Where a device's kernels come from.
#pragma once

#include <vector>

#include "isochron/core/cuda/compiler.h"
#include "isochron/core/cuda/library_call.h"

namespace isochron::cuda {

struct KernelSources {
  Compiler* compiler = nullptr;
  std::vector<AnyKernelLibrary*> libraries = {};

  /// The one that computes what a Spec describes. Null: its kernels are compiled as others are.
  template <typename Spec>
  KernelLibrary<Spec>* library() const {
    for (AnyKernelLibrary* any : libraries) {
      if (auto* library = dynamic_cast<KernelLibrary<Spec>*>(any)) return library;
    }
    return nullptr;
  }
};

/// Those of this machine; backends/cuda/libraries/machine_sources.cc defines it. Throws as machine_compiler
/// does.
KernelSources machine_sources();

}  // namespace isochron::cuda
