// What checkpoints save of an optimizer, and what runs and ranks compare.
#include <set>

#include "isochron/optim/optimizer.h"

namespace isochron::optim {

std::vector<Variable> Optimizer::parameters() const {
  require_here();
  std::vector<Variable> result;
  for (const Entry& entry : entries_) result.push_back(entry.parameter);
  return result;
}

std::vector<Variable> Optimizer::kept_gradients() const {
  require_here();
  name_slots();
  std::vector<Variable> result;
  for (const Entry& entry : entries_) {
    if (entry.gradient.defined()) result.push_back(entry.gradient);
  }
  return result;
}

/// Names the slots after their parameters, which a module may have renamed since.
void Optimizer::name_slots() const {
  std::set<std::string> names;
  for (const Entry& entry : entries_) {
    const std::string& parameter = entry.parameter.name();
    const auto name = [&](const Variable& slot, std::string_view what) {
      std::string unique = fmt::format("{}/{}", parameter, what);
      for (int n = 2; !names.insert(unique).second; ++n) unique = fmt::format("{}_{}/{}", parameter, n, what);
      if (slot.name() != unique) slot.rename(std::move(unique));
    };
    for (size_t k = 0; k < entry.states.size(); ++k) name(entry.states[k], states_[k].name);
    for (size_t k = 0; k < entry.sums.size(); ++k)
      name(entry.sums[k], k == 0 ? "gradient_sum" : fmt::format("gradient_sum_{}", k));
    if (entry.average.defined()) name(entry.average, "average");
    if (entry.gradient.defined() && entry.gradient.name() != parameter) entry.gradient.rename(parameter);
  }
}

std::vector<Variable> Optimizer::state() const {
  require_here();
  require_own_weights("its state can't be saved or restored");
  name_slots();
  std::vector<Variable> result = {learning_rate_, step_};
  if (accumulates()) result.insert(result.end(), {phase_, rows_, flush_});
  for (const Variable& slot_of_scale : scale_slots()) result.push_back(slot_of_scale);
  if (counts_missed() && participation_) result.push_back(participation_->missed());
  if (accumulates() && participation_) result.push_back(participation_->unused());
  for (const Entry& entry : entries_) {
    result.insert(result.end(), entry.states.begin(), entry.states.end());
    result.insert(result.end(), entry.sums.begin(), entry.sums.end());
    if (entry.average.defined()) result.push_back(entry.average);
  }
  return result;
}

std::vector<std::pair<std::string, std::string>> Optimizer::choices() const {
  std::string groups = "none";
  for (size_t g = 0; g < options_.parameter_groups.size(); ++g) {
    const ParameterGroup& group = options_.parameter_groups[g];
    groups = (g == 0 ? "" : groups + ", ") +
             fmt::format("learning rate times {}",
                         first_factors_.empty() ? group.learning_rate_factor : first_factors_[g]);
    if (group.weight_decay) groups += fmt::format(" and weight decay {}", *group.weight_decay);
  }
  return {
      {"rule", fmt::format("{} {}", op_->name, attributes_.str())},
      {"initial learning rate", schedule_.constant() ? fmt::format("{}", schedule_.at(0)) : "a schedule"},
      {"weight decay", fmt::format("{}{}", weight_decay_.rate, weight_decay_.l2 ? " in the gradient" : "")},
      {"parameter groups", groups},
      {"loss scale", fmt::format("{}, growth interval {}", options_.loss_scale.initial,
                                 options_.loss_scale.growth_interval)},
      {"loss scale's changes",
       fmt::format("factors {} and {}, at least {}", options_.loss_scale.growth_factor,
                   options_.loss_scale.backoff_factor, options_.loss_scale.minimum)},
      {"micro-batches per update", fmt::format("{}", options_.accumulate * group().size())},
      {"gradient noise", fmt::format("eta {}, gamma {}", options_.noise.eta, options_.noise.gamma)},
      {"gradient clipping", fmt::format("value {}, norm {}, global norm {}", options_.clip.value,
                                        options_.clip.norm, options_.clip.global_norm)},
      {"decay of averages", fmt::format("{}", options_.ema_decay)}};
}

std::vector<std::string> Optimizer::description() const {
  require_here();
  std::vector<std::string> lines = {
      fmt::format("optimizer {} {}", op_->name, attributes_.str()),
      fmt::format("learning rate {:.17g}{}", learning_rate(), schedule_.constant() ? "" : " by a schedule"),
      fmt::format("weight decay {:.17g}, L2 {}, {} groups", weight_decay_.rate, weight_decay_.l2,
                  options_.parameter_groups.size()),
      fmt::format("accumulate {}, exact sums {}, buckets of {} bytes", options_.accumulate,
                  options_.exact_sums, options_.bucket_bytes),
      fmt::format("loss scale {:g}, growth interval {}", options_.loss_scale.initial,
                  options_.loss_scale.growth_interval),
      fmt::format("clipping {:.17g} {:.17g} {:.17g}", options_.clip.value, options_.clip.norm,
                  options_.clip.global_norm),
      fmt::format("gradient noise {:.17g}, seed {}, average decay {:.17g}", options_.noise.eta,
                  options_.noise.seed.value_or(0), options_.ema_decay),
      fmt::format("step {}", step_count())};
  constexpr int64_t kLaterRates = int64_t{1} << 20;
  for (int64_t steps = 1; !schedule_.constant() && steps <= kLaterRates; steps *= 2)
    lines.push_back(fmt::format("learning rate {:.17g} after {} steps", schedule_.at(steps), steps));
  for (const Entry& entry : entries_) {
    const Variable& parameter = entry.parameter;
    const ParameterGroup* group = group_of(parameter);
    lines.push_back(fmt::format("parameter '{}' {}, learning rate times {:.17g}, weight decay {:.17g}",
                                parameter.name(), parameter.spec().str(),
                                group ? group->learning_rate_factor : 1, decay_of(parameter)));
  }
  return lines;
}

size_t Optimizer::state_bytes() const {
  size_t bytes = 0;
  for (const Entry& entry : entries_) {
    for (const Variable& state : entry.states) bytes += state.size_bytes();
    for (const Variable& sum : entry.sums) bytes += sum.size_bytes();
    if (entry.average.defined()) bytes += entry.average.size_bytes();
    if (entry.gradient.defined()) bytes += entry.gradient.size_bytes();
  }
  return bytes;
}

}  // namespace isochron::optim
