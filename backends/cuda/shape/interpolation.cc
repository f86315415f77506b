// Interpolation along an axis on a device: one launch writes a table of weights, the last launch computes the
// sums with it.
#include "isochron/backends/common/interpolation_axis.h"
#include "isochron/backends/cuda/common/block_sizes.h"
#include "isochron/backends/cuda/common/launches.h"
#include "isochron/backends/cuda/common/texts.h"
#include "isochron/backends/cuda/factories.h"

namespace isochron::ops {
namespace {

using element::InterpolationAxis;
using element::kRowThreads;
using graph::KernelRequest;

constexpr size_t kSpanBytes = 2 * sizeof(unsigned);  // Span of interpolation_text.h

std::string axis_text(const InterpolationAxis& axis) {
  return fmt::format("constexpr InterpolationAxis axis = {{{}ll, {}ll, {}, {}, {}, {}, {}}};", axis.from,
                     axis.to, axis.nearest, axis.cubic, axis.area, axis.align_corners, axis.antialias);
}

/// A call that computes weighted sums. Its workspace holds the span of each interpolated element, for the
/// transpose also the span of rows that use each element, and the weights.
class WeightedSums {
 public:
  WeightedSums(const KernelRequest& request, const InterpolationAxis& axis, bool transposed)
      : request_(request),
        axis_(axis),
        transposed_(transposed),
        rows_(counted(request, axis.to)),
        columns_(counted(request, axis.from)),
        width_(counted(request, axis.most_count())),
        dtype_(is_half(request.inputs[0].dtype) ? DType::kF32 : request.inputs[0].dtype) {
    for (const std::string_view text :
         {backends::texts::kRows, backends::texts::kInterpolationWeights, backends::texts::kInterpolation})
      request.module->add_shared(std::string(text));
  }

  void add_to(LaunchKernel& kernel) const {
    kernel.need_workspace(weights_at() + static_cast<size_t>(rows_) * width_ * dtype_size(dtype_));
    add_table(kernel);
    const AxisView out(request_.outputs[0].shape, axis_of(request_));
    kernel.add_loop(
        request_, request_.outputs[0].shape.elems(),
        fmt::format("{}\n  const unsigned at = static_cast<unsigned>(i / {inner}ll % {extent}ll);\n"
                    "  put(out0 + i, {sum});",
                    tables(), fmt::arg("inner", out.inner), fmt::arg("extent", out.extent),
                    fmt::arg("sum", sum_text(out))));
  }

 private:
  size_t taken_at() const { return rows_ * kSpanBytes; }
  size_t weights_at() const { return taken_at() + (transposed_ ? columns_ * kSpanBytes : 0); }

  std::string tables() const {
    return fmt::format(
               "Span* const spans = static_cast<Span*>(workspace);\n"
               "  {0}* const weights = reinterpret_cast<{0}*>(static_cast<char*>(workspace) + {1});",
               computed_type(dtype_), weights_at()) +
           (transposed_ ? fmt::format("\n  Span* const taken = spans + {}u;", rows_) : "");
  }

  void add_table(LaunchKernel& kernel) const {
    const std::vector<Slot> none;
    if (axis_.antialias) {
      kernel.add(request_,
                 fmt::format("// threads meet\n  {}\n  {}\n"
                             "  write_normalized_weights(axis, {}u, spans, weights);",
                             axis_text(axis_), tables(), width_),
                 row_of_blocks(request_, rows_, kRowThreads), none);
    } else {
      kernel.add_loop(request_, rows_,
                      fmt::format("{}\n  {}\n  write_weights(axis, i, {}u, spans, weights);",
                                  axis_text(axis_), tables(), width_),
                      none);
    }
    if (!transposed_) return;
    kernel.add_loop(request_, columns_,
                    fmt::format("{}\n  taken[i] = rows_that_take(spans, {}u, static_cast<unsigned>(i));",
                                tables(), rows_),
                    none);
  }

  std::string sum_text(const AxisView& out) const {
    const int64_t extent = request_.inputs[0].shape[axis_of(request_)];
    const std::string x = fmt::format("in0 + i / {}ll * {}ll + i % {}ll", out.extent * out.inner,
                                      extent * out.inner, out.inner);
    return transposed_ ? fmt::format("interpolated_back({}, {}ull, at, taken[at], spans, {}u, weights)", x,
                                     out.inner, width_)
                       : fmt::format("interpolated({}, {}ull, spans[at], weights + at * {}ull)", x, out.inner,
                                     width_);
  }

  const KernelRequest& request_;
  const InterpolationAxis axis_;
  const bool transposed_;
  const unsigned rows_, columns_, width_;
  const DType dtype_;  // dtype of the weights
};

/// Copies elements of any dtype unchanged.
void add_selection(LaunchKernel& kernel, const KernelRequest& request, const InterpolationAxis& axis) {
  request.module->add_shared(std::string(backends::texts::kInterpolationWeights));
  const AxisView out(request.outputs[0].shape, axis_of(request));
  kernel.add_loop(
      request, request.outputs[0].shape.elems(),
      fmt::format("{}\n  const long long from = axis.row(i / {inner}ll % {extent}ll).begin;\n"
                  "  out0[i] = in0[(i / {whole}ll * {source}ll + from) * {inner}ll + i % {inner}ll];",
                  axis_text(axis), fmt::arg("inner", out.inner), fmt::arg("extent", out.extent),
                  fmt::arg("whole", out.extent * out.inner), fmt::arg("source", axis.from)),
      moved_type);
}

std::unique_ptr<graph::Kernel> prepare(const KernelRequest& request, bool transposed) {
  const InterpolationAxis axis = interpolation_axis(request, transposed);
  auto kernel = std::make_unique<LaunchKernel>(request);
  if (request.outputs[0].shape.elems() == 0) return kernel;
  if (axis.nearest && !transposed) {
    add_selection(*kernel, request, axis);
  } else {
    WeightedSums(request, axis, transposed).add_to(*kernel);
  }
  return kernel;
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_interpolate_cuda(const KernelRequest& request) {
  return prepare(request, false);
}
std::unique_ptr<graph::Kernel> prepare_interpolate_transpose_cuda(const KernelRequest& request) {
  return prepare(request, true);
}

}  // namespace isochron::ops
