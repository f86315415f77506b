#include "isochron/backends/cuda/libraries/attention.h"
#include "isochron/backends/cuda/libraries/convolutions.h"
#include "isochron/backends/cuda/libraries/products.h"
#include "isochron/core/cuda/kernel_sources.h"

#include <atomic>
#include <utility>

namespace isochron::cuda {

namespace {
std::atomic<bool> g_plain{false};
}  // namespace

void use_plain_kernels() { g_plain = true; }

KernelSources machine_sources() {
  KernelSources sources{&machine_compiler()};
  const auto add = [&](std::string_view what, auto* (*library)()) {
    AnyKernelLibrary* const found = g_plain ? nullptr : library();
    if (found != nullptr) {
      sources.libraries.push_back(found);
    } else {
      sources.plain.push_back(what);
    }
  };
  add("matrix products", &machine_products);
  add("convolutions", &machine_convolutions);
  add("attention in 16 bits", &machine_attention);
  return sources;
}

}  // namespace isochron::cuda
