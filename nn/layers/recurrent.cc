#include "isochron/nn/layers/recurrent.h"

#include <algorithm>

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::nn {
namespace {

constexpr int64_t kLstmGates = 4;

/// The shape of the bias: (4H) for an LSTM, (2, 3H) for a GRU.
Shape bias_shape(int64_t gates, int64_t units) {
  return gates == kLstmGates ? Shape{gates * units} : Shape{2, gates * units};
}
/// The initial bias. With `unit_forget_bias`, an LSTM's forget gates start at 1.
Initializer bias_values(const Initializer& initializer, int64_t gates, int64_t units, bool unit_forget_bias) {
  if (gates != kLstmGates || !unit_forget_bias) return initializer;
  return [initializer, units](const Shape& shape, Rng& rng) {
    std::vector<double> values = initializer(shape, rng);
    std::fill_n(values.begin() + units, units, 1.0);
    return values;
  };
}

void require_floating(const Tensor& x, int rank, std::string_view layer) {
  require(x.defined() && is_floating(x.dtype()), ErrorCode::kDtypeMismatch, layer,
          "the input must be floating, got {}; cast it",
          x.defined() ? x.spec().str() : "an undefined tensor");
  require(x.rank() == rank, ErrorCode::kShapeMismatch, layer, "the input must have {} axes, got {}", rank,
          x.spec().str());
}

}  // namespace

Recurrent::Recurrent(int64_t gates, int64_t units, RecurrentLayerOptions options)
    : gates_(gates), units_(units), options_(std::move(options)) {
  const std::string_view where = gates == kLstmGates ? "lstm" : "gru";
  require(units >= 1 && options_.layers >= 1, ErrorCode::kInvalidArgument, where,
          "units and layers must be >= 1, got {} and {}", units, options_.layers);
  require(options_.dropout >= 0 && options_.dropout < 1, ErrorCode::kInvalidArgument, where,
          "the dropout rate must lie in [0, 1), got {}", options_.dropout);
  require(!(options_.bidirectional && options_.reverse), ErrorCode::kInvalidArgument, where,
          "a bidirectional layer has no other direction; leave reverse out");
  const bool plain = options_.layers == 1 && !options_.bidirectional;
  for (int64_t layer = 0; layer < options_.layers; ++layer) {
    const std::string prefix = plain ? "" : fmt::format("layer_{}/", layer);
    if (!options_.bidirectional) {
      directions_.push_back({prefix, options_.reverse, {}, {}, {}});
      continue;
    }
    directions_.push_back({prefix + "forward/", false, {}, {}, {}});
    directions_.push_back({prefix + "backward/", true, {}, {}, {}});
  }
}

void Recurrent::members(Members& list) {
  for (const Direction& direction : directions_) {
    list(direction.prefix + "kernel", direction.kernel)(direction.prefix + "recurrent_kernel",
                                                        direction.recurrent_kernel)(direction.prefix + "bias",
                                                                                    direction.bias);
  }
}

void Recurrent::build_direction(Direction& direction, const Tensor& x) {
  if (direction.kernel.defined()) return;
  const int64_t columns = gates_ * units_;
  const auto parameter = [&](std::string_view name, const Shape& shape, const Initializer& initializer) {
    return make_parameter(fmt::format("{}{}", direction.prefix, name), {x.dtype(), shape}, initializer);
  };
  auto kernel = parameter("kernel", {x.extent(-1), columns}, options_.kernel_initializer);
  direction.recurrent_kernel =
      parameter("recurrent_kernel", {units_, columns}, options_.recurrent_initializer);
  if (options_.bias) {
    direction.bias =
        parameter("bias", bias_shape(gates_, units_),
                  bias_values(options_.bias_initializer, gates_, units_, options_.unit_forget_bias));
  }
  direction.kernel = std::move(kernel);  // last, so that a failed build is started again
}

Tensor Recurrent::run_direction(size_t index, const Tensor& x, const RecurrentInputs& inputs,
                                RecurrentResult& result) {
  Direction& direction = directions_[index];
  build_direction(direction, x);
  const Tensor bias = direction.bias.defined() ? direction.bias.tensor() : Tensor();
  const Tensor h = inputs.h.empty() ? Tensor() : inputs.h[index];
  const RecurrentOptions options{direction.reverse, inputs.lengths};
  if (gates_ == kLstmGates) {
    const Tensor c = inputs.c.empty() ? Tensor() : inputs.c[index];
    LstmResult all = lstm(x, direction.kernel, direction.recurrent_kernel, bias, {h, c}, options);
    result.h.push_back(all.h);
    result.c.push_back(all.c);
    return all.sequence;
  }
  GruResult all = gru(x, direction.kernel, direction.recurrent_kernel, bias, h, options);
  result.h.push_back(all.h);
  return all.sequence;
}

Tensor Recurrent::merge(const std::vector<Tensor>& parts) const {
  if (parts.size() == 1) return parts[0];
  switch (options_.merge) {
    case MergeMode::kSum:
      return parts[0] + parts[1];
    case MergeMode::kAverage:
      return (parts[0] + parts[1]) * 0.5;
    case MergeMode::kMultiply:
      return parts[0] * parts[1];
    default:
      return concatenate(parts, -1);
  }
}

RecurrentResult Recurrent::run(const Tensor& x, const RecurrentInputs& inputs) {
  const Scope scope = enter();
  require_floating(x, 3, kind());
  const size_t count = directions_.size();
  for (const std::vector<Tensor>* states : {&inputs.h, &inputs.c}) {
    require(states->empty() || states->size() == count, ErrorCode::kInvalidArgument, kind(),
            "{} initial states for {} layers and directions", states->size(), count);
  }
  if (gates_ == kLstmGates) {
    require(inputs.h.size() == inputs.c.size(), ErrorCode::kInvalidArgument, kind(),
            "of the initial h and c only one is given; give both or neither");
  } else {
    require(inputs.c.empty(), ErrorCode::kInvalidArgument, kind(), "has no cell state; leave c out");
  }
  const size_t per_layer = options_.bidirectional ? 2 : 1;
  RecurrentResult result;
  Tensor below = x;
  for (size_t first = 0; first < count; first += per_layer) {
    if (first > 0 && training()) below = dropout(below, options_.dropout);
    std::vector<Tensor> sequences;
    for (size_t i = 0; i < per_layer; ++i) {
      sequences.push_back(run_direction(first + i, below, inputs, result));
    }
    below = merge(sequences);
  }
  result.sequence = below;
  result.last = merge({result.h.end() - static_cast<std::ptrdiff_t>(per_layer), result.h.end()});
  return result;
}

std::vector<Tensor> Recurrent::states(const Tensor& stacked) const {
  if (!stacked.defined()) return {};
  require(stacked.rank() == 3 && stacked.extent(0) == std::ssize(directions_), ErrorCode::kShapeMismatch,
          kind(),
          "initial states must be (layers x directions, samples, units), here ({}, samples, {}); got {}",
          directions_.size(), units_, stacked.spec().str());
  std::vector<Tensor> result;
  for (int64_t i = 0; i < stacked.extent(0); ++i) result.push_back(squeeze(narrow(stacked, 0, i, 1), {0}));
  return result;
}

Tensor Recurrent::forward(const Tensor& x, const Tensor& h, const Tensor& c) {
  const RecurrentResult result = run(x, {.h = states(h), .c = states(c)});
  return options_.return_sequences ? result.sequence : result.last;
}

Tensor mask_lengths(const Tensor& mask) {
  require(mask.defined() && mask.dtype() == DType::kBool, ErrorCode::kDtypeMismatch, "mask_lengths",
          "the mask must be bool, got {}", mask.defined() ? mask.spec().str() : "an undefined tensor");
  require(mask.rank() == 2, ErrorCode::kShapeMismatch, "mask_lengths", "the mask must be (N, T), got {}",
          mask.spec().str());
  const Tensor lengths = sum(cast(mask, DType::kI64), {1});
  const Tensor expected = less(constant(arange(mask.extent(1))), expand_dims(lengths, 1));
  const Tensor wrong =
      sum(cast(not_equal(cast(mask, DType::kI64), cast(expected, DType::kI64)), DType::kI64), {1});
  return where(equal(wrong, scalar(0, DType::kI64)), lengths, scalar(-1, DType::kI64));  // refused when used
}

RecurrentCell::RecurrentCell(int64_t gates, int64_t units, RecurrentCellOptions options)
    : gates_(gates), units_(units), options_(std::move(options)) {
  require(units >= 1, ErrorCode::kInvalidArgument, gates == kLstmGates ? "lstm_cell" : "gru_cell",
          "units must be >= 1, got {}", units);
}

void RecurrentCell::build_for(int64_t features, DType dtype) {
  if (kernel_.defined()) return;
  const int64_t columns = gates_ * units_;
  auto kernel = make_parameter("kernel", {dtype, {features, columns}}, options_.kernel_initializer);
  recurrent_kernel_ =
      make_parameter("recurrent_kernel", {dtype, {units_, columns}}, options_.recurrent_initializer);
  if (options_.bias) {
    bias_ = make_parameter("bias", {dtype, bias_shape(gates_, units_)},
                           bias_values(options_.bias_initializer, gates_, units_, options_.unit_forget_bias));
  }
  kernel_ = std::move(kernel);
}

Tensor RecurrentCell::zero_state(const Tensor& x) const {
  require_floating(x, 2, kind());
  return constant(zeros({x.extent(0), units_}, x.dtype()));
}

LstmState LSTMCell::step(const Tensor& x, const LstmState& state) {
  const Scope scope = enter();
  require_floating(x, 2, kind());
  build_for(x.extent(1), x.dtype());
  return lstm_step(x, state, kernel_, recurrent_kernel_, bias_.defined() ? bias_.tensor() : Tensor());
}

Tensor GRUCell::step(const Tensor& x, const Tensor& h) {
  const Scope scope = enter();
  require_floating(x, 2, kind());
  build_for(x.extent(1), x.dtype());
  return gru_step(x, h, kernel_, recurrent_kernel_, bias_.defined() ? bias_.tensor() : Tensor());
}

}  // namespace isochron::nn
