// What the command line of `isochron train` may say.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "isochron/graph/precision.h"

namespace isochron::apps {

struct TrainOptions {
  std::string model;
  std::filesystem::path data;
  // 0 and empty: the model's own.
  int epochs = 0;
  int64_t steps = 0;
  int64_t batch = 0;
  std::string optimizer;
  std::optional<double> learning_rate;
  uint64_t seed = 0;
  int threads = 0;
  int accumulate = 1;
  bool dry_run = false;
  bool deterministic = false;
  bool require_flat = false;
  std::filesystem::path json;
  std::filesystem::path out;
  Precision precision = Precision::kF32;
  std::filesystem::path checkpoint;
  int64_t checkpoint_every = 0;  // steps; 0: every epoch
  bool resume = false;
  std::filesystem::path tensorboard;
  // Accepted so that asking for them is answered, not ignored.
  std::string device = "cpu";
};

}  // namespace isochron::apps
