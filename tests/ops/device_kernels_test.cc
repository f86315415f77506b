// Rows' kernels for a device, on a simulated one, against the CPU's.
#include <gmock/gmock.h>

#include "isochron/ops/device_checks.h"
#include "isochron/ops/registry.h"
#include "support/expect_error.h"
#include "support/host_compiler.h"

namespace isochron {
namespace {

/// All calls in f32 of what is written for devices by hand, and the first and last in other dtypes; of what
/// is generated from element programs, which DeviceElements compares op by op, one call each.
bool selected(const graph::OpDef& op, DType dtype, size_t sample) {
  const bool generated = op.fusion == graph::FusionClass::kElementwise ||
                         op.fusion == graph::FusionClass::kReduction || op.name == "broadcast_to";
  if (!generated) return dtype == DType::kF32 || sample == 0 || sample + 1 == op.samples.size();
  const bool usual = dtype == DType::kF32 || (!op.dtypes.empty() && op.dtypes.front() == dtype);
  return usual && sample == 0;
}

TEST(DeviceKernels, AgreeWithTheCpu) {
  const SimulatedGpu simulated({}, true);
  int calls = 0;
  for (const ops::DeviceCheck& check : ops::check_device(simulated.gpu, ops::registry(), selected)) {
    calls += check.calls;
    for (const std::string& finding : check.findings) ADD_FAILURE() << check.op << ": " << finding;
  }
  EXPECT_GT(calls, 200);
}

TEST(DeviceKernels, AWrongKernelIsFound) {
  const SimulatedGpu simulated;
  graph::Registry registry;
  graph::OpDef row = ops::row("square");
  row.prepare_cuda = [](const graph::KernelRequest& request) {
    graph::KernelRequest other = request;
    const graph::OpDef& cube = ops::row("exp");
    return cube.prepare_cuda({cube, other.inputs, other.outputs, other.attributes, 1, {}, other.module});
  };
  registry.add(row);
  const auto checks = ops::check_device(
      simulated.gpu, registry, [](const graph::OpDef&, DType dtype, size_t) { return dtype == DType::kF32; });
  ASSERT_EQ(checks.size(), 1u);
  ASSERT_GE(checks[0].findings.size(), 2u) << "but where there is no element";
  EXPECT_THAT(checks[0].findings[0], testing::HasSubstr("output 0: element 0 is"));
}

}  // namespace
}  // namespace isochron
