#include "isochron/train/callbacks/device_sensors.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "isochron/graph/capture/apply.h"
#include "isochron/memory/cuda/transfer_ring.h"
#include "isochron/observe/record/recorder.h"
#include "isochron/ops/shape/creation.h"
#include "observe/statistics/simulated_clock.h"
#include "support/expect_error.h"
#include "support/simulated/simulated_gpu.h"

namespace isochron::train {
namespace {

class PlayedMonitor final : public cuda::DeviceMonitor {
 public:
  cuda::DeviceConditions read() override {
    return {.clock_khz = 1'980'000 - 1000 * ++reads_, .throttled_ns = 5000 * reads_};
  }

 private:
  int64_t reads_ = 0;
};

TEST(DeviceSensors, ARecorderKeepsWhatTheDeviceTells) {
  const SimulatedGpu simulated;
  DeviceSensors sensors(simulated.gpu, std::make_unique<PlayedMonitor>());
  observe::RecorderOptions options;
  options.sensors = &sensors;
  options.sample_interval_ns = 1;
  options.clock = observe::simulated_now_ns;  // reads cost nothing, so that every sample is a whole one
  observe::Recorder recorder(std::move(options));
  std::vector<Tensor> kept;
  for (int i = 0; i < 20; ++i) {
    const observe::IterationScope iteration(recorder);
    kept.push_back(to_device(zeros({1000}), SimulatedGpu::kDevice));
  }
  recorder.sample();
  const std::vector<observe::NamedSeries> all = recorder.series();
  const auto series = [&](const std::string& name) {
    const auto found =
        std::ranges::find_if(all, [&](const observe::NamedSeries& one) { return one.name == name; });
    return found == all.end() ? std::vector<double>() : found->values;
  };
  ASSERT_GE(series("device_in_use_bytes").size(), 2u);
  EXPECT_GE(series("device_in_use_bytes").back(), 20 * 4000);
  EXPECT_GE(series("device_reserved_bytes").back(), series("device_in_use_bytes").back());
  EXPECT_LT(series("device_clock_khz").back(), 1'980'000);
  EXPECT_GE(series("device_throttled_ns").back(), 5000);
  EXPECT_TRUE(series("device_temperature").empty()) << "it doesn't tell";
}

TEST(DeviceSensors, TellOfPageLockedMemoryAndOfRetries) {
  const SimulatedGpu simulated;  // of 64 MiB
  DeviceSensors sensors(simulated.gpu, nullptr);
  const auto reading = [&] {
    observe::SensorReading now;
    sensors.read(now);
    sensors.read_slow(now);
    return now;
  };
  EXPECT_EQ(reading().pinned_bytes, 0);
  EXPECT_EQ(reading().device_retries, 0);
  {
    const std::vector<size_t> parts = {1000, 24};
    const cuda::TransferRing ring(simulated.gpu, parts);
    EXPECT_GE(reading().pinned_bytes, 1024 * static_cast<int64_t>(cuda::TransferRing::kSlots));
  }
  EXPECT_EQ(reading().pinned_bytes, 0);
  const cuda::DevicePtr of_others = simulated.context->allocate(size_t{40} << 20);
  EXPECT_ERROR(simulated.gpu->allocate(size_t{40} << 20, "too much"), ErrorCode::kOutOfMemory, "too much");
  simulated.context->free(of_others);
  EXPECT_GT(reading().device_retries, 0);
}

TEST(DeviceSensors, AMachineWithoutAMonitorTellsOfMemory) {
  const SimulatedGpu simulated;
  DeviceSensors sensors(simulated.gpu);
  const Tensor held = to_device(zeros({500}), SimulatedGpu::kDevice);
  observe::SensorReading reading;
  sensors.read(reading);
  sensors.read_slow(reading);
  EXPECT_GT(reading.rss_bytes, 0);
  EXPECT_GE(reading.device_in_use_bytes, 2000);
  EXPECT_EQ(reading.device_clock_khz, observe::kUnknownReading);
}

}  // namespace
}  // namespace isochron::train
