// Draws on a device.
#include <algorithm>
#include <cmath>

#include "isochron/backends/cuda/common/launches.h"
#include "isochron/backends/cuda/common/texts.h"
#include "isochron/backends/cuda/factories.h"

namespace isochron::ops {
namespace {

constexpr unsigned kThreads = 256;

/// `distribution`: a class of random_text.h, with the numbers `a`, `b` and `below`.
std::unique_ptr<graph::Kernel> prepare_draw(const graph::KernelRequest& request,
                                            std::string_view distribution, double a, double b, double below) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  const TensorSpec& output = request.outputs[0];
  const int64_t elems = output.shape.elems(), each = output.dtype == DType::kF64 ? 2 : 4;
  if (elems == 0) return kernel;
  const int64_t draws = (elems + each - 1) / each;
  std::string loops;
  for (size_t i = 1; i < request.inputs.size(); ++i)
    loops += fmt::format("  loop = loop * 0x9E3779B9u + static_cast<unsigned>(*in{});\n", i);
  const DType numbers = output.dtype == DType::kF32 ? DType::kF32 : DType::kF64;
  request.module->add_shared(std::string(backends::texts::kRandom));
  kernel->add(
      request,
      fmt::format("const unsigned long long draw = blockIdx.x * {0}ull + threadIdx.x;\n"
                  "  if (draw >= {1}ull) return;\n"
                  "  unsigned loop = 0;\n{2}"
                  "  const Words words = philox(static_cast<unsigned>(draw), loop, "
                  "static_cast<unsigned>(in0[1]), {3}u, static_cast<unsigned long long>(in0[0]));\n"
                  "  for (unsigned i = 0; i < {4}u && draw * {4}u + i < {5}ull; ++i)\n"
                  "    out0[draw * {4}u + i] = {6}::of(words, i, {7}, {8}, {9});",
                  kThreads, draws, loops, static_cast<uint32_t>(request.attributes.get<int64_t>("draw")),
                  each, elems, distribution, number_text(a, numbers), number_text(b, numbers),
                  number_text(below, numbers)),
      row_of_blocks(request, (draws + kThreads - 1) / kThreads, kThreads));
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
