#include "isochron/backends/cpu/shape/interpolation.h"

#include <cmath>
#include <cstring>

#include "isochron/backends/cpu/common/axis_kernels.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;
using graph::KernelRequest;

constexpr int64_t kColumns = 256;  // summed at once, on the stack

double linear_filter(double x) { return std::max(0.0, 1 - std::abs(x)); }

/// Keys, "Cubic convolution interpolation for digital image processing", 1981, with his parameter a.
double cubic_filter(double distance, double a = -0.75) {
  const double x = std::abs(distance);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

/// Where row `r` lies among the `from` elements, whose centres are 0, 1, ...
double source_position(int64_t r, int64_t from, int64_t to, bool align_corners) {
  const double row = static_cast<double>(r);
  if (!align_corners) return (row + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
  return to == 1 ? 0 : row * static_cast<double>(from - 1) / static_cast<double>(to - 1);
}

/// Adds a row of weights at first, first + 1, ... whose columns are moved into [0, columns).
void append_clamped(BandedMatrix& matrix, int64_t first, const std::vector<double>& weights,
                    int64_t columns) {
  const auto clamped = [columns](int64_t column) { return std::clamp<int64_t>(column, 0, columns - 1); };
  const int64_t begin = clamped(first);
  const int64_t end = clamped(first + static_cast<int64_t>(weights.size()) - 1) + 1;
  std::vector<double> sums(static_cast<size_t>(end - begin));
  for (size_t k = 0; k < weights.size(); ++k)
    sums[static_cast<size_t>(clamped(first + static_cast<int64_t>(k)) - begin)] += weights[k];
  matrix.firsts.push_back(begin);
  matrix.weights.insert(matrix.weights.end(), sums.begin(), sums.end());
  matrix.offsets.push_back(static_cast<int64_t>(matrix.weights.size()));
}

/// A filter as wide as the areas that fall into one; beyond the edge there is nothing, so weights are made to
/// sum to 1.
void append_antialiased(BandedMatrix& matrix, double position, double scale, bool cubic, int64_t columns) {
  const double support = (cubic ? 2.0 : 1.0) * scale;
  const int64_t begin =
      std::max<int64_t>(0, static_cast<int64_t>(std::floor(position + 0.5 - support + 0.5)));
  const int64_t end = std::min(columns, static_cast<int64_t>(std::floor(position + 0.5 + support + 0.5)));
  std::vector<double> weights;
  double total = 0;
  for (int64_t k = begin; k < end; ++k) {
    const double distance = (static_cast<double>(k) - position) / scale;
    weights.push_back(cubic ? cubic_filter(distance, -0.5) : linear_filter(distance));
    total += weights.back();
  }
  for (double& weight : weights) weight /= total;
  append_clamped(matrix, begin, weights, columns);
}

/// T: the dtype; S: what it is summed in.
template <typename T, typename S>
class BandedProductKernel final : public graph::Kernel {
 public:
  BandedProductKernel(const KernelRequest& request, int axis, const BandedMatrix& matrix)
      : from_(request.inputs[0].shape, axis),
        firsts_(matrix.firsts),
        offsets_(matrix.offsets),
        weights_(matrix.weights.begin(), matrix.weights.end()) {
    threads_ = request.outputs[0].shape.elems() >= 2 * kElemsPerThread ? request.threads : 1;
  }

  void run(const KernelArgs& args) override {
    const T* in = reinterpret_cast<const T*>(args.inputs[0]);
    T* out = reinterpret_cast<T*>(args.outputs[0]);
    const int64_t rows = static_cast<int64_t>(firsts_.size());
    for_columns(threads_, from_.outer * rows, from_.inner, kColumns,
                [&](int64_t row, int64_t begin, int64_t end) {
                  const size_t r = static_cast<size_t>(row % rows);
                  const T* block = in + (row / rows * from_.extent + firsts_[r]) * from_.inner;
                  S sums[kColumns];
                  std::fill_n(sums, end - begin, S(0));
                  for (int64_t k = offsets_[r]; k < offsets_[r + 1]; ++k, block += from_.inner) {
                    const S weight = weights_[static_cast<size_t>(k)];
                    for (int64_t i = begin; i < end; ++i)
                      sums[i - begin] += weight * static_cast<S>(widen(block[i]));
                  }
                  for (int64_t i = begin; i < end; ++i) out[row * from_.inner + i] = T(sums[i - begin]);
                });
  }

 private:
  AxisView from_;
  std::vector<int64_t> firsts_;
  std::vector<int64_t> offsets_;
  std::vector<S> weights_;
  int threads_ = 1;
};

/// Where each row has the weight 1 once: rows are copied, whatever their dtype.
class SelectKernel final : public graph::Kernel {
 public:
  SelectKernel(const KernelRequest& request, int axis, const BandedMatrix& matrix)
      : from_(request.inputs[0].shape, axis),
        firsts_(matrix.firsts),
        bytes_(static_cast<size_t>(from_.inner) * dtype_size(request.inputs[0].dtype)) {
    threads_ = request.outputs[0].shape.elems() >= 2 * kElemsPerThread ? request.threads : 1;
  }

  void run(const KernelArgs& args) override {
    const int64_t rows = static_cast<int64_t>(firsts_.size());
    if (bytes_ == 0) return;
    parallel_for(threads_, from_.outer * rows, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t source = row / rows * from_.extent + firsts_[static_cast<size_t>(row % rows)];
        std::memcpy(args.outputs[0] + static_cast<size_t>(row) * bytes_,
                    args.inputs[0] + static_cast<size_t>(source) * bytes_, bytes_);
      }
    });
  }

 private:
  AxisView from_;
  std::vector<int64_t> firsts_;
  size_t bytes_;
  int threads_ = 1;
};

