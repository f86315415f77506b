#include "isochron/apps/train/optimizers.h"

namespace isochron::apps {
namespace {

using optim::Optimizer;
using optim::StepOptions;

bool is_matrix(const Variable& parameter) { return parameter.shape().rank() >= 2; }

template <typename Kind, typename Options>
Optimizer with(Options options, double learning_rate, const StepOptions& step) {
  options.learning_rate = learning_rate;
  options.step = step;
  return Kind(options);
}

template <typename Kind, typename Options>
Optimizer make(double learning_rate, const StepOptions& step) {
  return with<Kind>(Options(), learning_rate, step);
}

Optimizer amsgrad(double learning_rate, const StepOptions& step) {
  return with<optim::Adam>(optim::AdamOptions{.amsgrad = true}, learning_rate, step);
}

/// The usual settings for transformers: a low beta_2, and weight decay for matrices only.
Optimizer adamw(double learning_rate, const StepOptions& step) {
  optim::AdamWOptions options{.beta_2 = 0.99};
  options.weight_decay = {.rate = 0.1, .applies = is_matrix};
  return with<optim::AdamW>(options, learning_rate, step);
}

template <bool kNesterov>
Optimizer momentum(double learning_rate, const StepOptions& step) {
  const optim::SgdOptions options{
      .momentum = 0.9, .nesterov = kNesterov, .learning_rate_outside_velocity = true};
  return with<optim::Sgd>(options, learning_rate, step);
}

}  // namespace

const std::vector<NamedOptimizer>& named_optimizers() {
  static const std::vector<NamedOptimizer> list = {
      {"adam", 1e-3, make<optim::Adam, optim::AdamOptions>},
      {"amsgrad", 1e-3, amsgrad},
      {"adamw", 1e-3, adamw},
      {"adamax", 2e-3, make<optim::Adamax, optim::AdamaxOptions>},
      {"nadam", 1e-3, make<optim::Nadam, optim::NadamOptions>},
      {"radam", 1e-3, make<optim::RAdam, optim::RAdamOptions>},
      {"lamb", 5e-3, make<optim::Lamb, optim::LambOptions>},
      {"lion", 1e-4, make<optim::Lion, optim::LionOptions>},
      {"rprop", 1e-3, make<optim::Rprop, optim::RpropOptions>},
      {"rmsprop", 1e-3, make<optim::RmsProp, optim::RmsPropOptions>},
      {"adagrad", 1e-2, make<optim::Adagrad, optim::AdagradOptions>},
      {"adadelta", 1, make<optim::Adadelta, optim::AdadeltaOptions>},
      {"adafactor", 1e-2, make<optim::Adafactor, optim::AdafactorOptions>},
      {"sgd", 1e-2, make<optim::Sgd, optim::SgdOptions>},
      {"momentum", 1e-2, momentum<false>},
      {"nesterov", 1e-2, momentum<true>},
  };
  return list;
}

const NamedOptimizer& optimizer_named(const std::string& name) {
  std::string names;
  for (const NamedOptimizer& optimizer : named_optimizers()) {
    if (optimizer.name == name) return optimizer;
    names += (names.empty() ? "" : ", ") + optimizer.name;
  }
  fail(ErrorCode::kInvalidArgument, "train", "no optimizer '{}'; optimizers are {}", name, names);
}

}  // namespace isochron::apps
