#include "isochron/optim/optimizer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include <fmt/ranges.h>

#include "isochron/autograd/autograd.h"
#include "isochron/comm/group/world.h"
#include "isochron/core/base/seed.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/core/text/count_text.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/graph/step/arena_storage.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/memory/allocators/static_allocator.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/row_updates.h"
#include "isochron/ops/optimizer/optimizer_updates.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::optim {
namespace {

std::vector<Variable> trainable_of(std::span<const Variable> parameters) {
  std::vector<Variable> result;
  for (const Variable& parameter : parameters) {
    require(parameter.defined(), ErrorCode::kInvalidArgument, "optimizer", "a parameter is undefined");
    require(std::find(result.begin(), result.end(), parameter) == result.end(), ErrorCode::kInvalidArgument,
            "optimizer", "parameter '{}' is listed twice", parameter.name());
    if (parameter.trainable()) result.push_back(parameter);
  }
  require(!parameters.empty(), ErrorCode::kInvalidArgument, "optimizer",
          "the list of parameters is empty; a model builds its parameters at its first call, so list them "
          "after it, in a statement of its own: C++ may evaluate the arguments of one call in any order");
  require(!result.empty(), ErrorCode::kInvalidArgument, "optimizer",
          "none of the {} parameters is trainable; set_trainable(true) thaws one, or those of a module",
          parameters.size());
  return result;
}

/// Throws unless `gradient` fits `parameter`.
void check_gradient(const Variable& parameter, const Tensor& gradient) {
  if (gradient.spec() == parameter.spec()) return;
  fail(gradient.dtype() == parameter.dtype() ? ErrorCode::kShapeMismatch : ErrorCode::kDtypeMismatch,
       "optimizer", "parameter '{}' is {}, its gradient {}", parameter.name(), parameter.spec().str(),
       gradient.spec().str());
}

/// Zeros, which take no memory of their own in a capture. They are -0 because -0 + x is x for every x, while
/// 0 + (-0) is 0.
Tensor no_change(const TensorSpec& spec) {
  const Tensor zero = scalar(-0.0, spec.dtype);
  return spec.shape.rank() == 0 ? zero : broadcast_to(zero, spec.shape);
}

/// The trainable variables that `loss` has a differentiable path to and that aren't among `parameters`.
std::vector<Tensor> others_behind(const Tensor& loss, std::span<const Variable> parameters) {
  GradientTape* const tape = GradientTape::current();
  std::set<const Storage*> known;
  for (const Variable& parameter : parameters) known.insert(parameter.tensor().storage().get());
  std::vector<Tensor> others;
  for (const Tensor& leaf : graph::Capture::current() ? leaves(loss) : tape->leaves(loss)) {
    const std::optional<VariableInfo> variable = variable_behind(leaf);
    if (variable && variable->trainable && known.insert(leaf.storage().get()).second) others.push_back(leaf);
  }
  return others;
}

/// If `loss` was computed from a result of a captured function outside of it: "the next call of captured
/// 'f'", which would replace that result. Empty otherwise.
std::string captured_behind(const GradientTape& tape, const Tensor& loss) {
  for (const Tensor& leaf : tape.leaves(loss)) {
    const auto* arena = dynamic_cast<const ArenaStorage*>(leaf.storage().get());
    if (arena != nullptr) return arena->owner();
  }
  return "";
}

/// Throws an error that names the variables in `others` that have a gradient.
void refuse_untrained(std::span<const Tensor> others, std::span<const Tensor> gradients, size_t given) {
  constexpr size_t kNamed = 8;
  std::vector<std::string> names;
  for (size_t i = 0; i < others.size(); ++i) {
    if (gradients[i].defined()) names.push_back(fmt::format("'{}'", variable_behind(others[i])->name));
  }
  if (names.empty()) return;
  const size_t count = names.size();
  if (count > kNamed) names.resize(kNamed);
  fail(ErrorCode::kInvalidArgument, "minimize",
       "the loss also trains {} that the {} parameters given leave out: {}{}; name them in the "
       "model's members or give them too, freeze them with set_trainable(false), put stop_gradient before "
       "them, or set allow_untrained in the step options",
       count_text(count, "variable"), given, fmt::join(names, ", "),
       count > kNamed ? fmt::format(" and {} more", count - kNamed) : "");
}

Variable slot(const char* name, double value, DType dtype) {
  return Variable(full({}, value, dtype), name, false);
}

void require_between_steps(std::string_view where, std::string_view instead) {
  require(graph::Capture::current() == nullptr, ErrorCode::kCaptureViolation, where,
          "it would happen at every replay; call it between steps{}", instead);
}

}  // namespace

