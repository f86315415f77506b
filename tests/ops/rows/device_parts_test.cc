// The checks that belong to no single op (backends/device_parts.h) pass on a simulated device and find
// planted errors.
#include "isochron/backends/device_parts.h"

#include <gmock/gmock.h>

#include <memory>

#include "support/expect_error.h"
#include "support/simulated/simulated_gpu.h"

namespace isochron {
namespace {

TEST(DeviceParts, AgreeWithTheCpu) {
  for (const bool libraries : {true, false}) {
    cuda::SimulatedDevice device;
    device.seed = libraries ? 1 : 2;
    const SimulatedGpu simulated(device, false, libraries);
    for (const ops::DevicePart& part : ops::device_parts()) {
      const ops::DeviceCheck check = ops::check_device_part(simulated.gpu, part);
      EXPECT_THAT(check.findings, testing::IsEmpty()) << part.name;
      EXPECT_EQ(check.wrong, 0) << part.name;
      EXPECT_GE(check.calls, 12) << part.name;
    }
  }
}

enum class Fault : uint8_t { kLoopsRunOnce, kNothingFollows, kNothingWaits };

/// A device that lacks something.
class FaultyContext final : public cuda::SimulatedContext {
 public:
  FaultyContext(Fault fault, uint64_t seed)
      : SimulatedContext(cuda::SimulatedDevice{.seed = seed}), fault_(fault) {}
  cuda::Stream begin_body(cuda::Stream stream, cuda::Condition condition, bool repeats) override {
    return SimulatedContext::begin_body(stream, condition, repeats && fault_ != Fault::kLoopsRunOnce);
  }
  void follow(cuda::Stream stream, std::span<const cuda::GraphNode> nodes) override {
    SimulatedContext::follow(stream,
                             fault_ == Fault::kNothingFollows ? std::span<const cuda::GraphNode>() : nodes);
  }
  void wait(cuda::Stream stream, cuda::Event event) override {
    if (fault_ != Fault::kNothingWaits) SimulatedContext::wait(stream, event);
  }
  double elapsed_ns(cuda::Event begin, cuda::Event end) override {
    return fault_ == Fault::kNothingWaits ? 0 : SimulatedContext::elapsed_ns(begin, end);
  }

 private:
  const Fault fault_;
};

/// The findings on this device.
ops::DeviceCheck checked_with(Fault fault, std::string_view part, uint64_t seed = 1) {
  SimulatedGpu simulated;  // for its compiler
  const auto context = std::make_shared<FaultyContext>(fault, seed);
  context->set_loader(simulated.compiler.loader());
  const auto gpu = cuda::Gpu::create(context, cuda::KernelSources{&simulated.compiler});
  const auto before = cuda::set_gpu(0, gpu);
  ops::DeviceCheck check = ops::check_device_part(gpu, ops::device_part(part));
  cuda::set_gpu(0, before);
  return check;
}

TEST(DeviceParts, FindALoopThatDoesNotRepeat) {
  const ops::DeviceCheck check = checked_with(Fault::kLoopsRunOnce, "conditions");
  EXPECT_EQ(check.calls, 16);
  EXPECT_EQ(check.wrong, 8) << "those of more than one iteration";
  ASSERT_FALSE(check.findings.empty());
  EXPECT_THAT(check.findings[0], testing::HasSubstr("first branch, 2 iterations: result 1: element 0 is"));
}

TEST(DeviceParts, FindInstructionsThatDoNotWaitForEachOther) {
  std::vector<std::string> findings;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const ops::DeviceCheck check = checked_with(Fault::kNothingFollows, "side-by-side", seed);
    findings.insert(findings.end(), check.findings.begin(), check.findings.end());
  }
  ASSERT_FALSE(findings.empty());
  for (const std::string& finding : findings)
    EXPECT_THAT(finding, testing::HasSubstr("side by side, and in order: result"));
}

TEST(DeviceParts, FindStepsThatDoNotWaitForTheirBatches) {
  std::vector<std::string> findings;
  for (uint64_t seed = 1; seed <= 10; ++seed) {  // by chance, a step may come after its batch
    const ops::DeviceCheck check = checked_with(Fault::kNothingWaits, "transfers", seed);
    EXPECT_EQ(check.calls, 24);
    findings.insert(findings.end(), check.findings.begin(), check.findings.end());
  }
  EXPECT_THAT(findings, testing::Contains(testing::HasSubstr("of pageable memory: result")));
  EXPECT_THAT(findings, testing::Contains(testing::HasSubstr("of page-locked memory: result")));
}

TEST(DeviceParts, FailuresAreFindings) {
  SimulatedGpu simulated;
  simulated.controls->fail("begin_capture", 1, ErrorCode::kDevice);
  const ops::DeviceCheck check = ops::check_device_part(simulated.gpu, ops::device_part("conditions"));
  EXPECT_EQ(check.wrong, 1);
  EXPECT_THAT(check.findings, testing::ElementsAre(testing::HasSubstr("as the test asked for")));
  simulated.controls->fail("launch graph", 1, ErrorCode::kDeviceLost);
  EXPECT_ERROR(ops::check_device_part(simulated.gpu, ops::device_part("conditions")), ErrorCode::kDeviceLost,
               "");
}

TEST(DeviceParts, AreKnownByName) {
  EXPECT_ERROR(ops::device_part("transfer"), ErrorCode::kInvalidArgument,
               "no part 'transfer'; there are conditions, side-by-side, transfers");
}

}  // namespace
}  // namespace isochron
