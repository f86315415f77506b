// The options of `isochron train`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "isochron/core/tensor/device.h"
#include "isochron/graph/passes/precision.h"
#include "isochron/observe/interleaved/worker.h"

namespace isochron::apps {

/// A range of steps, counted from 1, including both ends.
struct StepRange {
  int64_t first = 1;
  int64_t last = 0;
};
/// "FROM:TO", or "N" for the first N; nothing for any other text.
std::optional<StepRange> parse_steps(const std::string& text);

struct TrainOptions {
  std::string model;
  std::filesystem::path data;
  // 0 or empty: the model's default.
  int epochs = 0;
  int64_t steps = 0;
  int64_t batch = 0;
  std::string optimizer;
  std::optional<double> learning_rate;
  std::optional<double> clip_norm;
  int early_stopping = 0;  // epochs without a better validation loss; 0: none
  uint64_t seed = 0;
  int threads = 0;
  int accumulate = 1;
  bool exact_sums = false;
  bool sync_batch_norm = false;
  std::optional<uint64_t> bucket_bytes;
  std::optional<double> patience_seconds;      // ranks wait for another before they report it; unset: 60
  std::optional<double> patience_end_seconds;  // and before they end the run; unset: forever
  bool dry_run = false;
  bool deterministic = false;
  bool require_flat = false;
  std::optional<bool> beside_twin;  // unset: if require_flat is set and a twin is possible
  observe::Worker* twin = nullptr;  // the twin beside this training; or null
  observe::Turns* turns = nullptr;  // if this training is a twin: its turns
  bool enforce_sealed = false;
  std::vector<int64_t> memory_at;  // steps
  std::filesystem::path json;
  std::filesystem::path out;
  Precision precision = Precision::kF32;
  std::filesystem::path checkpoint;
  int checkpoint_epochs = 1;     // epochs between checkpoints
  int64_t checkpoint_every = 0;  // steps between additional checkpoints; 0: none
  bool weights_only = false;
  std::string checkpoint_name;          // a template; empty: by what is saved
  std::optional<int> keep_checkpoints;  // 0: all; none: by what is saved
  bool resume = false;
  std::filesystem::path tensorboard;
  bool gradient_histograms = false;
  std::filesystem::path trace;
  std::string trace_steps;  // "N" or "FROM:TO"; empty: the default steps
  std::filesystem::path graphs;
  Device device = {};
  std::optional<uint64_t> memory_limit;  // bytes of the device's memory; none: all there is
};

}  // namespace isochron::apps
