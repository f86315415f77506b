#include "isochron/nn/losses/ctc.h"

#include <limits>

#include "isochron/nn/losses/loss_operands.h"
#include "isochron/ops/control/scan.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/along_axis.h"
#include "isochron/ops/reduction/log_sum_exp.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::nn {
namespace {

constexpr std::string_view kName = "ctc_loss";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void check(const Tensor& log_probabilities, const Tensor& labels, const Tensor& input_lengths,
           const Tensor& label_lengths, const CtcOptions& options) {
  for (const Tensor& operand : {log_probabilities, labels, input_lengths, label_lengths})
    require(operand.defined(), ErrorCode::kInvalidArgument, kName, "an operand is undefined");
  const TensorSpec& spec = log_probabilities.spec();
  require(is_floating(spec.dtype), ErrorCode::kDtypeMismatch, kName,
          "log-probabilities must be floating, got {}", spec.str());
  require(spec.shape.rank() == 3, ErrorCode::kShapeMismatch, kName,
          "log-probabilities must be (N, T, C), got {}; transpose those with the time first", spec.str());
  const int64_t samples = spec.shape[0];
  for (const Tensor& whole : {labels, input_lengths, label_lengths})
    require(is_integer(whole.dtype()), ErrorCode::kDtypeMismatch, kName,
            "labels and lengths must be integers, got {}", whole.spec().str());
  require(labels.rank() == 2 && labels.extent(0) == samples, ErrorCode::kShapeMismatch, kName,
          "log-probabilities are {}, labels {}; these must be (N, L)", spec.str(), labels.spec().str());
  for (const Tensor& lengths : {input_lengths, label_lengths})
    require(lengths.shape() == Shape{samples}, ErrorCode::kShapeMismatch, kName,
            "log-probabilities are {}, lengths {}; these must be (N)", spec.str(), lengths.spec().str());
  require(options.blank >= 0 && options.blank < spec.shape[2], ErrorCode::kInvalidArgument, kName,
          "the blank {} is no class of log-probabilities {}", options.blank, spec.str());
}

/// Positions 0, 1, ..., count - 1 as a row: (1, count).
Tensor row_of_positions(int64_t count) { return reshape(constant(arange(count)), {1, count}); }

/// x (N, P) moved to the right by `by` positions, with `fill` before it.
Tensor moved(const Tensor& x, int64_t by, double fill) {
  return narrow(pad(x, {0, by}, {0, 0}, fill), 1, 0, x.extent(1));
}

/// Blanks before, between and after the labels (N, L): (N, 2 L + 1). Positions beyond a sequence's labels are
/// blanks.
Tensor with_blanks(const Tensor& labels, const Tensor& label_lengths, int64_t blank) {
  const int64_t samples = labels.extent(0), count = labels.extent(1);
  const Tensor blanks = constant(full({}, static_cast<double>(blank), DType::kI64));
  const Tensor held = where(row_of_positions(count) < label_lengths, labels, blanks);
  const Tensor first = broadcast_to(reshape(blanks, {1, 1}), {samples, 1});
  if (count == 0) return first;
  const Tensor pairs = stack({held, broadcast_to(blanks, held.shape())}, 2);
  return concatenate({first, reshape(pairs, {samples, 2 * count})}, 1);
}

/// log(e^a + e^b + e^c), elementwise, fused into one kernel. Where all three are -infinity, so is the result,
/// with gradients of 0. The largest only scales the terms, so the gradient needn't pass through it.
Tensor log_of_sum(const Tensor& a, const Tensor& b, const Tensor& c) {
  const Tensor largest = stop_gradient(maximum(maximum(a, b), c));
  const Tensor scale = where(equal(largest, -kInfinity), 0, largest);
  const Tensor sum = exp(a - scale) + exp(b - scale) + exp(c - scale);
  const Tensor possible = sum > 0.0;
  return where(possible, log(where(possible, sum, 1)) + scale, -kInfinity);
}

/// Minus the logarithm of the probability of the labels: (N). `labels` (N, L) and the lengths, (N, 1), are
/// i64.
Tensor negative_log_likelihood(const Tensor& log_probabilities, const Tensor& labels,
                               const Tensor& input_lengths, const Tensor& label_lengths, int64_t blank) {
  const DType dtype = log_probabilities.dtype();
  const Tensor path = with_blanks(labels, label_lengths, blank);
  const int64_t samples = path.extent(0), positions = path.extent(1), steps = log_probabilities.extent(1);
  const Tensor never = scalar(-kInfinity, dtype);
  // A blank may be left out between two labels that differ.
  const Tensor skips =
      logical_and(not_equal(path, moved(path, 2, static_cast<double>(blank))),
                  not_equal(path, constant(full({}, static_cast<double>(blank), DType::kI64))));

  const Tensor emitted = take_along_axis(log_probabilities, expand_dims(path, 1), 2);  // (N, T, P)
  const Tensor time = reshape(constant(arange(steps)), {steps, 1, 1});
  const Tensor running = time < expand_dims(input_lengths, 0);  // (T, N, 1)
  const Tensor start =
      broadcast_to(where(equal(row_of_positions(positions), scalar(0, DType::kI64)), scalar(0, dtype), never),
                   {samples, positions});
  // The log-probability of having come to each position by any alignment, after each step.
  const auto advance = [&](std::span<const Tensor> state, std::span<const Tensor> step) -> ScanStep {
    const Tensor& stay = state[0];
    const Tensor skip = where(skips, moved(stay, 2, -kInfinity), never);
    const Tensor reached = log_of_sum(stay, moved(stay, 1, -kInfinity), skip) + step[0];
    return {{where(step[1], reached, stay)}};
  };
  const Tensor reached = scan(advance, {start}, {transpose(emitted, {1, 0, 2}), running}).state[0];

  // An alignment ends at the last label or the blank after it. Invalid lengths must not wrap around.
  const Tensor end = clip(label_lengths, -1.0, static_cast<double>(positions)) * 2.0;
  const Tensor at = row_of_positions(positions);
  const Tensor ends = logical_or(equal(at, end), equal(at, end - 1.0));
  return -log_sum_exp(where(ends, reached, never), {1});
}

}  // namespace

Tensor ctc_loss(const Tensor& log_probabilities, const Tensor& labels, const Tensor& input_lengths,
                const Tensor& label_lengths, const CtcOptions& options) {
  const ErrorScope scope("ctc_loss");
  check(log_probabilities, labels, input_lengths, label_lengths, options);
  const auto column = [](const Tensor& lengths) { return expand_dims(cast(lengths, DType::kI64), 1); };
  Tensor losses = negative_log_likelihood(widened(log_probabilities), cast(labels, DType::kI64),
                                          column(input_lengths), column(label_lengths), options.blank);
  const DType dtype = losses.dtype();
  if (options.zero_infinity)
    losses = where(equal(losses, scalar(kInfinity, dtype)), scalar(0, dtype), losses);
  if (options.per_sample == Reduction::kMean) losses = losses / maximum(cast(label_lengths, dtype), 1.0);
  return reduce_widened(losses, log_probabilities.dtype(), reduction_of(options));
}

}  // namespace isochron::nn
