#include "isochron/backends/cuda/libraries/attention.h"
#include "isochron/backends/cuda/libraries/convolutions.h"
#include "isochron/backends/cuda/libraries/products.h"
#include "isochron/core/cuda/kernel_sources.h"

namespace isochron::cuda {

KernelSources machine_sources() {
  KernelSources sources{&machine_compiler()};
  for (AnyKernelLibrary* library : {static_cast<AnyKernelLibrary*>(machine_products()),
                                    static_cast<AnyKernelLibrary*>(machine_convolutions()),
                                    static_cast<AnyKernelLibrary*>(machine_attention())}) {
    if (library != nullptr) sources.libraries.push_back(library);
  }
  return sources;
}

}  // namespace isochron::cuda
