#include "isochron/apps/train/dry_run.h"

#include <algorithm>
#include <cstdio>

#include "isochron/apps/train/optimizers.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/module/module.h"

namespace isochron::apps {
namespace {

struct MemoryRow {
  std::string name;
  size_t parameters, gradients, state, arena;
};

MemoryRow weigh(const train::BatchFunctions& functions, const data::Dataset& dataset,
                optim::Optimizer& optimizer, const std::string& name) {
  const std::vector<std::string> names = dataset.names();
  CapturedFunction step(
      [&](std::span<const Tensor> tensors) {
        const nn::TrainingScope scope(true);
        data::Element batch;
        for (size_t i = 0; i < tensors.size(); ++i) batch.add(names[i], tensors[i]);
        return std::vector<Tensor>{functions.train(batch)};
      },
      {.name = "dry run", .passes = {.precision = functions.precision}});
  step.prepare(dataset.signatures().front());
  size_t parameters = 0;
  for (const Variable& parameter : optimizer.parameters()) parameters += parameter.size_bytes();
  // All gradients are alive at once, before the update, and are part of the arena.
  return {name, parameters, parameters, optimizer.state_bytes(), step.plan_report().arena_bytes};
}

}  // namespace

void dry_run(const train::BatchFunctions& functions, train::Batches data, optim::Optimizer& optimizer,
             const std::string& chosen, const optim::StepOptions& step) {
  std::vector<std::string> names = {"sgd", "rmsprop", "adam"};
  if (std::find(names.begin(), names.end(), chosen) == names.end()) names.push_back(chosen);
  fmt::print("\nmemory of a step on a batch of {}, in MiB:\n{:>11}{:>13}{:>11}{:>17}{:>24}{:>9}\n",
             data.dataset().signatures().front().front().shape.str(), "optimizer", "parameters", "gradients",
             "optimizer state", "activations, workspace", "total");
  for (const std::string& name : names) {
    const NamedOptimizer& kind = optimizer_named(name);
    optimizer = kind.make(kind.learning_rate, step);
    const MemoryRow row = weigh(functions, data.dataset(), optimizer, name);
    const auto mib = [](size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
    fmt::print("{:>11}{:>13.3f}{:>11.3f}{:>17.3f}{:>24.3f}{:>9.3f}\n", row.name, mib(row.parameters),
               mib(row.gradients), mib(row.state), mib(row.arena - std::min(row.arena, row.gradients)),
               mib(row.parameters + row.state + std::max(row.arena, row.gradients)));
  }
  std::fflush(stdout);
  throw DryRunDone();
}

}  // namespace isochron::apps
