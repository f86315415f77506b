#include "isochron/optim/optimizers.h"

#include <cmath>

namespace isochron::optim {
namespace {

/// The attributes that Adam and its variants have in common.
template <typename Options>
graph::Attributes moments(const Options& options) {
  return {{"beta_1", options.beta_1}, {"beta_2", options.beta_2}, {"epsilon", options.epsilon}};
}

template <typename Options>
graph::Attributes adam_attributes(const Options& options, bool epsilon_after_correction) {
  graph::Attributes attributes = moments(options);
  attributes.set("amsgrad", options.amsgrad);
  attributes.set("epsilon_after_correction", epsilon_after_correction);
  return attributes;
}

graph::Attributes with(graph::Attributes attributes, std::string_view name, graph::AttributeValue value) {
  attributes.set(name, std::move(value));
  return attributes;
}

}  // namespace

Sgd::Sgd(const SgdOptions& options)
    : Optimizer({"sgd_update",
                 {{"momentum", options.momentum},
                  {"nesterov", options.nesterov},
                  {"learning_rate_outside_velocity", options.learning_rate_outside_velocity}},
                 options.momentum > 0 ? std::vector<State>{{"velocity"}} : std::vector<State>{}},
                options.learning_rate, options.weight_decay, options.step) {}

Adam::Adam(const AdamOptions& options)
    : Optimizer(
          {"adam_update", adam_attributes(options, options.epsilon_after_correction),
           options.amsgrad ? std::vector<State>{{"mean_gradient"}, {"mean_square"}, {"largest_mean_square"}}
                           : std::vector<State>{{"mean_gradient"}, {"mean_square"}}},
          options.learning_rate, options.weight_decay, options.step) {}

AdamW::AdamW(const AdamWOptions& options)
    : Optimizer(
          {"adam_update", adam_attributes(options, true),
           options.amsgrad ? std::vector<State>{{"mean_gradient"}, {"mean_square"}, {"largest_mean_square"}}
                           : std::vector<State>{{"mean_gradient"}, {"mean_square"}}},
          options.learning_rate, options.weight_decay, options.step) {}

RmsProp::RmsProp(const RmsPropOptions& options)
    : Optimizer({"rmsprop_update",
                 {{"rho", options.rho},
                  {"momentum", options.momentum},
                  {"epsilon", options.epsilon},
                  {"centered", options.centered},
                  {"epsilon_outside_root", options.epsilon_outside_root},
                  {"learning_rate_outside_velocity", options.learning_rate_outside_velocity}},
                 [&] {
                   std::vector<State> states = {{"mean_square"}};
                   if (options.centered) states.push_back({"mean_gradient"});
                   if (options.momentum > 0) states.push_back({"velocity"});
                   return states;
                 }()},
                options.learning_rate, options.weight_decay, options.step) {}

Adagrad::Adagrad(const AdagradOptions& options)
    : Optimizer({"adagrad_update",
                 {{"epsilon", options.epsilon}, {"epsilon_outside_root", options.epsilon_outside_root}},
                 {{"square_sum", options.initial_square_sum}}},
                options.learning_rate, options.weight_decay, options.step) {
  require(std::isfinite(options.initial_square_sum) && options.initial_square_sum >= 0,
          ErrorCode::kInvalidArgument, "adagrad", "initial_square_sum must be finite and >= 0, got {}",
          options.initial_square_sum);
}

Adadelta::Adadelta(const AdadeltaOptions& options)
    : Optimizer({"adadelta_update",
                 {{"rho", options.rho}, {"epsilon", options.epsilon}},
                 {{"mean_square"}, {"mean_square_move"}}},
                options.learning_rate, options.weight_decay, options.step) {}

Adamax::Adamax(const AdamaxOptions& options)
    : Optimizer({"adamax_update",
                 with(moments(options), "epsilon_within_norm", options.epsilon_within_norm),
                 {{"mean_gradient"}, {"largest_gradient"}}},
                options.learning_rate, options.weight_decay, options.step) {}

Nadam::Nadam(const NadamOptions& options)
    : Optimizer({"nadam_update",
                 with(moments(options), "momentum_decay", options.momentum_decay),
                 {{"mean_gradient"}, {"mean_square"}}},
                options.learning_rate, options.weight_decay, options.step) {}

RAdam::RAdam(const RAdamOptions& options)
    : Optimizer({"radam_update", moments(options), {{"mean_gradient"}, {"mean_square"}}},
                options.learning_rate, options.weight_decay, options.step) {}

Lion::Lion(const LionOptions& options)
    : Optimizer(
          {"lion_update", {{"beta_1", options.beta_1}, {"beta_2", options.beta_2}}, {{"mean_gradient"}}},
          options.learning_rate, options.weight_decay, options.step) {}

Rprop::Rprop(const RpropOptions& options)
    : Optimizer({"rprop_update",
                 {{"eta_minus", options.eta_minus},
                  {"eta_plus", options.eta_plus},
                  {"min_step", options.min_step},
                  {"max_step", options.max_step}},
                 {{"previous_gradient"}, {"step_size"}}},
                options.learning_rate, options.weight_decay, options.step) {}

Adafactor::Adafactor(const AdafactorOptions& options)
    : Optimizer({"adafactor_update",
                 {{"beta_2_decay", options.beta_2_decay},
                  {"epsilon_1", options.epsilon_1},
                  {"epsilon_2", options.epsilon_2},
                  {"clip_threshold", options.clip_threshold}},
                 {{"row_mean_square"}, {"column_mean_square"}}},
                options.learning_rate, options.weight_decay, options.step) {}

Lamb::Lamb(const LambOptions& options)
    : Optimizer({"lamb_update", moments(options), {{"mean_gradient"}, {"mean_square"}}},
                options.learning_rate, options.weight_decay, options.step) {}

Muon::Muon(const MuonOptions& options)
    : Optimizer(
          {"muon_update",
           {{"momentum", options.momentum},
            {"nesterov", options.nesterov},
            {"coefficients", std::vector<double>(options.coefficients.begin(), options.coefficients.end())},
            {"iterations", options.iterations},
            {"epsilon", options.epsilon},
            {"match_rms_adamw", options.match_rms_adamw}},
           {{"momentum"}}},
          options.learning_rate, options.weight_decay, options.step) {
  require(options.iterations >= 0 && options.iterations < 100, ErrorCode::kInvalidArgument, "muon",
          "iterations must be 0 to 99, got {}", options.iterations);
}

}  // namespace isochron::optim
