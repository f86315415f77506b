// A simulated device to train on. A trainer moves the default generator to its device, where the next test
// would not find it any more.
#pragma once

#include "isochron/ops/random/random.h"
#include "support/simulated/simulated_gpu.h"

namespace isochron {

class TrainingGpu : public SimulatedGpu {
 public:
  using SimulatedGpu::SimulatedGpu;
  ~TrainingGpu() { random::default_generator().move_to({}); }
};

}  // namespace isochron
