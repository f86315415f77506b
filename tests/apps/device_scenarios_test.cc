// The scenario loops that run on a device, and bench cases, on a simulated device.
#include <gmock/gmock.h>

#include "isochron/apps/bench/cases.h"
#include "isochron/apps/compare/scenarios/scenario.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/allocators/adaptors.h"
#include "isochron/memory/allocators/pool.h"
#include "isochron/memory/cuda/gpu.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/simulated/training_gpu.h"

namespace isochron::apps {
namespace {

constexpr Device kDevice = SimulatedGpu::kDevice;

/// What the loop reports after `iterations` iterations.
std::string notes_of(const Loop& loop, int iterations) {
  observe::Recorder recorder;
  const CompareOptions options;
  int done = 0;
  LoopContext context{recorder, options, [&] { return ++done < iterations; }};
  loop.run(context);
  EXPECT_EQ(done, iterations) << loop.name;
  EXPECT_EQ(recorder.totals().iterations, iterations) << loop.name;
  std::string text;
  for (const std::string& note : loop.notes ? loop.notes() : std::vector<std::string>()) text += note + "\n";
  return text;
}

TEST(DeviceScenarios, MemoryComesInFourWays) {
  const TrainingGpu simulated;
  const Scenario scenario = gpu_memory_scenario(kDevice);
  std::map<std::string, std::string> notes;
  for (const Loop& loop : scenario.loops) notes[loop.name] = notes_of(loop, 40);
  EXPECT_THAT(scenario.loops[0].what, testing::HasSubstr("its own allocation from the driver"));
  // All allocations of the naive loop go to the driver; the pool makes one driver allocation.
  EXPECT_THAT(notes["naive"], testing::ContainsRegex("^([0-9]+) allocations, [1-9][0-9]+ of them from the"));
  EXPECT_THAT(notes["growth on demand"],
              testing::ContainsRegex("^[0-9]+ allocations, 1 of them from the system"));
  EXPECT_THAT(notes["explicit collection"],
              testing::ContainsRegex("^[0-9]+ allocations, [4-9] of them from the system"));
  EXPECT_EQ(notes["planned arena"], "");
  for (const auto& make_table : scenario.tables) EXPECT_EQ(make_table(0.01).rows.size(), 2u);
}

TEST(DeviceScenarios, BatchesComeInFiveWays) {
  const TrainingGpu simulated;
  const Scenario scenario = transfers_scenario(kDevice);
  for (const Loop& loop : scenario.loops) {
    const std::string notes = notes_of(loop, 40);
    if (loop.name == "made and copied in the loop") {
      EXPECT_THAT(notes, testing::HasSubstr("64 copies per step"));
    }
  }
  const observe::Table culprits = scenario.tables[0](0.01);
  ASSERT_EQ(culprits.rows.size(), 4u);
  EXPECT_THAT(culprits.rows[0][1], testing::HasSubstr("the batch's 'x'"));
  EXPECT_THAT(culprits.rows[1][1], testing::HasSubstr("[log]"));
}

TEST(DeviceCases, StepsRunThere) {
  const TrainingGpu simulated;
  for (const char* name : {"tiny", "epoch"}) {
    const std::unique_ptr<CaseRun> run = bench_case(name).make({.device = kDevice});
    for (int step = 0; step < 3; ++step) run->step();
    EXPECT_EQ(run->captured()->plan_report().device, kDevice) << name;
  }
}

TEST(Unplanned, BuffersComeFromAnAllocatorAndGoBack) {
  const TrainingGpu simulated;
  const Tensor x = random_normal({20, 12});
  const auto function = [](const Tensor& in) {
    const Tensor hidden = tanh(matmul(in, in, false, true));
    return std::pair(matmul(hidden, in) + 1.0, hidden * 0.5);
  };
  const auto [want, half] = function(x);
  const auto compare = [&](Device device, Allocator& allocator) {
    CaptureOptions options;
    options.plan.device = device;
    options.plan.allocator = &allocator;
    auto step = capture(function, options);
    for (int run = 1; run <= 3; ++run) {
      const auto [got, got_half] = step(x);
      EXPECT_THAT(got.to_vector(), testing::Pointwise(testing::DoubleNear(1e-4), want.to_vector()));
      EXPECT_THAT(got_half.to_vector(), testing::Pointwise(testing::DoubleNear(1e-4), half.to_vector()));
      EXPECT_GE(allocator.stats().total_allocations, run);
      EXPECT_EQ(allocator.stats().live_allocations, 0);
    }
  };
  PoolAllocator here;
  compare({}, here);
  cuda::NaiveDeviceAllocator there(simulated.context);
  compare(kDevice, there);
  FailingAllocator failing(here, 2);
  CaptureOptions options;
  options.plan.allocator = &failing;
  auto step = capture(function, options);
  EXPECT_ERROR(step(x), ErrorCode::kOutOfMemory, "");
  EXPECT_EQ(failing.stats().live_allocations, 0) << "what it took before is given back";
}

}  // namespace
}  // namespace isochron::apps
