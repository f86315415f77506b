#include "isochron/ops/matmul/matmul.h"

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/matmul/matmul_geometry.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron {
namespace ops {
namespace {

struct MatmulShape {
  int64_t m, n, k;
  Shape batch;
};

MatmulShape matmul_shape(const OpCall& call) {
  require_floating(call, 0);
  require_same_dtype(call);
  require_min_rank(call, 0, 2);
  require_min_rank(call, 1, 2);
  const bool ta = call.attributes.get<bool>("transpose_a");
  const bool tb = call.attributes.get<bool>("transpose_b");
  const Shape& a = call.inputs[0].shape;
  const Shape& b = call.inputs[1].shape;
  const int ra = a.rank();
  const int rb = b.rank();
  const int64_t ka = a[ra - (ta ? 2 : 1)];
  const int64_t kb = b[rb - (tb ? 1 : 2)];
  if (ka != kb) {
    const bool would_fit = ka == b[rb - (tb ? 2 : 1)];
    fail(ErrorCode::kShapeMismatch, call.op.name, "inner dimensions differ: {}{} x {}{}{}", a.str(),
         ta ? "^T" : "", b.str(), tb ? "^T" : "", would_fit ? "; transpose the second operand?" : "");
  }
  try {
    return {a[ra - (ta ? 1 : 2)], b[rb - (tb ? 2 : 1)], ka,
            broadcast_shapes(matmul_batch(a), matmul_batch(b), call.op.name)};
  } catch (const Error&) {
    fail(ErrorCode::kShapeMismatch, call.op.name, "the batch axes of {} x {} do not broadcast: {} and {}",
         a.str(), b.str(), matmul_batch(a).str(), matmul_batch(b).str());
  }
}

std::vector<TensorSpec> infer_matmul(const OpCall& call) {
  const MatmulShape s = matmul_shape(call);
  Shape shape = s.batch;
  shape.push_back(s.m);
  shape.push_back(s.n);
  return {{call.inputs[0].dtype, shape}};
}

double matmul_flops(const OpCall& call) {
  const MatmulShape s = matmul_shape(call);
  return 2.0 * static_cast<double>(s.batch.elems()) * static_cast<double>(s.m) * static_cast<double>(s.n) *
         static_cast<double>(s.k);
}

std::vector<Tensor> matmul_gradient(const GradientCall& call) {
  const bool ta = call.attributes.get<bool>("transpose_a");
  const bool tb = call.attributes.get<bool>("transpose_b");
  const Tensor& a = call.inputs[0];
  const Tensor& b = call.inputs[1];
  const Tensor& g = call.output_gradients[0];
  std::vector<Tensor> result(2);
  if (call.needed[0]) {
    const Tensor da = ta ? matmul(b, g, tb, true) : matmul(g, b, false, !tb);
    result[0] = sum_to(da, a.shape());
  }
  if (call.needed[1] && b.rank() == 2 && !ta) {  // a single product over all rows of a
    const Tensor rows = as_rows(a);
    result[1] = tb ? matmul(as_rows(g), rows, true) : matmul(rows, as_rows(g), true);
  } else if (call.needed[1]) {
    const Tensor db = tb ? matmul(g, a, true, ta) : matmul(a, g, !ta, false);
    result[1] = sum_to(db, b.shape());
  }
  return result;
}

std::vector<std::vector<double>> matmul_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                                  const std::vector<std::vector<double>>& inputs) {
  const MatmulShape s = matmul_shape(call);
  const bool ta = call.attributes.get<bool>("transpose_a");
  const bool tb = call.attributes.get<bool>("transpose_b");
  const auto batch_offset = [&](const Shape& shape, int64_t index) {
    const Shape lead = matmul_batch(shape);
    const Strides strides = broadcast_strides(lead, contiguous_strides(lead), s.batch);
    int64_t offset = 0;
    for (int axis = s.batch.rank() - 1; axis >= 0; --axis) {
      offset += index % s.batch[axis] * strides[axis];
      index /= s.batch[axis];
    }
    return offset;
  };
  std::vector<double> result(static_cast<size_t>(outputs[0].shape.elems()));
  size_t out = 0;
  for (int64_t batch = 0; batch < s.batch.elems(); ++batch) {
    const double* a = inputs[0].data() + batch_offset(call.inputs[0].shape, batch) * s.m * s.k;
    const double* b = inputs[1].data() + batch_offset(call.inputs[1].shape, batch) * s.k * s.n;
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        double total = 0;
        for (int64_t p = 0; p < s.k; ++p) {
          total += (ta ? a[p * s.m + i] : a[i * s.k + p]) * (tb ? b[j * s.k + p] : b[p * s.n + j]);
        }
        result[out++] = total;
      }
    }
  }
  return {result};
}

}  // namespace