Optimizer::Optimizer(Rule rule, Schedule learning_rate, WeightDecay weight_decay, StepOptions options)
    : op_(&ops::row(rule.op)),
      attributes_(std::move(rule.attributes)),
      states_(std::move(rule.states)),
      schedule_(std::move(learning_rate)),
      weight_decay_(std::move(weight_decay)),
      options_(std::move(options)) {
  ops::check_update_attributes(*op_, attributes_);
  check_options();
  if (!options_.noise.seed) options_.noise.seed = default_seed("gradient_noise");
  if (!options_.group) options_.group = comm::world();
  const graph::EagerScope eager;
  learning_rate_ = slot("learning_rate", schedule_.at(0), DType::kF64);
  step_ = slot("step", 0, DType::kI64);
  if (accumulates()) {
    phase_ = slot("phase", 0, DType::kI64);
    rows_ = slot("rows", 0, DType::kF64);
    flush_ = slot("flush", 0, DType::kBool);
  }
  if (scales_loss()) {
    loss_scale_ = slot("loss_scale", options_.loss_scale.initial, DType::kF32);
    clean_updates_ = slot("clean_updates", 0, DType::kI64);
    skipped_ = slot("skipped_steps", 0, DType::kI64);
  }
}

void Optimizer::check_options() const {
  const auto check = [](bool good, std::string_view what, double value) {
    require(good, ErrorCode::kInvalidArgument, "optimizer", "{}, got {}", what, value);
  };
  const auto natural = [](double value) {  // finite in f32 too, the dtype of most parameters
    return value >= 0 && value <= std::numeric_limits<float>::max();
  };
  check(natural(weight_decay_.rate), "the weight decay must be finite and >= 0", weight_decay_.rate);
  for (const ParameterGroup& group : options_.parameter_groups) {
    require(group.holds.defined(), ErrorCode::kInvalidArgument, "optimizer",
            "a parameter group must say by `holds` what it holds");
    check(natural(group.learning_rate_factor), "a group's learning rate factor must be finite and >= 0",
          group.learning_rate_factor);
    const double decay = group.weight_decay.value_or(0);
    check(natural(decay), "a group's weight decay must be finite and >= 0", decay);
  }
  check(options_.accumulate >= 1, "accumulate must be >= 1", static_cast<double>(options_.accumulate));
  check(!options_.exact_sums || std::has_single_bit(static_cast<uint64_t>(options_.accumulate)),
        "with exact_sums, accumulate must be a power of two", static_cast<double>(options_.accumulate));
  check(options_.bucket_bytes > 0, "bucket_bytes must be > 0", 0);
  const LossScale& scale = options_.loss_scale;
  check(scale.initial == 0 || (scale.initial >= 0x1p-126 && scale.initial <= 0x1p126),
        "a loss scale must be 0 or lie in [2^-126, 2^126]", scale.initial);
  check(scale.growth_interval >= 0, "growth_interval must be >= 0",
        static_cast<double>(scale.growth_interval));
  check(scale.growth_factor > 1 && std::isfinite(scale.growth_factor), "growth_factor must be above 1",
        scale.growth_factor);
  check(scale.backoff_factor > 0 && scale.backoff_factor < 1, "backoff_factor must lie in (0, 1)",
        scale.backoff_factor);
  check(scale.growth_interval == 0 || scale.initial == 0 ||
            (scale.minimum >= 0x1p-126 && scale.minimum <= scale.initial),
        "a changing loss scale's minimum must lie in [2^-126, initial]", scale.minimum);
  const Clipping& clip = options_.clip;
  for (const double limit : {clip.value, clip.norm, clip.global_norm})
    check(natural(limit), "a clipping limit must be finite and >= 0", limit);
  require((clip.value > 0) + (clip.norm > 0) + (clip.global_norm > 0) <= 1, ErrorCode::kInvalidArgument,
          "optimizer", "set at most one option of Clipping, got value {}, norm {}, global_norm {}",
          clip.value, clip.norm, clip.global_norm);
  check(natural(options_.noise.eta), "the noise's eta must be finite and >= 0", options_.noise.eta);
  check(natural(options_.noise.gamma), "the noise's gamma must be finite and >= 0", options_.noise.gamma);
  check(options_.ema_decay >= 0 && options_.ema_decay < 1, "ema_decay must lie in [0, 1)",
        options_.ema_decay);
}

