// Learning rates that change from step to step, computed inside the captured step from the optimizer's step
// count. So they cost no host read, no new capture, and a resumed run goes on where it was.
#pragma once

#include <cstdint>

#include "isochron/optim/optimizer.h"
#include "isochron/train/batch_functions.h"

namespace isochron::train {

/// Linear warm-up from peak / warmup_steps to peak, then half a cosine down to final_share x peak at
/// total_steps, where it stays (Loshchilov and Hutter: "SGDR", ICLR 2017; Goyal et al. 2017 for the warm-up).
struct WarmupCosine {
  double peak = 1e-3;
  int64_t warmup_steps = 0;
  int64_t total_steps = 1;
  double final_share = 0;

  /// The learning rate of the step after `steps_done` ones.
  double rate(int64_t steps_done) const;
  /// The same as ops; `steps_done`: i64 (). f64 ().
  Tensor rate(const Tensor& steps_done) const;
};

/// `functions` with the learning rate of `optimizer` set by `schedule` before every train step; sets that of
/// the first step at once. Throws kInvalidArgument unless peak is finite and > 0, 0 <= final_share <= 1 and
/// 0 <= warmup_steps < total_steps.
BatchFunctions scheduled(BatchFunctions functions, optim::Optimizer& optimizer, const WarmupCosine& schedule);

}  // namespace isochron::train
