#include "isochron/ops/attention/attention.h"

#include <cmath>
#include <limits>

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/attention/attention_shape.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron {
namespace ops {
namespace {

using Values = std::vector<std::vector<double>>;

/// The number of inputs that hold heads: one (packed) or three.
size_t head_inputs(const OpCall& call) { return call.attributes.get<bool>("packed") ? 1 : 3; }

/// `others`: the number of inputs between the heads and the mask.
AttentionShape attention_shape(const OpCall& call, size_t others) {
  const std::string& where = call.op.name;
  const TensorSpec& q = call.inputs[0];
  require(q.dtype == DType::kF32 || q.dtype == DType::kF64, ErrorCode::kDtypeMismatch, where,
          "takes f32 or f64, got {}; cast it", q.str());
  AttentionShape s;
  s.packed = call.attributes.get<bool>("packed");
  s.causal = call.attributes.get<bool>("causal");
  s.scale = call.attributes.get<double>("scale");
  const size_t heads = head_inputs(call);
  require(call.inputs.size() >= heads + others, ErrorCode::kInvalidArgument, where,
          "expected {} inputs, got {}", heads + others, call.inputs.size());
  for (size_t i = 0; i < heads; ++i) {
    require(call.inputs[i].shape.rank() == 4, ErrorCode::kShapeMismatch, where,
            "input {} must be (samples, length, heads, width), got {}", i, call.inputs[i].str());
    require(call.inputs[i].dtype == q.dtype, ErrorCode::kDtypeMismatch, where, "input {} is {}, input 0 {}",
            i, call.inputs[i].str(), q.str());
  }
  s.batch = q.shape[0];
  s.queries = q.shape[1];
  s.width = q.shape[3];
  if (s.packed) {
    s.heads = call.attributes.get<int64_t>("heads");
    s.key_heads = call.attributes.get<int64_t>("key_heads");
    s.keys = s.queries;
    require(s.heads >= 1 && s.key_heads >= 1 && q.shape[2] == s.heads + 2 * s.key_heads,
            ErrorCode::kShapeMismatch, where,
            "{} holds {} heads, expected {} of queries and twice {} of keys and values", q.str(), q.shape[2],
            s.heads, s.key_heads);
  } else {
    s.heads = q.shape[2];
    s.keys = call.inputs[1].shape[1];
    s.key_heads = call.inputs[1].shape[2];
    const Shape expected{s.batch, s.keys, s.key_heads, s.width};
    require(call.inputs[1].shape == expected && call.inputs[2].shape == expected, ErrorCode::kShapeMismatch,
            where, "keys {} and values {} must be {} for queries {}", call.inputs[1].str(),
            call.inputs[2].str(), expected.str(), q.str());
  }
  require(s.key_heads >= 1 && s.heads % s.key_heads == 0, ErrorCode::kShapeMismatch, where,
          "{} heads of keys don't divide {} heads of queries", s.key_heads, s.heads);
  s.masked = call.inputs.size() > heads + others;
  if (s.masked) {
    const TensorSpec expected{DType::kBool, {s.batch, s.keys}};
    require(call.inputs[heads + others] == expected, ErrorCode::kShapeMismatch, where,
            "the key mask must be {}, got {}; a mask of queries and keys needs a leading axis: (1, T, S)",
            expected.str(), call.inputs[heads + others].str());
  }
  return s;
}

AttentionShape forward_shape(const OpCall& call) { return attention_shape(call, 0); }
AttentionShape gradient_shape(const OpCall& call) { return attention_shape(call, 3); }

std::vector<TensorSpec> infer_attention(const OpCall& call) {
  const AttentionShape s = forward_shape(call);
  const DType dtype = call.inputs[0].dtype;
  return {{dtype, {s.batch, s.queries, s.heads, s.width}}, {dtype, {s.batch, s.heads, s.queries}}};
}

std::vector<TensorSpec> infer_gradient(const OpCall& call) {
  const AttentionShape s = gradient_shape(call);
  const DType dtype = call.inputs[0].dtype;
  const size_t heads = head_inputs(call);
  const TensorSpec result{dtype, {s.batch, s.queries, s.heads, s.width}};
  const TensorSpec logs{dtype, {s.batch, s.heads, s.queries}};
  require(call.inputs[heads] == result && call.inputs[heads + 2] == result && call.inputs[heads + 1] == logs,
          ErrorCode::kShapeMismatch, call.op.name,
          "result, logs and gradient must be {}, {}, {}; got {}, {}, {}", result.str(), logs.str(),
          result.str(), call.inputs[heads].str(), call.inputs[heads + 1].str(), call.inputs[heads + 2].str());
  return {call.inputs.begin(), call.inputs.begin() + static_cast<std::ptrdiff_t>(heads)};
}

/// Attention composed of other ops, with whole score matrices. It is used for gradients that the kernels
/// don't compute. Heads are (N, K, H / K, length, D).
class Composition {
 public:
  /// The masks may be undefined. `mask` has four axes and broadcasts to (N, H, T, S).
  Composition(const AttentionShape& s, std::span<const Tensor> heads, const Tensor& key_mask,
              const Tensor& mask = {})
      : s_(s) {
    const Tensor& first = heads[0];
    // Scale q before the product, because the unscaled product may overflow in 16 bits.
    q_ = grouped(s.packed ? narrow(first, 2, 0, s.heads) : first, s.heads / s.key_heads);
    k_ = grouped(s.packed ? narrow(first, 2, s.heads, s.key_heads) : heads[1], 1);
    v_ = grouped(s.packed ? narrow(first, 2, s.heads + s.key_heads, s.key_heads) : heads[2], 1);
    scores_ = matmul(q_ * s.scale, k_, false, true);
    std::vector<Tensor> seen;  // which keys are visible: bool masks
    if (s.causal) seen.push_back(constant(visible()));
    if (s.masked) seen.push_back(reshape(key_mask, {s.batch, 1, 1, 1, s.keys}));
    if (mask.defined()) {
      const bool each = mask.extent(1) > 1;
      const Tensor grouped =
          reshape(mask, {mask.extent(0), each ? s.key_heads : 1, each ? s.heads / s.key_heads : 1,
                         mask.extent(2), mask.extent(3)});
      if (mask.dtype() == DType::kBool) {
        seen.push_back(grouped);
      } else {
        scores_ = scores_ + grouped;
      }
    }
    for (const Tensor& visible : seen) scores_ = where(visible, scores_, nothing_seen());
  }

  /// The logarithms of the sums of exponentials, (N, H, T); 0 for queries that see no key.
  Tensor log_sums() const {
    const auto [most, exponentials, sums] = softmax_parts();
    const Tensor logs = where(sums > 0.0, log(positive(sums)) + most, 0);
    return reshape(logs, {s_.batch, s_.heads, s_.queries});
  }

  /// The result, (N, T, H, D); 0 for queries that see no key.
  Tensor result() const {
    const auto [most, exponentials, sums] = softmax_parts();
    const Tensor share = where(sums > 0.0, 1.0 / positive(sums), 0);
    return ungrouped(matmul(exponentials, v_) * share);
  }

  /// dq, dk, dv or dqkv from the result, the log sums and the result's gradient.
  std::vector<Tensor> gradients(const Tensor& y, const Tensor& log_sums, const Tensor& dy) const {
    const int64_t share = s_.heads / s_.key_heads;
    const Tensor p = exp(scores_ - reshape(log_sums, {s_.batch, s_.key_heads, share, s_.queries, 1}));
    const Tensor g = grouped(dy, share);
    const Tensor delta = sum(g * grouped(y, share), {-1}, true);
    const Tensor ds = p * (matmul(g, v_, false, true) - delta) * s_.scale;
    const Tensor dq = ungrouped(matmul(ds, k_));
    const Tensor dk = ungrouped(sum(matmul(ds, q_, true), {2}, true));
    const Tensor dv = ungrouped(sum(matmul(p, g, true), {2}, true));
    if (!s_.packed) return {dq, dk, dv};
    return {concatenate({dq, dk, dv}, 2)};
  }

 private:
  struct SoftmaxParts {
    Tensor most, exponentials, sums;
  };
  SoftmaxParts softmax_parts() const {
    const Tensor largest = stop_gradient(max(scores_, {-1}, true));
    const Tensor most = where(largest > nothing_seen(), largest, scalar(0, scores_.dtype()));
    const Tensor exponentials = exp(scores_ - most);
    return {most, exponentials, sum(exponentials, {-1}, true)};
  }
  /// Replaces 0 by 1, to avoid gradients of infinity times 0.
  static Tensor positive(const Tensor& sums) { return where(sums > 0.0, sums, 1); }
  /// The score of an invisible key.
  Tensor nothing_seen() const {
    return constant(full({}, -std::numeric_limits<double>::infinity(), scores_.dtype()));
  }
  /// (N, L, heads, D) as (N, K, heads / K, L, D).
  Tensor grouped(const Tensor& x, int64_t share) const {
    return transpose(reshape(x, {s_.batch, x.extent(1), s_.key_heads, share, s_.width}), {0, 2, 3, 1, 4});
  }
  Tensor ungrouped(const Tensor& x) const {
    return reshape(transpose(x, {0, 3, 1, 2, 4}),
                   {s_.batch, x.extent(3), s_.key_heads * x.extent(2), s_.width});
  }
  /// (T, S): whether query i sees key j.
  Tensor visible() const {
    std::vector<double> seen;
    for (int64_t i = 0; i < s_.queries; ++i) {
      for (int64_t j = 0; j < s_.keys; ++j) seen.push_back(j < s_.visible(i) ? 1 : 0);
    }
    return from_vector({s_.queries, s_.keys}, seen, DType::kBool);
  }

  AttentionShape s_;
  Tensor q_, k_, v_, scores_;
};

OpCall call_of(const GradientCall& call, std::vector<TensorSpec>& specs) {
  for (const Tensor& input : call.inputs) specs.push_back(input.spec());
  return {call.op, specs, call.attributes};
}

std::vector<Tensor> attention_gradient(const GradientCall& call) {
  static const OpDef& op = row("attention_gradient");
  std::vector<TensorSpec> specs;
  const AttentionShape s = forward_shape(call_of(call, specs));
  const size_t heads = s.packed ? 1 : 3;
  const Tensor mask = s.masked ? call.inputs[heads] : Tensor();
  std::vector<Tensor> result(call.inputs.size());
  if (call.output_gradients[0].defined()) {
    std::vector<Tensor> inputs(call.inputs.begin(), call.inputs.begin() + static_cast<std::ptrdiff_t>(heads));
    inputs.insert(inputs.end(), {call.outputs[0], call.outputs[1], call.output_gradients[0]});
    if (s.masked) inputs.push_back(mask);
    const std::vector<Tensor> found = graph::apply(op, inputs, call.attributes);
    std::copy(found.begin(), found.end(), result.begin());
  }
  if (call.output_gradients[1].defined()) {
    const std::vector<Tensor> more = call.context.differentiate(
        [&](std::span<const Tensor> in) {
          return std::vector<Tensor>{Composition(s, in.first(heads), mask).log_sums()};
        },
        call.inputs, call.output_gradients.subspan(1));
    for (size_t i = 0; i < heads; ++i) {
      if (more[i].defined()) result[i] = result[i].defined() ? result[i] + more[i] : more[i];
    }
  }
  return result;
}

std::vector<Tensor> attention_second_gradient(const GradientCall& call) {
  std::vector<TensorSpec> specs;
  const AttentionShape s = gradient_shape(call_of(call, specs));
  const size_t heads = s.packed ? 1 : 3;
  const Tensor mask = s.masked ? call.inputs[heads + 3] : Tensor();
  return call.context.differentiate(
      [&](std::span<const Tensor> in) {
        return Composition(s, in.first(heads), mask).gradients(in[heads], in[heads + 1], in[heads + 2]);
      },
      call.inputs, call.output_gradients);
}

/// The reference in f64, which computes one row of probabilities at a time.
class Reference {
 public:
  Reference(const AttentionShape& s, const Values& in, size_t mask) : s_(s), in_(in), mask_(mask) {}

  double q(int64_t n, int64_t i, int64_t h, int64_t c) const { return at(0, n, i, h, c); }
  double k(int64_t n, int64_t j, int64_t h, int64_t c) const { return at(1, n, j, h, c); }
  double v(int64_t n, int64_t j, int64_t h, int64_t c) const { return at(2, n, j, h, c); }
  /// The tensor and the element that hold a number of q, k or v (`part` 0, 1, 2).
  std::pair<size_t, size_t> where(int part, int64_t n, int64_t i, int64_t h, int64_t c) const {
    const int64_t length = part == 0 ? s_.queries : s_.keys;
    const int64_t heads = s_.packed ? s_.heads + 2 * s_.key_heads : part == 0 ? s_.heads : s_.key_heads;
    const int64_t before = !s_.packed || part == 0 ? 0 : s_.heads + (part - 1) * s_.key_heads;
    return {s_.packed ? 0 : static_cast<size_t>(part),
            static_cast<size_t>(((n * length + i) * heads + before + h) * s_.width + c)};
  }
  size_t result(int64_t n, int64_t i, int64_t h, int64_t c) const {
    return static_cast<size_t>(((n * s_.queries + i) * s_.heads + h) * s_.width + c);
  }
  int64_t key_head(int64_t h) const { return h / (s_.heads / s_.key_heads); }

  /// Scores of query i, -infinity for keys it doesn't see.
  std::vector<double> scores(int64_t n, int64_t h, int64_t i) const {
    std::vector<double> result(static_cast<size_t>(s_.keys), -std::numeric_limits<double>::infinity());
    for (int64_t j = 0; j < std::min(s_.keys, s_.visible(i)); ++j) {
      if (s_.masked && in_[mask_][static_cast<size_t>(n * s_.keys + j)] == 0) continue;
      double total = 0;
      for (int64_t c = 0; c < s_.width; ++c) total += q(n, i, h, c) * k(n, j, key_head(h), c);
      result[static_cast<size_t>(j)] = total * s_.scale;
    }
    return result;
  }

  /// Calls visit(n, h, i) for every query.
  template <typename Visit>
  void each_query(Visit visit) const {
    for (int64_t n = 0; n < s_.batch; ++n) {
      for (int64_t h = 0; h < s_.heads; ++h) {
        for (int64_t i = 0; i < s_.queries; ++i) visit(n, h, i);
      }
    }
  }

 private:
  double at(int part, int64_t n, int64_t i, int64_t h, int64_t c) const {
    const auto [tensor, element] = where(part, n, i, h, c);
    return in_[tensor][element];
  }
  AttentionShape s_;
  const Values& in_;
  size_t mask_;
};

Values attention_reference(const OpCall& call, std::span<const TensorSpec> outputs, const Values& in) {
  const AttentionShape s = forward_shape(call);
  const Reference reference(s, in, head_inputs(call));
  Values out = zeros_of(outputs);
  reference.each_query([&](int64_t n, int64_t h, int64_t i) {
    double sum = 0;
    const std::vector<double> scores = reference.scores(n, h, i);
    for (const double score : scores) sum += std::exp(score);
    if (sum == 0) return;
    out[1][static_cast<size_t>((n * s.heads + h) * s.queries + i)] = std::log(sum);
    for (int64_t j = 0; j < s.keys; ++j) {
      const double p = std::exp(scores[static_cast<size_t>(j)]) / sum;
      for (int64_t c = 0; c < s.width; ++c) {
        out[0][reference.result(n, i, h, c)] += p * reference.v(n, j, reference.key_head(h), c);
      }
    }
  });
  return out;
}

Values gradient_reference(const OpCall& call, std::span<const TensorSpec> outputs, const Values& in) {
  const AttentionShape s = gradient_shape(call);
  const size_t heads = head_inputs(call);
  const Reference reference(s, in, heads + 3);
  Values out = zeros_of(outputs);
  const auto add = [&](int part, int64_t n, int64_t i, int64_t h, int64_t c, double value) {
    const auto [tensor, element] = reference.where(part, n, i, h, c);
    out[tensor][element] += value;
  };
  reference.each_query([&](int64_t n, int64_t h, int64_t i) {
    const std::vector<double> scores = reference.scores(n, h, i);
    const int64_t kh = reference.key_head(h);
    const auto dy = [&](int64_t c) { return in[heads + 2][reference.result(n, i, h, c)]; };
    double delta = 0;
    for (int64_t c = 0; c < s.width; ++c) delta += dy(c) * in[heads][reference.result(n, i, h, c)];
    for (int64_t j = 0; j < s.keys; ++j) {
      const double log_sum = in[heads + 1][static_cast<size_t>((n * s.heads + h) * s.queries + i)];
      const double p = std::exp(scores[static_cast<size_t>(j)] - log_sum);
      double dp = 0;
      for (int64_t c = 0; c < s.width; ++c) dp += dy(c) * reference.v(n, j, kh, c);
      const double ds = p * (dp - delta) * s.scale;
      for (int64_t c = 0; c < s.width; ++c) {
        add(0, n, i, h, c, ds * reference.k(n, j, kh, c));
        add(1, n, j, kh, c, ds * reference.q(n, i, h, c));
        add(2, n, j, kh, c, p * dy(c));
      }
    }
  });
  return out;
}

struct Sample {
  AttentionShape shape;
  Attributes attributes() const {
    return {{"packed", shape.packed},
            {"heads", shape.heads},
            {"key_heads", shape.key_heads},
            {"causal", shape.causal},
            {"scale", shape.scale}};
  }
  std::vector<InputSample> heads() const {
    const AttentionShape& s = shape;
    const auto of = [&](int64_t length, int64_t count) {
      return InputSample{{s.batch, length, count, s.width}, -1, 1};
    };
    if (s.packed) return {of(s.queries, s.heads + 2 * s.key_heads)};
    return {of(s.queries, s.heads), of(s.keys, s.key_heads), of(s.keys, s.key_heads)};
  }
  InputSample mask() const {
    std::vector<double> seen(static_cast<size_t>(shape.batch * shape.keys), 1.0);
    for (size_t i = 2; i < seen.size(); i += 3) seen[i] = 0;
    return {{shape.batch, shape.keys}, 0, 1, DType::kBool, seen};
  }
};

AttentionShape sample_shape(int64_t batch, int64_t queries, int64_t keys, int64_t heads, int64_t key_heads,
                            int64_t width, bool packed, bool causal, bool masked) {
  return {batch, queries, keys, heads, key_heads, width, packed, causal, masked, 0.5};
}

std::vector<Sample> samples() {
  return {{sample_shape(2, 3, 4, 2, 2, 5, false, false, false)},
          {sample_shape(1, 4, 4, 2, 1, 3, false, true, false)},
          {sample_shape(2, 2, 5, 1, 1, 4, false, true, true)},
          {sample_shape(2, 5, 5, 2, 2, 3, true, true, false)},
          {sample_shape(1, 3, 3, 4, 2, 2, true, false, true)},
          {sample_shape(1, 67, 70, 1, 1, 2, false, true, false)},
          {sample_shape(1, 5, 3, 2, 1, 4, false, true, false)},
          {sample_shape(1, 3, 34, 2, 2, 37, false, false, true)},
          // Shapes that libraries support: widths of whole vectors, and as many keys as queries if causal.
          {sample_shape(1, 3, 5, 2, 2, 16, false, false, false)},
          {sample_shape(2, 6, 6, 4, 2, 8, true, true, false)}};
}

OpDef row_of(const char* name, const char* summary) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.tolerance = 30;
  op.precision.rule = graph::PrecisionRule::kLow;
  return op;
}

void register_forward(graph::Registry& registry) {
  OpDef op = row_of("attention", "softmax(scale q k^T) v for each head, in blocks");
  op.min_inputs = 1;
  op.max_inputs = 4;
  op.infer = infer_attention;
  op.gradient = attention_gradient;
  op.precision.full_outputs = 0b10;  // the logarithms of the sums
  op.skippable_outputs = 0b10;
  op.flops = [](const OpCall& call) { return 4 * forward_shape(call).products(); };
  op.reference = attention_reference;
  for (const Sample& sample : samples()) {
    std::vector<InputSample> inputs = sample.heads();
    if (sample.shape.masked) inputs.push_back(sample.mask());
    op.samples.push_back({inputs, sample.attributes()});
  }
  const Attributes plain = samples()[0].attributes();
  const auto f32 = [](const Shape& shape) { return TensorSpec{DType::kF32, shape}; };
  op.errors = {
      {{f32({2, 3, 2, 5}), f32({2, 4, 2, 6}), f32({2, 4, 2, 6})}, plain, ErrorCode::kShapeMismatch},
      {{f32({2, 3, 3, 5}), f32({2, 4, 2, 5}), f32({2, 4, 2, 5})}, plain, ErrorCode::kShapeMismatch},
      {{f32({2, 3, 2, 5}), f32({2, 4, 2, 5}), f32({2, 5, 2, 5})}, plain, ErrorCode::kShapeMismatch},
      {{f32({2, 3, 10}), f32({2, 4, 10}), f32({2, 4, 10})}, plain, ErrorCode::kShapeMismatch},
      {{f32({2, 3, 2, 5}), f32({2, 4, 2, 5}), {DType::kF64, {2, 4, 2, 5}}}, plain, ErrorCode::kDtypeMismatch},
      {{f32({2, 3, 2, 5}), f32({2, 4, 2, 5}), f32({2, 4, 2, 5}), {DType::kBool, {2, 3}}},
       plain,
       ErrorCode::kShapeMismatch},
      {{f32({2, 3, 5, 4})}, samples()[3].attributes(), ErrorCode::kShapeMismatch}};
  registry.add(std::move(op));
}

void register_gradient(graph::Registry& registry) {
  OpDef op = row_of("attention_gradient", "gradient of attention with respect to queries, keys and values");
  op.min_inputs = 4;
  op.max_inputs = 7;
  op.infer = infer_gradient;
  op.gradient = attention_second_gradient;
  op.precision.full_inputs = [](const Attributes& attributes) {  // the logarithms of the sums
    return attributes.get<bool>("packed") ? 0b100U : 0b10000U;
  };
  op.flops = [](const OpCall& call) { return 10 * gradient_shape(call).products(); };
  op.reference = gradient_reference;
  for (const Sample& sample : samples()) {
    const AttentionShape& s = sample.shape;
    std::vector<InputSample> inputs = sample.heads();
    const InputSample result{{s.batch, s.queries, s.heads, s.width}, -1, 1};
    inputs.insert(inputs.end(), {result, {{s.batch, s.heads, s.queries}, 1, 3}, result});
    if (s.masked) inputs.push_back(sample.mask());
    op.samples.push_back({inputs, sample.attributes()});
  }
  registry.add(std::move(op));
}

}  // namespace

AttentionShape attention_shape(const OpCall& call) { return forward_shape(call); }
AttentionShape attention_gradient_shape(const OpCall& call) { return gradient_shape(call); }

/// Attention with a mask, composed of other ops. `inputs` are those of the op, `mask` is as in
/// AttentionOptions.
static Tensor masked_attention(std::span<const Tensor> inputs, const Tensor& mask,
                               const Attributes& attributes) {
  static const OpDef& op = row("attention");
  std::vector<TensorSpec> specs;
  for (const Tensor& input : inputs) specs.push_back(input.spec());
  const AttentionShape s = forward_shape({op, specs, attributes});
  require(mask.dtype() == DType::kBool || mask.dtype() == specs[0].dtype, ErrorCode::kDtypeMismatch, op.name,
          "the mask must be bool (false hides a key) or {} (added to the scores), got {}",
          dtype_name(specs[0].dtype), mask.spec().str());
  const int64_t full[] = {s.batch, s.heads, s.queries, s.keys};
  Dims extents{1, 1, 1, 1};
  bool fits = mask.rank() <= 4;
  for (int i = 1; fits && i <= mask.rank(); ++i) {
    extents[4 - i] = mask.extent(-i);
    fits = mask.extent(-i) == 1 || mask.extent(-i) == full[4 - i];
  }
  require(fits, ErrorCode::kShapeMismatch, op.name,
          "the mask, {}, must broadcast to (samples, heads, queries, keys), {}", mask.spec().str(),
          Shape(full).str());
  const size_t heads = s.packed ? 1 : 3;
  return Composition(s, inputs.first(heads), s.masked ? inputs[heads] : Tensor(), reshape(mask, extents))
      .result();
}

void register_attention(graph::Registry& registry) {
  register_forward(registry);
  register_gradient(registry);
}

}  // namespace ops

