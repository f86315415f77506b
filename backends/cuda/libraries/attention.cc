// Attention by cuDNN. It is described by basic operations, which the library recognizes as attention.
#include "isochron/backends/cuda/libraries/attention.h"

#ifdef ISOCHRON_CUDA
#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <limits>
#include <mutex>

#include "isochron/backends/cuda/libraries/cudnn-inl.h"
#endif

namespace isochron::cuda {

#ifndef ISOCHRON_CUDA

AttentionLibrary* machine_attention() { return nullptr; }
std::unique_ptr<AttentionLibrary> attention_for(const std::string&) { return nullptr; }

#else

namespace {

using cudnn::Descriptor;

/// The layout of a tensor with four axes: sample, head, and the two axes of a head's matrix.
struct Layout {
  std::array<int64_t, 4> extents, strides;

  /// The layout of the transposed matrices.
  Layout transposed() const {
    Layout other = *this;
    std::swap(other.extents[2], other.extents[3]);
    std::swap(other.strides[2], other.strides[3]);
    return other;
  }
};

struct Tensor {
  const Descriptor* descriptor;
  Layout layout;
};

/// Builds a graph. The result of an operation is a value within the graph unless a destination is given.
class Builder {
 public:
  Builder(const cudnn::Planner& planner, size_t tensors) : planner_(planner), graph_{.tensors = tensors} {}

  /// Tensor `index` of the call.
  Tensor argument(size_t index, cudnnDataType_t type, const Layout& layout) {
    return keep(tensor(static_cast<int64_t>(index) + 1, type, layout), layout);
  }
  /// Adds a scalar. Its id comes after the ids of the arguments and before those of the values.
  Tensor scalar(float value) {
    graph_.scalars.push_back(value);
    const Layout one{{1, 1, 1, 1}, {1, 1, 1, 1}};
    Descriptor made =
        tensor(static_cast<int64_t>(graph_.tensors + graph_.scalars.size()), CUDNN_DATA_FLOAT, one);
    made.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
    return keep(std::move(made), one);
  }
  Tensor value(const Layout& layout, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    Descriptor made = tensor(kFirstValue + values_++, type, layout);
    made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
    return keep(std::move(made), layout);
  }

  void multiply(const Tensor& a, const Tensor& b, const Tensor& to) {
    Descriptor& how = graph_.keep(planner_.make(CUDNN_BACKEND_MATMUL_DESCRIPTOR));
    how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT).finalize();
    Descriptor operation = planner_.make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *a.descriptor)
        .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *b.descriptor)
        .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *to.descriptor)
        .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    graph_.add(std::move(operation));
  }
  Tensor product(const Tensor& a, const Tensor& b, const Layout& layout) {
    const Tensor to = value(layout);
    multiply(a, b, to);
    return to;
  }
  void reduce(cudnnReduceTensorOp_t fold, const Tensor& x, const Tensor& to) {
    Descriptor& how = graph_.keep(planner_.make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR));
    how.set(CUDNN_ATTR_REDUCTION_OPERATOR, fold)
        .set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT)
        .finalize();
    Descriptor operation = planner_.make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, *x.descriptor)
        .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, *to.descriptor)
        .set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    graph_.add(std::move(operation));
  }
  /// Applies an operation with one or two operands.
  void apply(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor* b, const Tensor& to) {
    Descriptor operation = pointwise(mode, CUDNN_DATA_FLOAT, x, to);
    if (b != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b->descriptor);
    graph_.add(std::move(operation));
  }
  Tensor apply(cudnnPointwiseMode_t mode, const Tensor& x) {
    const Tensor to = value(x.layout);
    apply(mode, x, nullptr, to);
    return to;
  }
  Tensor apply(cudnnPointwiseMode_t mode, const Tensor& x, const Tensor& b) {
    const Tensor to = value(x.layout);
    apply(mode, x, &b, to);
    return to;
  }
  /// `x` with its matrices transposed.
  Tensor transposed(const Tensor& x, cudnnDataType_t type) {
    const Tensor to = value(x.layout.transposed(), type);
    Descriptor operation = planner_.make(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, *x.descriptor)
        .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, *to.descriptor);
    graph_.add(std::move(operation));
    return to;
  }
  /// `x` at elements whose row index is at least the column index, `other` elsewhere.
  Tensor lower_triangle(const Tensor& x, const Tensor& other) {
    const auto index = [&](int64_t axis) {
      const Tensor to = value(x.layout, CUDNN_DATA_INT32);
      graph_.add(pointwise(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, x, to, axis));
      return to;
    };
    const Tensor row = index(2), column = index(3), seen = value(x.layout, CUDNN_DATA_BOOLEAN);
    Descriptor compare = pointwise(CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, row, seen);
    compare.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *column.descriptor);
    graph_.add(std::move(compare));
    const Tensor to = value(x.layout);
    Descriptor select = pointwise(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, x, to);
    select.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *other.descriptor)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *seen.descriptor);
    graph_.add(std::move(select));
    return to;
  }

  cudnn::Operations take() { return std::move(graph_); }

 private:
  static constexpr int64_t kFirstValue = 1000;

  Descriptor tensor(int64_t id, cudnnDataType_t type, const Layout& layout) const {
    return planner_.tensor(id, type, {layout.extents.begin(), layout.extents.end()},
                           {layout.strides.begin(), layout.strides.end()});
  }
  Tensor keep(Descriptor made, const Layout& layout) {
    made.finalize();
    return {&graph_.keep(std::move(made)), layout};
  }
  /// A pointwise operation that isn't finalized yet. `axis` is for operations that generate indices.
  Descriptor pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t type, const Tensor& x, const Tensor& to,
                       int64_t axis = -1) {
    Descriptor& how = graph_.keep(planner_.make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR));
    how.set(CUDNN_ATTR_POINTWISE_MODE, mode).set(CUDNN_ATTR_POINTWISE_MATH_PREC, type);
    if (axis >= 0) how.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
    how.finalize();
    Descriptor operation = planner_.make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *x.descriptor)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, *to.descriptor);
    return operation;
  }

  const cudnn::Planner& planner_;
  cudnn::Operations graph_;
  int64_t values_ = 0;
};

