#include "isochron/ops/recurrent/recurrent_reference.h"

#include <cmath>

#include "isochron/core/base/rng.h"
#include "isochron/ops/recurrent/recurrent_layout.h"

namespace isochron::ops {
namespace {

using graph::Attributes;
using graph::InputSample;
using graph::OpCall;
using graph::OpDef;
using graph::OpSample;
using Values = std::vector<double>;

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

/// Accesses the call's tensors, one step of one row at a time.
class Sequence {
 public:
  Sequence(const OpCall& call, const std::vector<Values>& inputs, Rounding rounding)
      : layout(call.op, call.attributes),
        round(rounding),
        inputs_(inputs),
        reverse_(call.attributes.get<bool>("reverse")) {
    const Shape& x = call.inputs[layout.x()].shape;
    batch = static_cast<size_t>(x[0]);
    steps = static_cast<size_t>(x[1]);
    features = static_cast<size_t>(x[2]);
    units = static_cast<size_t>(call.inputs[layout.recurrent_kernel()].shape[0]);
    columns = (layout.lstm ? 4 : 3) * units;
  }
  size_t time(size_t s) const { return reverse_ ? steps - 1 - s : s; }
  bool active(size_t n, size_t t) const {
    return !layout.lengths || static_cast<double>(t) < inputs_[layout.lengths_input()][n];
  }
  double initial(size_t which, size_t n, size_t j) const {
    return layout.initial_state ? inputs_[layout.initial_hidden() + which][n * units + j] : 0.0;
  }
  double x(size_t n, size_t t, size_t c) const { return inputs_[layout.x()][(n * steps + t) * features + c]; }
  double kernel(size_t c, size_t column) const { return inputs_[layout.kernel()][c * columns + column]; }
  double recurrent(size_t i, size_t column) const {
    return inputs_[layout.recurrent_kernel()][i * columns + column];
  }
  /// x_t kernel + bias, and h recurrent kernel + its bias.
  double from_x(size_t n, size_t t, size_t column) const {
    double sum = inputs_[layout.bias()][column];
    for (size_t c = 0; c < features; ++c) sum += x(n, t, c) * kernel(c, column);
    return sum;
  }
  double from_h(const double* h, size_t column) const {
    double sum = layout.lstm ? 0.0 : inputs_[layout.bias()][columns + column];
    for (size_t i = 0; i < units; ++i) sum += round(h[i]) * recurrent(i, column);
    return sum;
  }

  RecurrentLayout layout;
  size_t batch, steps, features, units, columns;
  Rounding round;  // of the operands of products

