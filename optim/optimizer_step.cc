// One step of an optimizer, from gradients to new parameters: summing over micro-batches, loss scale,
// clipping, noise, rule, schedule, averages. Written once in ops, for capture and eager code.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <ranges>

#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/memory/allocators/static_allocator.h"
#include "isochron/ops/collective/collectives.h"
#include "isochron/ops/control/update_if.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/row_updates.h"
#include "isochron/ops/optimizer/optimizer_updates.h"
#include "isochron/ops/optimizer/tree_accumulate.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "isochron/ops/shape/tensor_lists.h"
#include "isochron/optim/buckets.h"
#include "isochron/optim/optimizer.h"
#include "isochron/optim/row_gradients.h"

namespace isochron::optim {

/// The targets are the step count, the parameters and states of each call, the counts of missed updates if
/// some parameters miss this one, the learning rate if a schedule computes it, and the averages if they are
/// kept: first those of the gradients' parameters, then those of parameters that this update leaves unchanged
/// (`resting`).
struct Optimizer::Update {
  /// A call of an update op on parameters of one group.
  struct Call {
    size_t group = 0;                      // Participation::groups
    size_t entry = 0;                      // of one of its parameters
    std::vector<size_t> parameters{};      // their places among the gradients
    std::vector<Tensor> rows{}, counts{};  // of each, if all are tables that are updated by rows
    graph::Attributes attributes{};
    size_t first_target = 0;
    size_t targets = 0;
  };
  std::vector<Call> calls;  // the first one may overwrite the step count, which the others read
  std::vector<bool> uses;   // for each entry: whether this step has a gradient for it
  bool grouped = false;     // whether there are several groups
  Tensor used;              // i64 (entries): 1 if a micro-batch had one; only if one process accumulates
  std::vector<Variable> targets;
  std::vector<Variable> sums;     // of gradients; the sums of one tree level are adjacent
  std::vector<Variable> resting;  // not changed by it; their averages are still updated
  size_t learning_rate = 0;       // its place among the targets
  std::vector<double> l2;         // of each gradient: the factor of its parameter to add; empty: none

  bool misses_some() const { return std::ranges::find(uses, false) != uses.end(); }
  bool uses_all(const Call& call) const { return uses[call.entry]; }
  /// Whether an earlier micro-batch had gradients for the parameters of `call`, for which this step has none.
  Tensor used_before(const Call& call) const {
    return greater(select(used, static_cast<int64_t>(call.entry)), scalar(0, DType::kI64));
  }
  /// The results of the call's op: the step count (unless the call updates rows), then the targets. `before`:
  /// the targets' present contents, parameters first.
  std::vector<Tensor> results_of(const Call& call, const graph::OpDef& rule, std::vector<Tensor> inputs,
                                 std::span<const Tensor> before, std::span<const Tensor> gradients) const {
    inputs.insert(inputs.end(), before.begin(), before.end());
    for (size_t k = 0; k < call.parameters.size(); ++k) {
      const size_t i = call.parameters[k];
      const bool decays = !l2.empty() && l2[i] > 0;
      inputs.push_back(decays ? gradients[i] + before[k] * l2[i] : gradients[i]);
    }
    inputs.insert(inputs.end(), call.rows.begin(), call.rows.end());
    inputs.insert(inputs.end(), call.counts.begin(), call.counts.end());
    return graph::apply(call.rows.empty() ? rule : ops::row("update_rows"), inputs, call.attributes);
  }
};

namespace {

std::vector<Tensor> values_of(std::span<const Variable> variables) {
  return {variables.begin(), variables.end()};
}

/// `rows`, or 1 if `rows` is 0, for example when all tokens are padding. The gradients are 0 then and stay 0.
Tensor at_least_one(const Tensor& rows) {
  return where(equal(rows, scalar(0, rows.dtype())), scalar(1, rows.dtype()), rows);
}

const Tensor& one() {
  static const Tensor number = [] {
    const AllocatorScope scope(static_allocator());
    return scalar(1, DType::kF64);
  }();
  return number;
}

/// `factor`, reduced so that the norm sqrt(squares) x factor of the scaled gradient is at most `limit`.
Tensor clipped_factor(const Tensor& factor, const Tensor& squares, double limit) {
  return factor * (limit / maximum(sqrt(squares) * factor, limit));
}

/// The largest scale to grow to. The reciprocal of a scale beyond 2^126 is subnormal in f32 and flushed to
/// zero. The reciprocal is also grouped by the number of rows and by the ratio of a norm to its limit.
constexpr double kLargestGrown = 0x1p64;

/// Noise draws are numbered from here, separately from the draws of other random ops.
constexpr int64_t kFirstDraw = int64_t{1} << 30;

/// Normal numbers that are a pure function of (seed, step, index of the gradient).
Tensor standard_normal(const TensorSpec& spec, const Tensor& state, size_t index) {
  static const graph::OpDef& op = ops::row("random_normal");
  return graph::apply_one(op, {state},
                          {{"shape", static_cast<Dims>(spec.shape)},
                           {"a", 0.0},
                           {"b", 1.0},
                           {"dtype", spec.dtype},
                           {"draw", kFirstDraw + static_cast<int64_t>(index)}});
}

/// The noise of one update.
struct Noise {
  Noise(const GradientNoise& noise, const Tensor& step)
      : stddev(pow(cast(step, DType::kF64) + 1.0, -noise.gamma / 2) * std::sqrt(noise.eta)) {
    const Tensor seed = full({1}, 0, DType::kI64);
    *seed.data<int64_t>() = static_cast<int64_t>(noise.seed.value_or(0));
    state = concatenate({constant(seed), reshape(step, {1})});
  }
  void add_to(Tensor& gradient, size_t index) const {
    const TensorSpec spec = gradient.spec();
    gradient = gradient + standard_normal(spec, state, index) * cast(stddev, spec.dtype);
  }
  Tensor stddev, state;
};

/// What happens to gradients before the rule: scaling by a common factor, clipping of each, noise. If only
/// scaling is needed, the update op does it.
class GradientTransform {
 public:
  GradientTransform(const StepOptions& options, bool adds_l2, const Tensor& factor, const Tensor& step)
      : clip_(options.clip),
        factor_(factor),
        per_gradient_(clip_.value > 0 || clip_.norm > 0 || options.noise.eta > 0 || adds_l2) {
    if (options.noise.eta > 0) noise_.emplace(options.noise, step);
  }
  /// Transforms the gradients at `places`.
  void apply(std::vector<Tensor>& gradients, std::span<const size_t> places) const {
    for (const size_t i : places) {
      if (per_gradient_) gradients[i] = transformed(gradients[i], i);
    }
  }
  /// The factor by which the update op must still multiply the gradients.
  Tensor remaining_factor() const { return per_gradient_ ? one() : factor_; }