bool Optimizer::counts_missed() const { return ops::update_reads_step(*op_); }

void Optimizer::require_own_weights(std::string_view what) const {
  require(averaged_.read([] { return "whether AveragedWeights live"; }) == 0, ErrorCode::kInvalidArgument,
          "optimizer", "{} while AveragedWeights stand in for the parameters; end their scope first", what);
}

void Optimizer::require_here() const {
  require(step_.defined(), ErrorCode::kInvalidArgument, "optimizer",
          "it was moved from; use the one that it was moved to");
}

void Optimizer::minimize(const Tensor& loss, std::span<const Variable> parameters, double rows) {
  require_here();
  require(rows > 0 && std::isfinite(rows), ErrorCode::kInvalidArgument, "minimize",
          "rows must be finite and > 0, got {}", rows);
  minimize(loss, parameters, sums_rows() ? scalar(rows, DType::kF64) : Tensor());
}

void Optimizer::minimize(const Tensor& loss, std::span<const Variable> parameters, const Tensor& rows) {
  require_here();
  require(loss.defined() && loss.elems() == 1, ErrorCode::kShapeMismatch, "minimize",
          "the loss is {}, expected one number; take its mean()",
          loss.defined() ? loss.spec().str() : "undefined");
  const std::vector<Variable> trainable = trainable_of(parameters);
  GradientTape* const tape = GradientTape::current();
  require(graph::Capture::current() || tape != nullptr, ErrorCode::kCaptureViolation, "minimize",
          "the loss was not recorded, so it has no gradient; compute it in a captured function or under a "
          "GradientTape");
  // Must come before the loss scale is read, because prepare() moves it to the device.
  if (scales_loss() && entries_.empty() && !trainable.front().device().is_cpu()) prepare(parameters);
  std::vector<Tensor> sources(trainable.begin(), trainable.end());
  std::vector<Tensor> others;
  if (!options_.allow_untrained) others = others_behind(loss, parameters);
  sources.insert(sources.end(), others.begin(), others.end());
  const ops::RowGradientScope scope;
  check_rows(rows);
  // A large number of rows can't be represented in 16 bits; the gradients of f32 parameters can hold it.
  const bool rows_later = sums_rows() && is_half(loss.dtype());
  const Tensor target = sums_rows() && !rows_later ? scaled(loss) * cast(rows, loss.dtype()) : scaled(loss);
  const bool eager = !graph::Capture::current();
  const std::string opaque = eager && entries_.empty() ? captured_behind(*tape, loss) : "";
  const std::vector<Tensor> found = !eager ? gradients(target, sources) : tape->gradient(target, sources);
  refuse_untrained(others, std::span(found).last(others.size()), parameters.size());
  std::vector<Tensor> by_parameter(parameters.size());
  for (size_t i = 0, next = 0; i < parameters.size(); ++i) {
    if (!parameters[i].trainable()) continue;
    by_parameter[i] = found[next++];
    require(by_parameter[i].defined() || opaque.empty() || options_.allow_unused, ErrorCode::kInvalidArgument,
            "minimize",
            "parameter '{}' has no gradient: the loss is computed from a result that {} replaces, and a "
            "GradientTape "
            "doesn't see into captured functions; call minimize inside the captured function",
            parameters[i].name(), opaque);
    if (rows_later && by_parameter[i].defined())
      by_parameter[i] = by_parameter[i] * cast(rows, by_parameter[i].dtype());
  }
  apply_sums(parameters, by_parameter, rows);
}

void Optimizer::apply(std::span<const Variable> parameters, std::span<const Tensor> gradients, double rows) {
  require_here();
  require(rows > 0 && std::isfinite(rows), ErrorCode::kInvalidArgument, "optimizer",
          "rows must be finite and > 0, got {}", rows);
  apply(parameters, gradients, sums_rows() ? scalar(rows, DType::kF64) : Tensor());
}

void Optimizer::apply(std::span<const Variable> parameters, std::span<const Tensor> gradients,
                      const Tensor& rows) {
  require_here();
  check_rows(rows);
  if (!sums_rows()) return apply_sums(parameters, gradients, rows);
  std::vector<Tensor> of_sums;
  for (const Tensor& gradient : gradients)
    of_sums.push_back(gradient.defined() ? gradient * cast(rows, gradient.dtype()) : Tensor());
  apply_sums(parameters, of_sums, rows);
}