 private:
  const std::vector<Values>& inputs_;
  bool reverse_;
};

/// Unit j's gates, next cell state and next h.
struct Unit {
  double gates[4];
  double c;
  double h;
};
Unit unit_of(const Sequence& q, size_t n, size_t t, const double* h, const double* c, size_t j) {
  const size_t u = q.units;
  double s[4] = {};
  if (q.layout.lstm) {
    for (size_t g = 0; g < 4; ++g) s[g] = q.from_x(n, t, g * u + j) + q.from_h(h, g * u + j);
    const double i = sigmoid_of(s[0]);
    const double f = sigmoid_of(s[1]);
    const double g = std::tanh(s[2]);
    const double o = sigmoid_of(s[3]);
    const double next = f * c[j] + i * g;
    return {{i, f, g, o}, next, o * std::tanh(next)};
  }
  const double z = sigmoid_of(q.from_x(n, t, j) + q.from_h(h, j));
  const double r = sigmoid_of(q.from_x(n, t, u + j) + q.from_h(h, u + j));
  const double from_h = q.from_h(h, 2 * u + j);
  const double new_h = std::tanh(q.from_x(n, t, 2 * u + j) + r * from_h);
  return {{z, r, new_h, from_h}, 0, z * h[j] + (1 - z) * new_h};
}

/// The data for the gradient of a step.
struct Undo {
  Values h, c;    // before
  Values gates;   // 4H
  Values cells;   // c after
  Values dh, dc;  // of the state after the step, then before it
};

/// Computes the gradients of the column sums from x and from h, which differ for a GRU's n, and the gradient
/// of the state before the step (in `undo`).
void undo_cell(const Sequence& q, Undo& undo, const double* d_gates, Values& dx_sums, Values& dh_sums) {
  const size_t u = q.units;
  for (size_t j = 0; j < u; ++j) {
    const double dh = undo.dh[j];
    const double* gate[4];
    double extra[4];
    for (size_t g = 0; g < 4; ++g) {
      gate[g] = &undo.gates[g * u + j];
      extra[g] = d_gates ? d_gates[g * u + j] : 0.0;
    }
    const auto slope = [](double y) { return y * (1 - y); };
    if (q.layout.lstm) {
      const double i = *gate[0], f = *gate[1], g = *gate[2], o = *gate[3];
      const double squashed = std::tanh(undo.cells[j]);
      const double dc = undo.dc[j] + dh * o * (1 - squashed * squashed);
      dx_sums[j] = (dc * g + extra[0]) * slope(i);
      dx_sums[u + j] = (dc * undo.c[j] + extra[1]) * slope(f);
      dx_sums[2 * u + j] = (dc * i + extra[2]) * (1 - g * g);
      dx_sums[3 * u + j] = (dh * squashed + extra[3]) * slope(o);
      undo.dc[j] = dc * f;
      undo.dh[j] = 0;
    } else {
      const double z = *gate[0], r = *gate[1], n = *gate[2], from_h = *gate[3];
      dx_sums[j] = (dh * (undo.h[j] - n) + extra[0]) * slope(z);
      dx_sums[2 * u + j] = (dh * (1 - z) + extra[2]) * (1 - n * n);
      dx_sums[u + j] = (dx_sums[2 * u + j] * from_h + extra[1]) * slope(r);
      undo.dh[j] = dh * z;
    }
  }
  dh_sums = dx_sums;
  for (size_t j = 0; !q.layout.lstm && j < u; ++j) {
    dh_sums[2 * u + j] = dx_sums[2 * u + j] * undo.gates[u + j] + (d_gates ? d_gates[3 * u + j] : 0.0);
  }
  for (double& sum : dx_sums) sum = q.round(sum);
  for (double& sum : dh_sums) sum = q.round(sum);
  for (size_t i = 0; i < u; ++i) {
    for (size_t k = 0; k < q.columns; ++k) undo.dh[i] += dh_sums[k] * q.recurrent(i, k);
  }
}

Values filled(Rng& rng, const Shape& shape, double low, double high) {
  Values values(static_cast<size_t>(shape.elems()));
  for (double& value : values) value = low + (high - low) * rng.uniform();
  return values;
}

struct Case {
  int64_t n, t, c, h;
  bool reverse, initial_state, lengths;
};
// More units and rows than fit in a vector and a tile, and fewer; no steps, no rows, no features.
const Case kCases[] = {{3, 4, 2, 5, false, false, false},  {4, 5, 3, 4, true, true, true},
                       {2, 3, 2, 3, true, false, false},   {5, 4, 1, 3, false, true, true},
                       {13, 2, 3, 19, false, true, false}, {2, 0, 3, 2, false, true, false},
                       {0, 2, 3, 2, false, false, false},  {2, 2, 0, 3, false, false, false}};

OpSample sample_of(const OpDef& forward, const Case& shape) {
  const bool lstm = forward.name == "lstm";
  const int64_t columns = (lstm ? 4 : 3) * shape.h;
  OpSample sample;
  sample.attributes = {
      {"reverse", shape.reverse}, {"initial_state", shape.initial_state}, {"lengths", shape.lengths}};
  sample.inputs = {{{shape.n, shape.t, shape.c}},
                   {{shape.c, columns}, -0.7, 0.7},
                   {{shape.h, columns}, -0.7, 0.7},
                   {lstm ? Shape{columns} : Shape{2, columns}, -0.5, 0.5}};
  if (shape.initial_state) {
    for (int i = 0; i < (lstm ? 2 : 1); ++i) sample.inputs.push_back({{shape.n, shape.h}, -1, 1});
  }
  if (shape.lengths) {
    std::vector<double> lengths;
    for (int64_t n = 0; n < shape.n; ++n)
      lengths.push_back(static_cast<double>((n * 2 + shape.t) % (shape.t + 1)));
    sample.inputs.push_back({{shape.n}, 0, 0, shape.reverse ? DType::kI32 : DType::kI64, lengths});
  }
  return sample;
}

}  // namespace

std::vector<Values> rounding_recurrent_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                                 const std::vector<Values>& inputs, Rounding round) {
  const Sequence q(call, inputs, round);
  std::vector<Values> result;
  for (const TensorSpec& spec : outputs) result.emplace_back(static_cast<size_t>(spec.shape.elems()));
  for (size_t n = 0; n < q.batch; ++n) {
    Values h(q.units), c(q.units);
    for (size_t j = 0; j < q.units; ++j) {
      h[j] = q.initial(0, n, j);
      if (q.layout.lstm) c[j] = q.initial(1, n, j);
    }
    for (size_t s = 0; s < q.steps; ++s) {
      const size_t t = q.time(s);
      const Values before = h;
      for (size_t j = 0; j < q.units; ++j) {
        if (q.active(n, t)) {
          const Unit unit = unit_of(q, n, t, before.data(), c.data(), j);
          h[j] = unit.h;
          c[j] = unit.c;
          result[RecurrentLayout::kSequence][(n * q.steps + t) * q.units + j] = h[j];
          for (size_t g = 0; g < 4; ++g) {
            result[q.layout.gates()][((t * q.batch + n) * 4 + g) * q.units + j] = unit.gates[g];
          }
        }
        if (q.layout.lstm) result[q.layout.cells()][(t * q.batch + n) * q.units + j] = c[j];
      }
    }
    for (size_t j = 0; j < q.units; ++j) {
      result[RecurrentLayout::kHidden][n * q.units + j] = h[j];
      if (q.layout.lstm) result[q.layout.cell()][n * q.units + j] = c[j];
    }
  }
  return result;
}