 private:
  Tensor transformed(Tensor gradient, size_t index) const {
    const Tensor own =
        clip_.norm > 0 ? clipped_factor(factor_, square_sum({&gradient, 1}), clip_.norm) : factor_;
    gradient = gradient * cast(own, gradient.dtype());
    if (clip_.value > 0) gradient = isochron::clip(gradient, -clip_.value, clip_.value);
    if (noise_) noise_->add_to(gradient, index);
    return gradient;
  }

  const Clipping& clip_;
  Tensor factor_;
  bool per_gradient_;
  std::optional<Noise> noise_;
};

/// The slots of LossScale after an update, given whether its gradients were `finite`: scale, clean updates,
/// skipped updates.
std::vector<Tensor> next_scale(const LossScale& options, const Tensor& finite,
                               std::span<const Tensor> slots) {
  const Tensor skipped = slots[2] + cast(logical_not(finite), DType::kI64);
  if (options.growth_interval == 0) return {slots[0], slots[1], skipped};
  const Tensor zero = scalar(0, DType::kI64);
  const Tensor clean = slots[1] + 1.0;
  const Tensor due = clean >= static_cast<double>(options.growth_interval);
  const Tensor larger = slots[0] * options.growth_factor;
  const Tensor grown = where(logical_and(due, larger <= kLargestGrown), larger, slots[0]);
  const Tensor fallen = maximum(slots[0] * options.backoff_factor, options.minimum);
  return {where(finite, grown, fallen), where(logical_and(finite, logical_not(due)), clean, zero), skipped};
}

}  // namespace

/// `uses`: for each entry, whether this step has a gradient for it. With accumulation, `gradients` also has
/// the other entries, because earlier micro-batches may have gradients for them.
Optimizer::Update Optimizer::update_of(const Gradients& gradients, const std::vector<bool>& uses) const {
  Update update;
  update.uses = uses;
  std::vector<size_t> places;  // of the parameters among the entries
  for (size_t i = 0; i < gradients.parameters.size(); ++i) {
    places.push_back(static_cast<size_t>(&entry_of(gradients.parameters[i], i) - entries_.data()));
  }
  const std::vector<size_t> groups =
      participation_ ? participation_->groups(uses) : std::vector<size_t>(entries_.size(), 0);
  update.grouped = std::ranges::any_of(groups, [](size_t group) { return group != 0; });
  std::map<std::pair<bool, size_t>, Update::Call> calls;  // by whether they are of tables, and by group
  for (size_t i = 0; i < places.size(); ++i) {
    const size_t whole = gradients.whole().size(), group = groups[places[i]];
    Update::Call& call = calls.try_emplace({i >= whole, group}, Update::Call{group, places[i]}).first->second;
    call.parameters.push_back(i);
    const Variable &own = gradients.parameters[i], &first = gradients.parameters[call.parameters.front()];
    require(own.dtype() == first.dtype(), ErrorCode::kDtypeMismatch, "optimizer",
            "parameter '{}' is {}, but '{}' is {}; an update takes one dtype: make both layers of the same, "
            "or use "
            "an optimizer for each",
            own.name(), dtype_name(own.dtype()), first.name(), dtype_name(first.dtype()));
    if (i < whole) continue;
    call.rows.push_back(gradients.rows[i - whole]);
    call.counts.push_back(gradients.counts[i - whole]);
  }
  if (adds_l2())
    std::ranges::transform(gradients.parameters, std::back_inserter(update.l2),
                           [&](const Variable& p) { return decay_of(p); });
  update.targets = {step_};
  for (auto& [key, call] : calls) {
    call.first_target = update.targets.size();
    std::vector<Variable> parameters;
    for (const size_t i : call.parameters) parameters.push_back(gradients.parameters[i]);
    update.targets.insert(update.targets.end(), parameters.begin(), parameters.end());
    for (size_t k = 0; k < states_.size(); ++k) {
      for (const size_t i : call.parameters) update.targets.push_back(entries_[places[i]].states[k]);
    }
    call.targets = update.targets.size() - call.first_target;
    call.attributes = attributes_for(parameters);
    if (!call.rows.empty()) call.attributes.set("rule", op_->name);
    update.calls.push_back(std::move(call));
  }
  for (size_t k = 0; k < sum_count(); ++k) {
    for (const size_t place : places) update.sums.push_back(entries_[place].sums[k]);
  }
  if (counts_missed() && update.misses_some()) update.targets.push_back(participation_->missed());
  update.learning_rate = update.targets.size();
  if (!schedule_.constant()) update.targets.push_back(learning_rate_);
  if (options_.ema_decay == 0) return update;
  for (const size_t place : places) update.targets.push_back(entries_[place].average);
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (std::ranges::find(places, i) != places.end()) continue;
    update.resting.push_back(entries_[i].parameter);
    update.targets.push_back(entries_[i].average);
  }
  return update;
}

