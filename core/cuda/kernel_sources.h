// Where a device's kernels come from.
#pragma once

#include "isochron/core/cuda/attention.h"
#include "isochron/core/cuda/compiler.h"
#include "isochron/core/cuda/convolutions.h"
#include "isochron/core/cuda/products.h"

namespace isochron::cuda {

struct KernelSources {
  Compiler* compiler = nullptr;
  // Null: they are compiled as other kernels are.
  ProductLibrary* products = nullptr;
  ConvolutionLibrary* convolutions = nullptr;
  AttentionLibrary* attention = nullptr;
};

/// Those of this machine. Throws as machine_compiler does.
inline KernelSources machine_sources() {
  return {&machine_compiler(), machine_products(), machine_convolutions(), machine_attention()};
}

}  // namespace isochron::cuda
