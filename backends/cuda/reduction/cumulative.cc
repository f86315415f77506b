// Cumulative ops and linear recurrences on a device.
#include "isochron/backends/cuda/factories.h"
#include "isochron/backends/cuda/reduction/axis_scan.h"

namespace isochron::ops {
namespace {

using graph::KernelRequest;

/// Floats are accumulated in f64, as on the CPU; integers wrap around.
std::string_view accumulator(DType dtype) { return is_floating(dtype) ? "double" : "unsigned long long"; }

/// Text that stores `value`, which has the accumulator's type, in the result.
std::string stored(std::string_view value, DType dtype) {
  return fmt::format("put(out0 + at, static_cast<{}>({}));", computed_type(dtype), value);
}

std::unique_ptr<graph::Kernel> scanned(const KernelRequest& request, std::string scan, std::string load,
                                       std::string store) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  add_axis_scan(*kernel, request,
                {AxisView(request.inputs[0].shape, axis_of(request)), request.attributes.get<bool>("reverse"),
                 std::move(scan), std::move(load), std::move(store)});
  return kernel;
}

std::string element_text(DType dtype) {
  return fmt::format("static_cast<{}>(widen(in0[at]))", accumulator(dtype));
}

/// The name of the state to store: after the element or, if `exclusive`, before it.
std::string_view so_far(const KernelRequest& request) {
  return request.attributes.get_or("exclusive", false) ? "before" : "after";
}

std::unique_ptr<graph::Kernel> extreme(const KernelRequest& request, bool largest) {
  return scanned(request, fmt::format("ExtremeScan<{}, {}>", storage_type(request.inputs[0].dtype), largest),
                 "{in0[at], static_cast<unsigned>(place)}",
                 "if (out0) out0[at] = after.value;\n        if (out1) out1[at] = after.position;");
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_cumulative_sum_cuda(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  return scanned(request, fmt::format("SumScan<{}>", accumulator(dtype)), element_text(dtype),
                 stored(so_far(request), dtype));
}
std::unique_ptr<graph::Kernel> prepare_cumulative_product_cuda(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (!is_floating(dtype))
    return scanned(request, "WholeProductScan", element_text(dtype), stored(so_far(request), dtype));
  return scanned(request, "ProductScan", fmt::format("Factors::one({})", element_text(dtype)),
                 stored(fmt::format("times(1.0, {})", so_far(request)), dtype));
}
std::unique_ptr<graph::Kernel> prepare_log_cumulative_sum_exp_cuda(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  return scanned(request, "LogSumExpScan", element_text(dtype), stored("after", dtype));
}
std::unique_ptr<graph::Kernel> prepare_cumulative_max_cuda(const KernelRequest& request) {
  return extreme(request, true);
}
std::unique_ptr<graph::Kernel> prepare_cumulative_min_cuda(const KernelRequest& request) {
  return extreme(request, false);
}
std::unique_ptr<graph::Kernel> prepare_linear_recurrence_cuda(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  return scanned(
      request, "RecurrenceScan",
      fmt::format("{{Factors::one({}), static_cast<double>(widen(in1[at]))}}", element_text(dtype)),
      stored("after.term", dtype));
}

}  // namespace isochron::ops