/// `uses` as in update_of.
void Optimizer::step(std::span<const Variable> parameters, std::vector<Tensor> gradients,
                     const std::vector<bool>& uses, const Tensor& rows) {
  schedules_set_.read([] { return "the optimizer's schedule"; });
  prepared_.read([] { return "which parameters the optimizer has"; });
  const graph::UnobservedScope unobserved;
  Gradients split = by_rows(parameters, gradients);
  Changes changes = gradient_copies(parameters, gradients, rows);
  gradients = std::move(split.gradients);
  Update update = update_of(split, uses);
  std::vector<Variable> targets = update.targets;
  for (const Variable& slot : scale_slots()) targets.push_back(slot);
  const std::vector<Tensor> state = values_of(targets);
  Tensor own_rows = sums_rows() ? rows : Tensor(), due;
  if (accumulates()) gradients = accumulate_gradients(update, gradients, rows, own_rows, due, changes);
  const auto change = [&](std::span<const Tensor> before) {
    std::vector<Tensor> sums = gradients;
    Tensor total_rows = own_rows;
    if (distributed()) exchange(sums, total_rows);
    return scales_loss() ? update_if_finite(update, before, sums, total_rows)
                         : update_parameters(update, before, sums,
                                             sums_rows() ? 1.0 / at_least_one(total_rows) : one(), {});
  };
  const std::vector<Tensor> results = accumulates() ? update_if(due, state, change) : change(state);
  for (size_t i = 0; i < targets.size(); ++i) changes.emplace_back(targets[i], results[i]);
  for (const auto& [variable, value] : changes) variable.assign(value);
}