void Optimizer::apply_nothing(std::span<const Variable> parameters) {
  require_here();
  require(sums_rows(), ErrorCode::kInvalidArgument, "optimizer",
          "there is nothing to take part in: one process updates at every step");
  std::vector<Tensor> nothing;
  for (const Variable& parameter : parameters) nothing.push_back(no_change(parameter.spec()));
  apply_sums(parameters, nothing, scalar(0, DType::kF64));
}

/// If the rows are needed, throws unless they are a single f64 number.
void Optimizer::check_rows(const Tensor& rows) const {
  const TensorSpec expected{DType::kF64, {}};
  require(!sums_rows() || (rows.defined() && rows.spec() == expected), ErrorCode::kInvalidArgument,
          "optimizer", "rows must be {}, got {}", expected.str(),
          rows.defined() ? rows.spec().str() : "an undefined tensor");
}

/// Orders the parameters and their gradients as the entries are, so that neither ranks that exchange them nor
/// random numbers depend on how a caller lists the parameters.
void Optimizer::put_in_order(std::vector<Variable>& parameters, std::vector<Tensor>& gradients) const {
  std::vector<std::pair<const Entry*, size_t>> places;
  for (size_t i = 0; i < parameters.size(); ++i) places.emplace_back(&entry_of(parameters[i], i), i);
  if (std::ranges::is_sorted(places)) return;  // as nearly always
  std::ranges::sort(places);
  std::vector<Variable> ordered;
  std::vector<Tensor> theirs;
  for (const auto& [entry, i] : places) {
    ordered.push_back(parameters[i]);
    theirs.push_back(gradients[i]);
  }
  parameters = std::move(ordered);
  gradients = std::move(theirs);
}

/// If `sums_rows`, the gradients are those of the loss summed over rows.
void Optimizer::apply_sums(std::span<const Variable> parameters, std::span<const Tensor> gradients,
                           const Tensor& rows) {
  require(parameters.size() == gradients.size(), ErrorCode::kInvalidArgument, "optimizer",
          "expected one gradient for each of the {} parameters, got {}", parameters.size(), gradients.size());
  const std::vector<Variable> trainable = trainable_of(parameters);
  std::vector<Variable> used;
  std::vector<Tensor> checked;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Variable& parameter = parameters[i];
    if (!parameter.trainable()) continue;
    const bool missing = !gradients[i].defined();
    require(
        !missing || options_.allow_unused, ErrorCode::kInvalidArgument, "optimizer",
        "the loss doesn't depend on parameter '{}'; freeze it with set_trainable(false), leave it out, or "
        "set allow_unused in the step options",
        parameter.name());
    if (missing && !distributed()) continue;  // another rank may use it
    used.push_back(parameter);
    checked.push_back(missing ? Tensor() : gradients[i]);
    if (!missing) check_gradient(parameter, gradients[i]);
  }
  require(std::ranges::any_of(checked, &Tensor::defined), ErrorCode::kInvalidArgument, "optimizer",
          "the loss depends on none of the {} trainable parameters", trainable.size());
  require_own_weights("a step can't run");
  const bool first = entries_.empty();
  try {
    if (first) prepare(parameters);
    for (size_t i = 0; i < trainable.size(); ++i) static_cast<void>(entry_of(trainable[i], i));
    std::vector<bool> uses(entries_.size());
    for (size_t i = 0; i < used.size(); ++i) {
      uses[static_cast<size_t>(&entry_of(used[i], i) - entries_.data())] = true;
      if (!checked[i].defined()) checked[i] = no_change(used[i].spec());
    }
    for (size_t i = 0; i < uses.size(); ++i) {
      if (uses[i] || !accumulates() || distributed()) continue;
      used.push_back(entries_[i].parameter);
      checked.push_back(exact_sums() ? no_change(used.back().spec()) : Tensor());
    }
    put_in_order(used, checked);
    step(used, std::move(checked), uses, rows);
  } catch (...) {
    if (first) {  // rejected parameters don't belong to the optimizer
      entries_.clear();
      participation_.reset();
    }
    throw;
  }
}