/// The tensors of a call, in the order given at AttentionSpec.
class Shapes {
 public:
  explicit Shapes(const AttentionSpec& spec) : s_(spec) {}

  Layout queries() const { return heads(s_.queries, s_.heads, s_.query_step); }
  Layout results() const { return heads(s_.queries, s_.heads, s_.heads * s_.width); }
  Layout keys() const { return heads(s_.keys, s_.key_heads, s_.key_step); }
  Layout scores() const { return dense(s_.queries, s_.keys); }
  Layout rows() const { return dense(s_.queries, 1); }
  /// The layout that keys would have if each query head had its own key head.
  Layout keys_of_all() const { return dense(s_.keys, s_.width); }

 private:
  Layout heads(int64_t length, int64_t count, int64_t step) const {
    return {{s_.batch, count, length, s_.width}, {length * step, s_.width, step, 1}};
  }
  Layout dense(int64_t rows, int64_t columns) const {
    return {{s_.batch, s_.heads, rows, columns}, {s_.heads * rows * columns, rows * columns, columns, 1}};
  }
  const AttentionSpec& s_;
};

constexpr float kHidden = std::numeric_limits<float>::lowest();  // a score whose weight is 0

cudnn::Operations forward(const cudnn::Planner& planner, const AttentionSpec& s) {
  const Shapes shapes(s);
  const cudnnDataType_t type = cudnn::type_of(s.dtype);
  Builder graph(planner, 5);
  const Tensor q = graph.argument(0, type, shapes.queries());
  const Tensor k_transposed = graph.argument(1, type, shapes.keys().transposed());
  const Tensor v = graph.argument(2, type, shapes.keys());
  const Tensor y = graph.argument(3, type, shapes.results());
  const Tensor logs = graph.argument(4, CUDNN_DATA_FLOAT, shapes.rows());
  const Tensor scale = graph.scalar(static_cast<float>(s.scale));
  Tensor scores = graph.apply(CUDNN_POINTWISE_MUL, graph.product(q, k_transposed, shapes.scores()), scale);
  if (s.causal) scores = graph.lower_triangle(scores, graph.scalar(kHidden));
  const Tensor largest = graph.value(shapes.rows()), sums = graph.value(shapes.rows());
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, scores, largest);
  const Tensor weights = graph.apply(CUDNN_POINTWISE_EXP, graph.apply(CUDNN_POINTWISE_SUB, scores, largest));
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, weights, sums);
  const Tensor log_of_sums = graph.apply(CUDNN_POINTWISE_LOG, sums);
  graph.apply(CUDNN_POINTWISE_ADD, largest, &log_of_sums, logs);
  const Tensor shares = graph.value(shapes.scores(), type);
  graph.apply(CUDNN_POINTWISE_DIV, weights, &sums, shares);
  graph.multiply(shares, v, y);
  return graph.take();
}

