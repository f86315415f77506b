#include "isochron/backends/cpu/shape/interpolation.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "isochron/backends/common/interpolation_axis.h"
#include "isochron/backends/cpu/common/axis_kernels.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;
using graph::KernelRequest;

constexpr int64_t kColumns = 256;  // columns summed at once, on the stack

/// T: the type of elements; S: the type of sums.
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

/// For matrices in which each row has a single weight of 1: copies elements of any dtype.
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

BandedMatrix interpolation_matrix(const element::InterpolationAxis& axis) {
  BandedMatrix matrix;
  for (int64_t r = 0; r < axis.to; ++r) {
    const element::InterpolationRow row = axis.row(r);
    double total = 0;
    for (int64_t k = 0; k < row.count; ++k) {
      matrix.weights.push_back(axis.weight(row, k));
      total += matrix.weights.back();
    }
    if (axis.antialias) {
      for (double& weight : std::span(matrix.weights).subspan(static_cast<size_t>(matrix.offsets.back())))
        weight /= total;
    }
    matrix.firsts.push_back(row.begin);
    matrix.offsets.push_back(static_cast<int64_t>(matrix.weights.size()));
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
  return make_banded_product(request, axis_of(request),
                             interpolation_matrix(interpolation_axis(request, false)));
}

std::unique_ptr<graph::Kernel> prepare_interpolate_transpose(const graph::KernelRequest& request) {
  const element::InterpolationAxis axis = interpolation_axis(request, true);
  return make_banded_product(request, axis_of(request), transposed(interpolation_matrix(axis), axis.from));
}

}  // namespace isochron::ops