std::vector<Values> rounding_recurrent_gradient_reference(const OpCall& call,
                                                          std::span<const TensorSpec> outputs,
                                                          const std::vector<Values>& inputs, Rounding round) {
  const Sequence q(call, inputs, round);
  const size_t u = q.units;
  std::vector<Values> result;
  for (const TensorSpec& spec : outputs) result.emplace_back(static_cast<size_t>(spec.shape.elems()));
  const auto seed = [&](size_t of) -> const double* {
    const std::optional<size_t> index = q.layout.seed(of);
    return index ? inputs[*index].data() : nullptr;
  };
  const double* d_sequence = seed(RecurrentLayout::kSequence);
  const double* d_hidden = seed(RecurrentLayout::kHidden);
  const double* d_cell = q.layout.lstm ? seed(q.layout.cell()) : nullptr;
  const double* d_cells = q.layout.lstm ? seed(q.layout.cells()) : nullptr;
  const double* d_gates = seed(q.layout.gates());
  const Values& sequence = inputs[q.layout.saved_sequence()];
  const Values& gates = inputs[q.layout.saved_gates()];
  for (size_t n = 0; n < q.batch; ++n) {
    Undo undo{Values(u), Values(u), Values(4 * u), Values(u), Values(u), Values(u)};
    for (size_t j = 0; j < u; ++j) {
      if (d_hidden) undo.dh[j] = d_hidden[n * u + j];
      if (d_cell) undo.dc[j] = d_cell[n * u + j];
    }
    for (size_t s = q.steps; s-- > 0;) {
      const size_t t = q.time(s);
      const size_t row = t * q.batch + n;
      for (size_t j = 0; d_cells && j < u; ++j) undo.dc[j] += d_cells[row * u + j];
      if (!q.active(n, t)) continue;
      for (size_t j = 0; j < u; ++j) {
        if (d_sequence) undo.dh[j] += d_sequence[(n * q.steps + t) * u + j];
        const bool first = s == 0 || !q.active(n, q.time(s - 1));
        undo.h[j] = first ? q.initial(0, n, j) : sequence[(n * q.steps + q.time(s - 1)) * u + j];
        for (size_t g = 0; g < 4; ++g) undo.gates[g * u + j] = gates[(row * 4 + g) * u + j];
        if (!q.layout.lstm) continue;
        const Values& cells = inputs[q.layout.saved_cells()];
        undo.cells[j] = cells[row * u + j];
        undo.c[j] = s == 0 ? q.initial(1, n, j) : cells[(q.time(s - 1) * q.batch + n) * u + j];
      }
      Values dx_sums(q.columns), dh_sums;
      undo_cell(q, undo, d_gates ? d_gates + row * 4 * u : nullptr, dx_sums, dh_sums);
      for (size_t k = 0; k < q.columns; ++k) {
        for (size_t c = 0; c < q.features; ++c) {
          result[0][(n * q.steps + t) * q.features + c] += dx_sums[k] * q.kernel(c, k);
          result[1][c * q.columns + k] += dx_sums[k] * q.x(n, t, c);
        }
        for (size_t i = 0; i < u; ++i) result[2][i * q.columns + k] += dh_sums[k] * q.round(undo.h[i]);
        result[3][k] += dx_sums[k];
        if (!q.layout.lstm) result[3][q.columns + k] += dh_sums[k];
      }
    }
    for (size_t j = 0; q.layout.initial_state && j < u; ++j) {
      result[4][n * u + j] = undo.dh[j];
      if (q.layout.lstm) result[5][n * u + j] = undo.dc[j];
    }
  }
  return result;
}