void register_matmul(graph::Registry& registry) {
  OpDef op;
  op.name = "matmul";
  op.summary = "matrix product over the last two axes";
  op.min_inputs = op.max_inputs = 2;
  op.infer = infer_matmul;
  op.gradient = matmul_gradient;
  op.precision.rule = graph::PrecisionRule::kLow;
  op.flops = matmul_flops;
  op.dtypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};
  op.tolerance = 30;  // sums of up to 300 products
  op.reference = matmul_reference;
  const auto flags = [](bool ta, bool tb) { return Attributes{{"transpose_a", ta}, {"transpose_b", tb}}; };
  op.samples = {
      {{{{32, 100}}, {{100, 10}}}, flags(false, false)}, {{{{3, 4}}, {{5, 4}}}, flags(false, true)},
      {{{{4, 3}}, {{4, 5}}}, flags(true, false)},        {{{{4, 3}}, {{5, 4}}}, flags(true, true)},
      {{{{1, 7}}, {{7, 1}}}, flags(false, false)},       {{{{2, 3, 4}}, {{2, 4, 5}}}, flags(false, false)},
      {{{{2, 3, 4}}, {{4, 5}}}, flags(false, false)},    {{{{3, 1, 4, 3}}, {{2, 4, 5}}}, flags(true, false)},
      {{{{65, 130}}, {{130, 90}}}, flags(false, false)}, {{{{130, 65}}, {{90, 130}}}, flags(true, true)},
      {{{{0, 4}}, {{4, 3}}}, flags(false, false)},       {{{{2, 0}}, {{0, 3}}}, flags(false, false)}};
  op.errors = {
      {{{DType::kF32, {32, 100}}, {DType::kF32, {10, 1}}}, flags(false, false), ErrorCode::kShapeMismatch},
      {{{DType::kF32, {2, 3, 4}}, {DType::kF32, {3, 4, 5}}}, flags(false, false), ErrorCode::kShapeMismatch},
      {{{DType::kF32, {4}}, {DType::kF32, {4, 5}}}, flags(false, false), ErrorCode::kShapeMismatch},
      {{{DType::kF32, {2, 2}}, {DType::kF64, {2, 2}}}, flags(false, false), ErrorCode::kDtypeMismatch},
      {{{DType::kI32, {2, 2}}, {DType::kI32, {2, 2}}}, flags(false, false), ErrorCode::kDtypeMismatch}};
  registry.add(std::move(op));
}

}  // namespace ops

Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  static const graph::OpDef& op = ops::row("matmul");
  const bool row = a.defined() && a.rank() == 1, column = b.defined() && b.rank() == 1;
  if (!row && !column)
    return graph::apply_one(op, {a, b}, {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}});
  const Tensor product = matmul(row ? reshape(a, {1, -1}) : a, column ? reshape(b, {-1, 1}) : b,
                                !row && transpose_a, !column && transpose_b);
  Axes added;
  if (row) added.push_back(-2);
  if (column) added.push_back(-1);
  return squeeze(product, added);
}

}  // namespace isochron