/// The gradients that are kept; zeros for parameters without a gradient in this step.
Optimizer::Changes Optimizer::gradient_copies(std::span<const Variable> parameters,
                                              std::span<const Tensor> gradients, const Tensor& rows) const {
  Changes changes;
  if (!options_.keep_gradients) return changes;
  for (const Entry& entry : entries_) {
    const auto at = std::ranges::find(parameters, entry.parameter);
    if (at == parameters.end() || !gradients[static_cast<size_t>(at - parameters.begin())].defined()) {
      changes.emplace_back(entry.gradient, constant(zeros(entry.gradient.shape(), entry.gradient.dtype())));
      continue;
    }
    Tensor gradient = gradients[static_cast<size_t>(at - parameters.begin())];
    if (scales_loss()) gradient = gradient / cast(loss_scale_, gradient.dtype());
    if (sums_rows()) gradient = gradient / cast(at_least_one(rows), gradient.dtype());
    changes.emplace_back(entry.gradient, gradient);
  }
  return changes;
}

/// Sums gradients and rows over the ranks in buckets. The last parameters come first, because the backward
/// walk computes their gradients first.
void Optimizer::exchange(std::vector<Tensor>& gradients, Tensor& rows) const {
  std::vector<size_t> bytes;
  for (const Tensor& gradient : gradients) bytes.push_back(gradient.size_bytes());
  size_t end = gradients.size();
  for (const size_t begin : bucket_begins(bytes, options_.bucket_bytes)) {
    const auto first = gradients.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last = gradients.begin() + static_cast<std::ptrdiff_t>(end);
    std::vector<Tensor> bucket(first, last);
    if (begin == 0) bucket.push_back(rows);
    const std::vector<Tensor> sums = all_reduce_gradients(bucket, options_.group, begin == 0);
    std::copy_n(sums.begin(), last - first, first);
    if (begin == 0) rows = sums.back();
    end = begin;
  }
}

/// Adds the gradients to the sums of the group of micro-batches and advances its counters. Sets `due` to
/// whether this is the last micro-batch of the group, and `update.used`.
std::vector<Tensor> Optimizer::accumulate_gradients(Update& update, std::span<const Tensor> gradients,
                                                    const Tensor& rows, Tensor& total_rows, Tensor& due,
                                                    Changes& changes) const {
  const Tensor phase = phase_;
  const Tensor zero = scalar(0, DType::kI64);
  const Tensor continuing = cast(greater(phase, zero), DType::kF64);  // the first one starts a new sum
  total_rows = rows_.tensor() * continuing + rows;
  due = logical_or(flush_, phase >= static_cast<double>(options_.accumulate - 1));
  const Tensor next_phase = where(due, zero, phase + 1.0);
  Tensor used_before;
  if (update.grouped) {
    used_before = (1.0 - participation_->unused().tensor()) * cast(continuing, DType::kI64);
    const Tensor used = maximum(used_before, Participation::mask(update.uses));
    changes.emplace_back(participation_->unused(), 1.0 - used);
    if (!distributed()) update.used = used;
  }
  const std::vector<Tensor> before = values_of(update.sums);
  std::vector<Tensor> totals = before;
  if (options_.exact_sums) {
    TreeSums after = tree_accumulate(phase, due, gradients, before);
    for (size_t i = 0; i < update.sums.size(); ++i) changes.emplace_back(update.sums[i], after.levels[i]);
    totals = std::move(after.totals);
  }
  for (const Update::Call& call : update.calls) {
    if (options_.exact_sums || !update.uses_all(call)) continue;
    const Tensor continues = call.group == 0
                                 ? continuing
                                 : cast(select(used_before, static_cast<int64_t>(call.entry)), DType::kF64);
    std::vector<Tensor> own, sums;
    for (const size_t i : call.parameters) {
      own.push_back(gradients[i]);
      sums.push_back(before[i]);
    }
    const std::vector<Tensor> after = blend(continues, sums, one(), own);
    for (size_t k = 0; k < after.size(); ++k) {
      totals[call.parameters[k]] = after[k];
      changes.emplace_back(update.sums[call.parameters[k]], after[k]);
    }
  }
  changes.emplace_back(phase_, next_phase);
  changes.emplace_back(rows_, total_rows);
  changes.emplace_back(flush_, scalar(0, DType::kBool));
  return totals;
}

/// The sum of the squares of all gradients that take part.
Tensor Optimizer::squares_of(const Update& update, std::span<const Tensor> gradients) const {
  const auto append = [&](const Update::Call& call, std::vector<Tensor>& to) {
    for (const size_t i : call.parameters) to.push_back(gradients[i]);
  };
  std::vector<Tensor> used;
  for (const Update::Call& call : update.calls) {
    if (update.uses_all(call)) append(call, used);
  }
  Tensor squares = square_sum(used);
  for (const Update::Call& call : update.calls) {
    if (update.uses_all(call)) continue;
    std::vector<Tensor> own;
    append(call, own);
    const std::vector<Tensor> none{scalar(0, DType::kF64)};
    squares = squares + update_if(update.used_before(call), none, [&](std::span<const Tensor>) {
                return std::vector<Tensor>{square_sum(own)};
              })[0];
  }
  return squares;
}