/// Throws if a group or the weight decay's filter holds for none of `parameters`, usually because of a
/// misspelled name.
void Optimizer::check_filters(std::span<const Variable> parameters) const {
  for (size_t g = 0; g < options_.parameter_groups.size(); ++g) {
    require(std::ranges::any_of(
                parameters, [&](const Variable& p) { return group_of(p) == &options_.parameter_groups[g]; }),
            ErrorCode::kInvalidArgument, "optimizer",
            "parameter group {} holds none of the {} parameters (the first is '{}'){}; fix its `holds`, or "
            "leave the group out",
            g, parameters.size(), parameters.front().name(),
            std::ranges::any_of(parameters,
                                [&](const Variable& p) { return options_.parameter_groups[g].holds(p); })
                ? ", because earlier groups already hold all that it would"
                : "");
  }
  require(!weight_decay_.applies.defined() || std::ranges::any_of(parameters, weight_decay_.applies),
          ErrorCode::kInvalidArgument, "optimizer",
          "the weight decay applies to none of the {} parameters (the first is '{}'); fix its `applies`",
          parameters.size(), parameters.front().name());
}

void Optimizer::prepare(std::span<const Variable> parameters) {
  require_here();
  std::vector<Variable> added;
  for (const Variable& parameter : trainable_of(parameters)) {
    if (std::ranges::find(entries_, parameter, &Entry::parameter) == entries_.end())
      added.push_back(parameter);
  }
  if (added.empty()) return;
  require_own_weights("parameters can't be added");
  const Device device = added.front().device();
  require(!distributed() || device.is_cpu(), ErrorCode::kUnsupported, "optimizer",
          "{} ranks can train only on CPUs, but the parameters live on {}; to train on a device, start one "
          "process",
          group().size(), device.str());
  if (entries_.empty()) check_filters(parameters);
  const graph::EagerScope eager;
  const auto unnamed = [](const Tensor& initial) { return Variable(initial, "", false); };
  std::vector<Entry> entries;
  for (const Variable& parameter : added) {
    Entry entry{parameter, {}, {}, {}, {}};
    for (size_t k = 0; k < states_.size(); ++k) {
      const Shape shape = ops::update_state_shape(*op_, parameter.shape(), k);
      entry.states.push_back(unnamed(full(shape, states_[k].initial, parameter.dtype())));
    }
    const auto zero = [&] { return zeros(parameter.shape(), parameter.dtype()); };
    for (size_t k = 0; k < sum_count(); ++k) entry.sums.push_back(unnamed(zero()));
    if (options_.ema_decay > 0) entry.average = unnamed(parameter);
    if (options_.keep_gradients) entry.gradient = Variable(zero(), parameter.name(), false);
    entries.push_back(std::move(entry));
  }
  if (!entries_.empty() && participation_) {
    participation_->add(added.size(), step_count(), phase() > 0);
  } else if (counts_missed() || accumulates()) {
    participation_.emplace(added.size());
  }
  entries_.insert(entries_.end(), entries.begin(), entries.end());
  prepared_.set(std::ssize(entries_));
  for (const Variable& slot_or_state : state()) slot_or_state.move_to(device);
  for (const Variable& gradient : kept_gradients()) gradient.move_to(device);
  count(Counter::kOptimizerStates, 1);
}

graph::Attributes Optimizer::attributes_for(std::span<const Variable> parameters) const {
  std::vector<double> rate_factors;
  std::vector<double> weight_decays;
  for (const Variable& parameter : parameters) {
    const ParameterGroup* group = group_of(parameter);
    rate_factors.push_back(group ? group->learning_rate_factor : 1);
    weight_decays.push_back(adds_l2() ? 0 : decay_of(parameter));
  }
  graph::Attributes attributes = attributes_;
  const auto set = [&](std::string_view name, std::vector<double> numbers, double usual) {
    const auto differs = [usual](double number) { return number != usual; };
    if (std::any_of(numbers.begin(), numbers.end(), differs)) attributes.set(name, std::move(numbers));
  };
  set("rate_factors", std::move(rate_factors), 1);
  set("weight_decays", std::move(weight_decays), 0);
  return attributes;
}

double Optimizer::decay_of(const Variable& parameter) const {
  const ParameterGroup* group = group_of(parameter);
  if (group && group->weight_decay) return *group->weight_decay;
  return !weight_decay_.applies.defined() || weight_decay_.applies(parameter) ? weight_decay_.rate : 0;
}

bool Optimizer::adds_l2() const {
  const auto decays = [](const ParameterGroup& group) { return group.weight_decay.value_or(0) > 0; };
  return weight_decay_.l2 &&
         (weight_decay_.rate > 0 || std::ranges::any_of(options_.parameter_groups, decays));
}