namespace {

Tensor attend(std::vector<Tensor> heads, int64_t head_count, int64_t key_heads,
              const AttentionOptions& options) {
  static const graph::OpDef& op = ops::row("attention");
  require(std::isfinite(options.scale) && options.scale >= 0, ErrorCode::kInvalidArgument, op.name,
          "the scale must be positive, or 0 for 1 / sqrt(width); got {}", options.scale);
  for (const Tensor& tensor : heads) {
    require(tensor.defined() && tensor.rank() == 4, ErrorCode::kShapeMismatch, op.name,
            "expected tensors of four axes, got {}",
            tensor.defined() ? tensor.spec().str() : "an undefined one");
  }
  const DType dtype = heads[0].dtype();
  const bool half = is_half(heads[0].dtype());
  if (half) {
    for (Tensor& tensor : heads) tensor = cast(tensor, DType::kF32);
  }
  const int64_t width = std::max<int64_t>(heads[0].extent(3), 1);
  const double scale = options.scale > 0 ? options.scale : 1.0 / std::sqrt(static_cast<double>(width));
  const bool packed = heads.size() == 1;
  const Tensor mask = half && options.mask.defined() && options.mask.dtype() == dtype
                          ? cast(options.mask, DType::kF32)
                          : options.mask;
  if (options.key_mask.defined()) heads.push_back(options.key_mask);
  const graph::Attributes attributes = {{"packed", packed},
                                        {"heads", head_count},
                                        {"key_heads", key_heads},
                                        {"causal", options.causal},
                                        {"scale", scale}};
  const Tensor result = mask.defined() ? ops::masked_attention(heads, mask, attributes)
                                       : graph::apply(op, heads, attributes)[0];
  return half ? cast(result, dtype) : result;
}

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  return attend({q, k, v}, 0, 0, options);
}

Tensor packed_attention(const Tensor& qkv, int64_t heads, int64_t key_value_heads,
                        const AttentionOptions& options) {
  const ErrorScope scope("packed_attention");
  require(key_value_heads >= 0, ErrorCode::kInvalidArgument, "packed_attention",
          "key_value_heads must be >= 0, got {}", key_value_heads);
  return attend({qkv}, heads, key_value_heads > 0 ? key_value_heads : heads, options);
}

}  // namespace isochron
