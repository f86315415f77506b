// Where a device's kernels come from.
#pragma once

#include <string_view>
#include <vector>

#include "isochron/core/cuda/compiler.h"
#include "isochron/core/cuda/library_algorithm.h"

namespace isochron::cuda {

struct KernelSources {
  Compiler* compiler = nullptr;
  std::vector<AnyKernelLibrary*> libraries = {};
  /// What runs in plain kernels, which are slow, because a library is missing or use_plain_kernels was
  /// called: "convolutions".
  std::vector<std::string_view> plain = {};

  /// The library that computes what a Spec describes. Null: its kernels are compiled like others.
  template <typename Spec>
  KernelLibrary<Spec>* library() const {
    for (AnyKernelLibrary* any : libraries) {
      if (auto* library = dynamic_cast<KernelLibrary<Spec>*>(any)) return library;
    }
    return nullptr;
  }
};

/// The sources of this machine, defined in backends/cuda/libraries/machine_sources.cc. Throws like
/// machine_compiler.
KernelSources machine_sources();
/// From now on machine_sources() has no libraries.
void use_plain_kernels();

}  // namespace isochron::cuda
