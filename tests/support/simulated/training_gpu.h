// A simulated device for training. A trainer moves the default generator to its device, which doesn't exist
// in the next test; so the destructor moves the generator back.
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

/// Compares the results of a device with those of the CPU.
inline void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
}

}  // namespace isochron
