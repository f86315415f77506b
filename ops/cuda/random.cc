// Draws on a device.
#include <algorithm>
#include <bit>
#include <cmath>

#include "isochron/ops/cuda/element_source.h"
#include "isochron/ops/cuda/index_text.h"
#include "isochron/ops/cuda/kernels.h"
#include "isochron/ops/cuda/launches.h"
#include "isochron/ops/cuda/texts.h"

namespace isochron::ops {
namespace {

constexpr int64_t kThreads = 256;

std::string number_text(double value, bool wide) {
  return wide ? fmt::format("double_of({:#x}ull)", std::bit_cast<uint64_t>(value))
              : fmt::format("float_of({:#x}u)", std::bit_cast<uint32_t>(static_cast<float>(value)));
}

/// `distribution`: one of random_text.h; `below` its third number.
std::unique_ptr<graph::Kernel> prepare_draw(const graph::KernelRequest& request,
                                            std::string_view distribution, double a, double b, double below) {
  cuda::KernelModule& module = *request.module;
  auto kernel = std::make_unique<LaunchKernel>(request, 0);
  const TensorSpec& output = request.outputs[0];
  const int64_t elems = output.shape.elems(), each = output.dtype == DType::kF64 ? 2 : 4;
  if (elems == 0) return kernel;
  const int64_t blocks = (elems + each - 1) / each;
  const std::string name = module.unique_name(request.op.name);
  std::string parameters = "const long long* state, ", loops;
  for (size_t i = 1; i < request.inputs.size(); ++i) {
    parameters += fmt::format("const long long* loop{}, ", i);
    loops += fmt::format("  loop = loop * 0x9E3779B9u + static_cast<unsigned>(*loop{});\n", i);
  }
  const bool wide = output.dtype != DType::kF32;
  module.add_shared(element_prelude());
  module.add_shared(std::string(texts::kRandom));
  module.add(
      fmt::format("extern \"C\" __global__ void {0}({1}{2}* out, void*) {{\n"
                  "  const unsigned long long block = blockIdx.x * {3}ull + threadIdx.x;\n  if (block >= "
                  "{4}ull) return;\n"
                  "  unsigned loop = 0;\n{5}"
                  "  const Words words = philox(static_cast<unsigned>(block), loop, "
                  "static_cast<unsigned>(state[1]), {6}u, "
                  "static_cast<unsigned long long>(state[0]));\n"
                  "  for (unsigned i = 0; i < {7}u && block * {7}u + i < {8}ull; ++i)\n"
                  "    out[block * {7}u + i] = {9}::of(words, i, {10}, {11}, {12});\n}}\n",
                  name, parameters, stored_type(output.dtype), kThreads, blocks, loops,
                  static_cast<uint32_t>(request.attributes.get<int64_t>("draw")), each, elems, distribution,
                  number_text(a, wide), number_text(b, wide), number_text(below, wide)));
  kernel->add(name, {.grid = {static_cast<unsigned>((blocks + kThreads - 1) / kThreads), 1, 1},
                     .block = {kThreads, 1, 1}});
  return kernel;
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_uniform_cuda(const graph::KernelRequest& request) {
  const double low = request.attributes.get<double>("a"), high = request.attributes.get<double>("b");
  const bool wide = request.outputs[0].dtype == DType::kF64;
  const double below =
      wide ? std::nextafter(high, low)
           : static_cast<double>(std::nextafter(static_cast<float>(high), static_cast<float>(low)));
  return prepare_draw(request, "Uniform", low, high, below);
}

std::unique_ptr<graph::Kernel> prepare_normal_cuda(const graph::KernelRequest& request) {
  return prepare_draw(request, "Normal", request.attributes.get<double>("a"),
                      request.attributes.get<double>("b"), 0);
}

std::unique_ptr<graph::Kernel> prepare_bernoulli_cuda(const graph::KernelRequest& request) {
  const double probability = request.attributes.get<double>("a");
  return prepare_draw(request, "Bernoulli", std::floor(std::min(probability * 0x1p24, 0x1p24)), 0, 0);
}

}  // namespace isochron::ops
