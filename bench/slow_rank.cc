// Trains over several ranks, one of which may have a slow input. scripts/straggler_test.py runs this program
// to check whether the report names that rank.
//
//   mpirun -np 2 slow_rank UPDATES [SLOW_RANK MICROSECONDS]
//
// The first rank prints the evidence, and a line "cause: NAME (evidence)" for each cause.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "isochron/isochron.h"
#include "isochron/observe/export/rank_map.h"

using namespace isochron;

int main(int argc, char** argv) {
  comm::join();
  set_compute_threads(1);
  const int rank = comm::world()->rank();
  const int ranks = comm::world()->size();
  const int64_t updates = argc > 1 ? std::atoll(argv[1]) : 1000;
  const int slow_rank = argc > 3 ? std::atoi(argv[2]) : -1;
  const std::chrono::microseconds slow(argc > 3 ? std::atoll(argv[3]) : 0);

  constexpr int64_t kBatch = 64;
  const Tensor x = random_uniform({64 * kBatch, 64}, -1, 1);
  const Tensor y = sum(x, {1}, true);
  auto batches =
      data::from_tensor_slices(x, y).batch(kBatch).map([&](const Tensor& inputs, const Tensor& targets) {
        if (rank == slow_rank) std::this_thread::sleep_for(slow);
        return std::pair(inputs, targets);
      });
  nn::Sequential model(nn::Dense(256, nn::Activation::kRelu), nn::Dense(256, nn::Activation::kRelu),
                       nn::Dense(1));
  optim::Adam optimizer;
  train::Trainer trainer(model, nn::mean_squared_error, optimizer);
  observe::Recorder recorder({.classes = 2});
  trainer.fit(
      batches,
      {.epochs = 2, .steps_per_epoch = updates * ranks / 2, .recorder = &recorder, .progress = nullptr});
  if (rank > 0) return 0;
  const observe::RunReport report = observe::make_report(recorder, "slow_rank");
  fmt::print("{}", observe::ranks_text(*report.ranks));
  for (const auto& [name, value] : report.evidence.values()) {
    if (name.starts_with("straggler.")) fmt::print("{} {:.3g}\n", name, value);
  }
  for (const observe::Cause& cause : report.causes)
    fmt::print("cause: {} ({})\n", cause.name, cause.evidence);
}
