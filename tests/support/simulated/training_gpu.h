// A simulated device for training. A trainer moves the default generator to its device, where the next test
// could no longer find it.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "isochron/ops/random/random.h"
#include "support/simulated/simulated_gpu.h"

namespace isochron {

class TrainingGpu : public SimulatedGpu {
 public:
  using SimulatedGpu::SimulatedGpu;
  ~TrainingGpu() { random::default_generator().move_to({}); }
};

/// Of what a device computed and the CPU.
inline void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
}

}  // namespace isochron