std::vector<Values> recurrent_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                        const std::vector<Values>& inputs) {
  return rounding_recurrent_reference(call, outputs, inputs, [](double x) { return x; });
}
std::vector<Values> recurrent_gradient_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                                 const std::vector<Values>& inputs) {
  return rounding_recurrent_gradient_reference(call, outputs, inputs, [](double x) { return x; });
}

std::vector<OpSample> recurrent_samples(const OpDef& forward) {
  std::vector<OpSample> samples;
  for (const Case& shape : kCases) samples.push_back(sample_of(forward, shape));
  return samples;
}

std::vector<OpSample> recurrent_gradient_samples(const OpDef& forward) {
  std::vector<OpSample> samples;
  int64_t which = 0;
  for (const Case& shape : kCases) {
    Rng rng(static_cast<uint64_t>(29 + which));
    OpSample base = sample_of(forward, shape);
    std::vector<TensorSpec> specs;
    std::vector<Values> values;
    for (InputSample& input : base.inputs) {
      if (input.values.empty()) input.values = filled(rng, input.shape, input.low, input.high);
      specs.push_back({input.dtype.value_or(DType::kF64), input.shape});
      values.push_back(input.values);
    }
    const std::vector<TensorSpec> outputs = graph::infer_outputs(forward, specs, base.attributes);
    const std::vector<Values> given = recurrent_reference({forward, specs, base.attributes}, outputs, values);
    OpSample sample;
    sample.attributes = base.attributes;
    Dims seeds;  // a different subset for each case; the first has all
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (which > 0 && (static_cast<size_t>(which) + o) % 3 == 0) continue;
      seeds.push_back(static_cast<int64_t>(o));
      sample.inputs.push_back({outputs[o].shape, -1, 1});
    }
    sample.attributes.set("seeds", seeds);
    sample.inputs.insert(sample.inputs.end(), base.inputs.begin(), base.inputs.end());
    const RecurrentLayout layout(forward, base.attributes);
    sample.inputs.push_back({outputs[0].shape, 0, 0, {}, given[0]});
    sample.inputs.push_back({outputs[layout.gates()].shape, 0, 0, {}, given[layout.gates()]});
    if (layout.lstm) sample.inputs.push_back({outputs[3].shape, 0, 0, {}, given[3]});
    samples.push_back(std::move(sample));
    ++which;
  }
  return samples;
}

}  // namespace isochron::ops