/// Calls `update_parameters` with loss scaling, and only if the gradients are finite. The last three of
/// `state` are the slots of the loss scale.
std::vector<Tensor> Optimizer::update_if_finite(const Update& update, std::span<const Tensor> state,
                                                std::span<const Tensor> gradients,
                                                const Tensor& total_rows) const {
  const std::span<const Tensor> slots = state.last(3);
  const Tensor squares = squares_of(update, gradients);
  const Tensor finite = is_finite(squares);
  const Tensor scale = cast(slots[0], DType::kF64);
  const Tensor factor = 1.0 / (total_rows.defined() ? scale * at_least_one(total_rows) : scale);
  std::vector<Tensor> results =
      update_if(finite, state.first(state.size() - slots.size()), [&](std::span<const Tensor> before) {
        return update_parameters(update, before, {gradients.begin(), gradients.end()}, factor, squares);
      });
  for (Tensor& slot : next_scale(options_.loss_scale, finite, slots)) results.push_back(std::move(slot));
  return results;
}

/// The new contents of the update's targets; `state` holds the current contents. The gradients must still be
/// multiplied by `factor`; `squares` is their sum of squares if known, otherwise undefined.
std::vector<Tensor> Optimizer::update_parameters(const Update& update, std::span<const Tensor> state,
                                                 std::vector<Tensor> gradients, Tensor factor,
                                                 const Tensor& squares) const {
  if (options_.clip.global_norm > 0) {
    factor = clipped_factor(factor, squares.defined() ? squares : squares_of(update, gradients),
                            options_.clip.global_norm);
  }
  const GradientTransform transform(options_, adds_l2(), factor, state[0]);
  for (const Update::Call& call : update.calls) {
    if (update.uses_all(call)) transform.apply(gradients, call.parameters);
  }

  Tensor decay, one_minus_decay;  // of the averages; the first update sets them
  if (options_.ema_decay > 0) {
    // Before an update op, which then can overwrite the step count.
    decay = cast(greater(state[0], scalar(0, DType::kI64)), DType::kF64) * options_.ema_decay;
    one_minus_decay = 1.0 - decay;
  }
  const Tensor rate = schedule_.constant() ? learning_rate_.tensor() : state[update.learning_rate];
  const bool misses_some = counts_missed() && update.misses_some();
  const Tensor missed = misses_some       ? state[update.learning_rate - 1]
                        : counts_missed() ? participation_->missed()
                                          : Tensor();
  std::vector<Tensor> results(update.learning_rate);
  std::vector<Tensor> parameters(gradients.size());
  for (const Update::Call& call : std::views::reverse(update.calls)) {
    const bool uses = update.uses_all(call);
    const bool missed_none = !counts_missed() || (uses && call.group == 0);
    const Tensor step = missed_none ? state[0] : Participation::own_steps(state[0], missed, call.entry);
    const auto targets_after = [&](std::span<const Tensor> before) {
      if (!uses) transform.apply(gradients, call.parameters);
      std::vector<Tensor> updated =
          update.results_of(call, *op_, {transform.remaining_factor(), rate, step}, before, gradients);
      if (!call.rows.empty()) return updated;
      if (&call == &update.calls.front() && uses && missed_none) results[0] = updated[0];
      updated.erase(updated.begin());
      return updated;
    };
    const std::span<const Tensor> before = state.subspan(call.first_target, call.targets);
    const std::vector<Tensor> updated =
        uses ? targets_after(before) : update_if(update.used_before(call), before, targets_after);
    for (size_t i = 0; i < call.parameters.size(); ++i) parameters[call.parameters[i]] = updated[i];
    std::ranges::copy(updated, results.begin() + static_cast<std::ptrdiff_t>(call.first_target));
  }
  if (!results[0].defined()) results[0] = state[0] + 1.0;
  if (misses_some) {
    const Tensor used = update.used.defined() ? update.used : Participation::mask(update.uses);
    results.back() = missed + cast(equal(used, scalar(0, DType::kI64)), DType::kI64);
  }
  if (!schedule_.constant()) results.push_back(schedule_(results[0]));
  if (options_.ema_decay > 0) {
    parameters.insert(parameters.end(), update.resting.begin(), update.resting.end());
    for (Tensor& average : blend(decay, state.last(parameters.size()), one_minus_decay, parameters))
      results.push_back(std::move(average));
  }
  return results;
}

}  // namespace isochron::optim
