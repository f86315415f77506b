// top_k on a device: the first elements of each sorted line.
#include "isochron/backends/common/axis_view.h"
#include "isochron/backends/cuda/factories.h"
#include "isochron/backends/cuda/reduction/line_sort.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_top_k_cuda(const graph::KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  const DType dtype = request.inputs[0].dtype;
  const AxisView view(request.inputs[0].shape, axis_of(request));
  LineSort sort;
  sort.lines = view.outer * view.inner;
  sort.count = view.extent;
  sort.kept = request.attributes.get<int64_t>("k");
  sort.wide = dtype == DType::kF64 || dtype == DType::kI64;
  const std::string line =
      fmt::format("in0[(line / {0}ull * {1}ull + {{}}) * {0}ull + line % {0}ull]", view.inner, view.extent);
  sort.load = fmt::format("{0}::of({1}order_key(widen({2})), static_cast<unsigned>(place))", sort.entry(),
                          request.attributes.get<bool>("largest") ? "~" : "",
                          fmt::format(fmt::runtime(line), "place"));
  sort.store = fmt::format(
      "const unsigned long long to = (line / {0}ull * {1}ull + place) * {0}ull + line % {0}ull;\n"
      "    if (out0) out0[to] = {2};\n    if (out1) out1[to] = entry.position();",
      view.inner, sort.kept, fmt::format(fmt::runtime(line), "entry.position()"));
  add_line_sort(*kernel, request, sort);
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_searchsorted_cuda(const graph::KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  const TensorSpec &sorted = request.inputs[0], &values = request.inputs[1];
  if (values.shape.elems() == 0) return kernel;
  kernel->add_loop(
      request, values.shape.elems(),
      fmt::format("const auto value = widen(in1[i]);\n"
                  "  unsigned long long low = 0, high = {0}ull;\n"
                  "  while (low < high) {{\n"
                  "    const unsigned long long middle = (low + high) / 2;\n"
                  "    const auto x = widen(in0[i / {1}ull * {0}ull + middle]);\n"
                  "    if ({2}) low = middle + 1;\n"
                  "    else high = middle;\n"
                  "  }}\n"
                  "  out0[i] = low;",
                  sorted.shape.back(), values.shape.back(),
                  request.attributes.get<bool>("right") ? "x <= value || value != value"
                                                        : "x < value || (value != value && x == x)"));
  return kernel;
}

}  // namespace isochron::ops