cudnn::Operations gradient(const cudnn::Planner& planner, const AttentionSpec& s) {
  const Shapes shapes(s);
  const cudnnDataType_t type = cudnn::type_of(s.dtype);
  Builder graph(planner, 10);
  const Tensor q = graph.argument(0, type, shapes.queries());
  const Tensor k_transposed = graph.argument(1, type, shapes.keys().transposed());
  const Tensor v_transposed = graph.argument(2, type, shapes.keys().transposed());
  const Tensor y = graph.argument(3, type, shapes.results());
  const Tensor dy = graph.argument(4, type, shapes.results());
  const Tensor logs = graph.argument(5, CUDNN_DATA_FLOAT, shapes.rows());
  const Tensor dq = graph.argument(6, type, shapes.queries());
  const Tensor dk = graph.argument(7, type, shapes.keys());
  const Tensor dv = graph.argument(8, type, shapes.keys());
  const Tensor deltas = graph.argument(9, CUDNN_DATA_FLOAT, shapes.rows());
  const Tensor scale = graph.scalar(static_cast<float>(s.scale)), one = graph.scalar(1);

  const Tensor of_rows = graph.value(shapes.rows());
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, graph.apply(CUDNN_POINTWISE_MUL, dy, y), of_rows);
  graph.apply(CUDNN_POINTWISE_MUL, of_rows, &one, deltas);  // the library requires this tensor in memory
  Tensor scores = graph.apply(CUDNN_POINTWISE_MUL, graph.product(q, k_transposed, shapes.scores()), scale);
  scores = graph.apply(CUDNN_POINTWISE_SUB, scores, logs);
  if (s.causal) scores = graph.lower_triangle(scores, graph.scalar(kHidden));
  const Tensor shares = graph.apply(CUDNN_POINTWISE_EXP, scores);
  // Query heads that share a key head all add to the gradient of that head.
  const auto give = [&](const Tensor& weights, const Tensor& rows, const Tensor& to) {
    if (s.heads == s.key_heads) return graph.multiply(weights, rows, to);
    const Tensor of_all = graph.value(shapes.keys_of_all(), type);
    graph.multiply(weights, rows, of_all);
    graph.reduce(CUDNN_REDUCE_TENSOR_ADD, of_all, to);
  };
  give(graph.transposed(shares, type), dy, dv);
  Tensor of_scores = graph.product(dy, v_transposed, shapes.scores());
  of_scores = graph.apply(CUDNN_POINTWISE_SUB, of_scores, deltas);
  of_scores = graph.apply(CUDNN_POINTWISE_MUL, of_scores, shares);
  of_scores = graph.apply(CUDNN_POINTWISE_MUL, of_scores, scale);
  give(graph.transposed(of_scores, type), q, dk);
  graph.multiply(of_scores, graph.transposed(k_transposed, type), dq);
  return graph.take();
}

class CudnnAttention final : public AttentionLibrary {
 public:
  CudnnAttention(const cudnn::Calls& calls, std::string described) : planner_(calls, std::move(described)) {}

  int64_t version() override { return planner_.version(); }

  LibraryAlgorithms algorithms(Context& context, const AttentionSpec& spec) override {
    require((spec.dtype == DType::kF16 || spec.dtype == DType::kBF16) && spec.key_heads > 0 &&
                spec.heads % spec.key_heads == 0 && (!spec.causal || spec.queries == spec.keys),
            ErrorCode::kInvalidArgument, "cuda", "no such attention: {} heads, {} of keys, {} by {} in {}",
            spec.heads, spec.key_heads, spec.queries, spec.keys, dtype_name(spec.dtype));
    return planner_.calls_of(kept_.plans(context, spec, [&] {
      const bool forwards = spec.pass == AttentionSpec::Pass::kForward;
      cudnn::Operations graph = forwards ? forward(planner_, spec) : gradient(planner_, spec);
      return planner_.plans(context, std::move(graph), true);
    }));
  }

 private:
  cudnn::Planner planner_;
  cudnn::KeptPlans<AttentionSpec> kept_;
};

}  // namespace

AttentionLibrary* machine_attention() {
  static AttentionLibrary* const library =
      cudnn::machine_calls() != nullptr ? new CudnnAttention(*cudnn::machine_calls(), {}) : nullptr;
  return library;
}

std::unique_ptr<AttentionLibrary> attention_for(const std::string& described_device) {
  if (cudnn::machine_calls() == nullptr) return nullptr;
  return std::make_unique<CudnnAttention>(*cudnn::machine_calls(), described_device);
}

#endif

}  // namespace isochron::cuda
