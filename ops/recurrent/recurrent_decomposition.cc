#include "isochron/ops/recurrent/recurrent_decomposition.h"

#include <algorithm>
#include <optional>

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/recurrent/recurrent_layout.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::ops {
namespace {

/// Accesses the steps of a sequence, with its order and its rows' lengths.
class Steps {
 public:
  /// `of` is a tensor (N, T, ...); if `lengths` is undefined, all steps are valid.
  Steps(const Tensor& of, bool reverse, const Tensor& lengths)
      : rows_(of.extent(0)), count_(of.extent(1)), reverse_(reverse), dtype_(of.dtype()) {
    if (lengths.defined()) lengths_ = cast(lengths, DType::kI64);
  }

  int64_t rows() const { return rows_; }
  int64_t count() const { return count_; }
  /// The time of step number `step`.
  int64_t time(int64_t step) const { return reverse_ ? count_ - 1 - step : step; }
  /// The rows of step `step`, (N, C), of a tensor (N, T, C); `at_leading`: of a tensor (T, N, C).
  Tensor at(const Tensor& sequence, int64_t step) const {
    return reshape(narrow(sequence, 1, time(step), 1), {rows_, sequence.extent(2)});
  }
  Tensor at_leading(const Tensor& sequence, int64_t step) const {
    return reshape(narrow(sequence, 0, time(step), 1), {rows_, sequence.extent(2)});
  }
  /// `there` for rows whose length includes the step, `beyond` for the others.
  Tensor within(int64_t step, const Tensor& there, const Tensor& beyond) const {
    if (!lengths_.defined()) return there;
    const Tensor now = constant(full({1}, static_cast<double>(time(step)), DType::kI64));
    return where(reshape(less(now, lengths_), {rows_, 1}), there, beyond);
  }
  /// Stacks one tensor per step to (N, T, C), or to (T, N, C) if `leading`.
  Tensor stacked(const std::vector<Tensor>& by_step, bool leading, int64_t columns) const {
    if (count_ == 0) {
      return constant(zeros(leading ? Shape{0, rows_, columns} : Shape{rows_, 0, columns}, dtype_));
    }
    std::vector<Tensor> by_time = by_step;
    if (reverse_) std::ranges::reverse(by_time);
    return stack(by_time, leading ? 0 : 1);
  }

 private:
  int64_t rows_, count_;
  bool reverse_;
  DType dtype_;
  Tensor lengths_;
};

}  // namespace

RecurrentStep recurrent_step(bool lstm, const Tensor& from_x, const Tensor& h, const Tensor& c,
                             const Tensor& recurrent_kernel, const Tensor& bias) {
  if (lstm) {
    const std::vector<Tensor> sums = split(from_x + matmul(h, recurrent_kernel) + bias, 4, -1);
    const Tensor i = sigmoid(sums[0]);
    const Tensor f = sigmoid(sums[1]);
    const Tensor g = tanh(sums[2]);
    const Tensor o = sigmoid(sums[3]);
    const Tensor next = f * c + i * g;
    return {o * tanh(next), next, concatenate({i, f, g, o}, -1)};
  }
  const std::vector<Tensor> biases = split(bias, 2);
  const std::vector<Tensor> input = split(from_x + biases[0], 3, -1);
  const std::vector<Tensor> state = split(matmul(h, recurrent_kernel) + biases[1], 3, -1);
  const Tensor z = sigmoid(input[0] + state[0]);
  const Tensor r = sigmoid(input[1] + state[1]);
  const Tensor n = tanh(input[2] + r * state[2]);
  return {z * h + (1.0 - z) * n, Tensor(), concatenate({z, r, n, state[2]}, -1)};
}

std::vector<Tensor> decompose_recurrent(const RecurrentLayout& layout, bool reverse,
                                        std::span<const Tensor> inputs) {
  const Tensor &x = inputs[0], &recurrent_kernel = inputs[2], &bias = inputs[3];
  const Steps steps(x, reverse, layout.lengths ? inputs.back() : Tensor());
  const int64_t units = recurrent_kernel.extent(0);
  const Tensor zero = constant(zeros({steps.rows(), units}, x.dtype())), none = scalar(0, x.dtype());
  Tensor h = layout.initial_state ? inputs[4] : zero;
  Tensor c = layout.initial_state && layout.lstm ? inputs[5] : zero;
  const Tensor from_x = matmul(x, inputs[1]);
  std::vector<Tensor> sequence, cells, gates;
  for (int64_t s = 0; s < steps.count(); ++s) {
    const RecurrentStep step = recurrent_step(layout.lstm, steps.at(from_x, s), h, c, recurrent_kernel, bias);
    sequence.push_back(steps.within(s, step.h, none));
    gates.push_back(steps.within(s, step.gates, none));
    h = steps.within(s, step.h, h);
    if (!layout.lstm) continue;
    c = steps.within(s, step.c, c);
    cells.push_back(c);
  }
  const Tensor all = steps.stacked(sequence, false, units);
  const Tensor all_gates = steps.stacked(gates, true, 4 * units);
  if (!layout.lstm) return {all, h, all_gates};
  return {all, h, c, steps.stacked(cells, true, units), all_gates};
}

}  // namespace isochron::ops