const ParameterGroup* Optimizer::group_of(const Variable& parameter) const {
  for (const ParameterGroup& group : options_.parameter_groups) {
    if (group.holds(parameter)) return &group;
  }
  return nullptr;
}

const Optimizer::Entry& Optimizer::entry_of(const Variable& parameter, size_t hint) const {
  if (hint < entries_.size() && entries_[hint].parameter == parameter) return entries_[hint];
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.parameter == parameter; });
  require(
      found != entries_.end(), ErrorCode::kInvalidArgument, "optimizer",
      "parameter '{}' was not among the {} that the first step updated: it was left out then, or frozen, "
      "or its layer is made anew within a captured function; add it by prepare(), or make layers outside of "
      "captured functions",
      parameter.name(), entries_.size());
  return *found;
}

double Optimizer::learning_rate() const { return learning_rate_.tensor().item<double>(); }

void Optimizer::set_learning_rate(double learning_rate) {
  require(std::isfinite(learning_rate) && learning_rate >= 0, ErrorCode::kInvalidArgument, "optimizer",
          "the learning rate must be finite and >= 0, got {}", learning_rate);
  require(schedule_.constant(), ErrorCode::kInvalidArgument, "set_learning_rate",
          "a schedule computes the learning rate of every step; make the optimizer with a number");
  require_between_steps("set_learning_rate",
                        ", or compute the rate in ops and assign it to learning_rate_slot()");
  learning_rate_.assign(full({}, learning_rate, DType::kF64));
}

void Optimizer::set_learning_rate_factor(size_t group, double factor) {
  require_between_steps("set_learning_rate_factor", "");
  std::vector<ParameterGroup>& groups = options_.parameter_groups;
  require(group < groups.size(), ErrorCode::kOutOfRange, "set_learning_rate_factor",
          "there is no parameter group {}; the optimizer has {}", group, groups.size());
  require(factor >= 0 && factor <= std::numeric_limits<float>::max(), ErrorCode::kInvalidArgument,
          "set_learning_rate_factor", "the factor must be finite and >= 0, got {}", factor);
  if (first_factors_.empty())
    std::ranges::transform(groups, std::back_inserter(first_factors_), &ParameterGroup::learning_rate_factor);
  if (std::exchange(groups[group].learning_rate_factor, factor) == factor) return;
  schedules_set_.set(schedules_set_.value() + 1);
}

void Optimizer::set_schedule(Schedule schedule) {
  require_between_steps("set_schedule", "");
  const double rate = schedule.at(step_count());
  schedule_ = std::move(schedule);
  schedules_set_.set(schedules_set_.value() + 1);
  learning_rate_.assign(full({}, rate, DType::kF64));
}

int64_t Optimizer::step_count() const { return step_.tensor().item<int64_t>(); }

int64_t Optimizer::phase() const {
  require_here();
  return accumulates() ? phase_.tensor().item<int64_t>() : 0;
}

void Optimizer::drop_micro_batches() {
  require_between_steps("drop_micro_batches", "");
  if (!accumulates()) return;
  phase_.assign(scalar(0, DType::kI64));  // the next micro-batch then starts new sums
  flush_.assign(scalar(0, DType::kBool));
}

void Optimizer::flush_next() {
  require_between_steps("flush_next", "");
  static const Tensor yes = [] {  // the last step of an epoch must not allocate either
    const AllocatorScope scope(static_allocator());
    return scalar(1, DType::kBool);
  }();
  if (accumulates()) flush_.assign(yes);
}

/// One per gradient, or one per gradient and level of a tree.
size_t Optimizer::sum_count() const {
  if (!accumulates()) return 0;
  if (!options_.exact_sums) return 1;
  return static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(options_.accumulate)));
}

Tensor Optimizer::scaled(const Tensor& loss) const {
  require_here();
  return scales_loss() ? loss * cast(loss_scale_, loss.dtype()) : loss;
}

double Optimizer::loss_scale() const {
  require_here();
  return scales_loss() ? loss_scale_.tensor().item<double>() : 1;
}

int64_t Optimizer::skipped_steps() const {
  require_here();
  return scales_loss() ? skipped_.tensor().item<int64_t>() : 0;
}

std::vector<Variable> Optimizer::scale_slots() const {
  if (!scales_loss()) return {};
  return {loss_scale_, clean_updates_, skipped_};
}

}  // namespace isochron::optim