bool selects(const BandedMatrix& matrix) {
  for (int64_t r = 0; r < matrix.rows(); ++r) {
    if (matrix.offsets[static_cast<size_t>(r) + 1] != r + 1) return false;
  }
  return std::all_of(matrix.weights.begin(), matrix.weights.end(), [](double weight) { return weight == 1; });
}

}  // namespace

BandedMatrix interpolation_matrix(int64_t from, int64_t to, const ResizeOptions& options) {
  BandedMatrix matrix;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const bool cubic = options.interpolation == Interpolation::kCubic;
  for (int64_t r = 0; r < to; ++r) {
    const double position = source_position(r, from, to, options.align_corners);
    if (options.interpolation == Interpolation::kNearest) {
      append_clamped(matrix, static_cast<int64_t>(std::floor(position + 0.5)), {1.0}, from);
      continue;
    }
    if (options.antialias) {
      append_antialiased(matrix, position, std::max(scale, 1.0), cubic, from);
      continue;
    }
    const double below = std::floor(position);
    const double rest = position - below;
    const int64_t first = static_cast<int64_t>(below) - (cubic ? 1 : 0);
    append_clamped(matrix, first,
                   cubic ? std::vector{cubic_filter(rest + 1), cubic_filter(rest), cubic_filter(1 - rest),
                                       cubic_filter(2 - rest)}
                         : std::vector{1 - rest, rest},
                   from);
  }
  return matrix;
}

BandedMatrix transposed(const BandedMatrix& matrix, int64_t columns) {
  BandedMatrix result;
  const auto width = [&](size_t row) { return matrix.offsets[row + 1] - matrix.offsets[row]; };
  size_t begin = 0;
  for (int64_t column = 0; column < columns; ++column) {
    while (begin < matrix.firsts.size() && matrix.firsts[begin] + width(begin) <= column) ++begin;
    size_t end = begin;
    for (; end < matrix.firsts.size() && matrix.firsts[end] <= column; ++end) {
      const int64_t k = column - matrix.firsts[end];
      result.weights.push_back(k < width(end) ? matrix.weights[static_cast<size_t>(matrix.offsets[end] + k)]
                                              : 0.0);
    }
    result.firsts.push_back(static_cast<int64_t>(begin));
    result.offsets.push_back(static_cast<int64_t>(result.weights.size()));
  }
  return result;
}

std::unique_ptr<graph::Kernel> make_banded_product(const KernelRequest& request, int axis,
                                                   BandedMatrix matrix) {
  if (selects(matrix)) return std::make_unique<SelectKernel>(request, axis, matrix);
  return dispatch_dtype(request.inputs[0].dtype, [&]<typename T>(T) -> std::unique_ptr<graph::Kernel> {
    if constexpr (std::is_integral_v<T>) {
      fail(ErrorCode::kDtypeMismatch, request.op.name, "no kernel for {}", dtype_name(dtype_of<T>));
    } else {
      return std::make_unique<BandedProductKernel<T, std::conditional_t<half_type<T>, float, T>>>(
          request, axis, matrix);
    }
  });
}

std::unique_ptr<graph::Kernel> prepare_interpolate(const graph::KernelRequest& request) {
  const int axis = static_cast<int>(request.attributes.get<int64_t>("axis"));
  return make_banded_product(
      request, axis,
      interpolation_matrix(request.inputs[0].shape[axis], request.outputs[0].shape[axis],
                           resize_options(request.attributes, request.op.name)));
}

std::unique_ptr<graph::Kernel> prepare_interpolate_transpose(const graph::KernelRequest& request) {
  const int axis = static_cast<int>(request.attributes.get<int64_t>("axis"));
  const int64_t extent = request.outputs[0].shape[axis];
  const BandedMatrix forward = interpolation_matrix(extent, request.inputs[0].shape[axis],
                                                    resize_options(request.attributes, request.op.name));
  return make_banded_product(request, axis, transposed(forward, extent));
}

}  // namespace isochron::ops
