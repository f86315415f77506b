// Measures the cost of the fit loop's monitoring and saving: trains the network of the case `cnn` alternately
// without both, with the check for non-finite numbers, and with that check and a checkpoint every 100 steps.
//   runtime_overhead [ROUNDS]
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "isochron/core/base/clock.h"
#include "isochron/core/base/rng.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/nn/layers/convolution_layers.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks/model_checkpoint.h"
#include "isochron/train/loop/trainer.h"

namespace {

using namespace isochron;

constexpr int64_t kBatch = 64, kRows = 10 * kBatch, kSteps = 200;

data::TupleDataset<2> batches() {
  Rng rng(1);
  const Tensor x = empty({DType::kF32, {kRows, 28, 28, 1}}), y = empty({DType::kI32, {kRows}});
  for (float& value : x.span<float>()) value = static_cast<float>(rng.uniform());
  for (int32_t& label : y.span<int32_t>()) label = static_cast<int32_t>(rng.below(10));
  return data::from_tensor_slices(x, y).batch(kBatch).repeat().prefetch();
}

/// One training that is continued turn by turn.
struct Run {
  nn::Sequential model{nn::Conv2D(32, {3, 3}, nn::Activation::kRelu),
                       nn::Conv2D(64, {3, 3}, nn::Activation::kRelu),
                       nn::MaxPool2D({2, 2}),
                       nn::Flatten(),
                       nn::Dense(128, nn::Activation::kRelu),
                       nn::Dense(10)};
  optim::RmsProp optimizer;
  data::TupleDataset<2> data = batches();
  train::Trainer trainer{model, nn::sparse_softmax_cross_entropy, optimizer};
  int epochs = 0;

  /// Trains for kSteps steps and returns the time in ns.
  int64_t go_on(bool trace, std::vector<train::Callback*> callbacks) {
    const int64_t began = now_ns();
    trainer.fit(data, {.epochs = epochs + 1,
                       .initial_epoch = epochs,
                       .steps_per_epoch = kSteps,
                       .callbacks = std::move(callbacks),
                       .trace_not_finite = trace,
                       .progress = nullptr});
    ++epochs;
    return now_ns() - began;
  }
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// "+0.31 % (standard error 0.12)": the mean of the middle half, with its error.
std::string share_text(std::vector<double> shares) {
  std::ranges::sort(shares);
  const size_t quarter = shares.size() / 4;
  const std::span<const double> middle = std::span(shares).subspan(quarter, shares.size() - 2 * quarter);
  const double mean = std::accumulate(middle.begin(), middle.end(), 0.0) / static_cast<double>(middle.size());
  // For normal values, the standard error of the middle half's mean is 1.09 times that of the mean of all,
  // and the middle half is 1.35 standard deviations wide.
  const double error =
      1.09 * (middle.back() - middle.front()) / 1.35 / std::sqrt(static_cast<double>(shares.size()));
  return fmt::format("{:+.2f} % (standard error {:.2f})", 100 * mean, 100 * error);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  if (rounds < 1) {
    fmt::print(stderr, "usage: runtime_overhead [ROUNDS]\n");
    return 2;
  }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("isochron-overhead-{}", now_ns());
  train::ModelCheckpoint checkpoints(
      {.filepath = folder / "cp-{total_steps:08d}", .every_epochs = 0, .every_steps = 100, .keep_last = 2});
  Run plain, watched, saved;
  for (Run* run : {&plain, &watched, &saved}) run->go_on(false, {});  // captured, and warm
  // Every turn is compared with the plain turns before and after it.
  std::vector<double> plain_ms, watched_share, saved_share;
  auto before = static_cast<double>(plain.go_on(false, {}));
  const auto cost_of = [&](auto turn) {
    const auto ns = static_cast<double>(turn()), after = static_cast<double>(plain.go_on(false, {}));
    const double around = (std::exchange(before, after) + after) / 2;
    plain_ms.push_back(around / kSteps * 1e-6);
    return ns / around - 1;
  };
  for (int round = 0; round < rounds; ++round) {
    watched_share.push_back(cost_of([&] { return watched.go_on(true, {}); }));
    saved_share.push_back(cost_of([&] { return saved.go_on(true, {&checkpoints}); }));
    if (round % 5 == 4) fmt::print(stderr, "round {} of {}\n", round + 1, rounds);
  }
  const train::CheckpointWriterStats stats = checkpoints.stats();
  fmt::print("cnn, {} steps a turn, {} turns: {:.2f} ms a step\n", kSteps, rounds, median(plain_ms));
  fmt::print("look for numbers that aren't finite: {}\n", share_text(watched_share));
  fmt::print("that, and a checkpoint every 100 steps: {}\n", share_text(saved_share));
  const auto saves = static_cast<double>(std::max<int64_t>(stats.saved, 1));
  const double stall_ns = static_cast<double>(stats.stall_ns) / saves,
               write_ns = static_cast<double>(stats.write_ns) / saves;
  fmt::print(
      "a save has the training wait {:.0f} us ({:.0f} at most), {:.3f} % of 100 steps; its thread takes "
      "{:.1f} ms "
      "beside it\n",
      stall_ns * 1e-3, static_cast<double>(stats.longest_stall_ns) * 1e-3, stall_ns * 1e-6 / median(plain_ms),
      write_ns * 1e-6);
  std::filesystem::remove_all(folder);
}
