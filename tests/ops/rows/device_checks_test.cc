// The check of a device's kernels against the CPU's (backends/device_checks.h) finds those that are wrong.
#include "isochron/backends/device_checks.h"

#include <gmock/gmock.h>

#include <memory>
#include <tuple>
#include <utility>

#include "isochron/core/cuda/kernel_module.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/ops/rows/registry.h"
#include "support/simulated/simulated_gpu.h"

namespace isochron {
namespace {

/// Writes a byte beyond what is its own.
class Overrun final : public graph::Kernel {
 public:
  enum Where { kBeforeInput, kBehindOutput };
  Overrun(std::unique_ptr<graph::Kernel> kernel, cuda::Context& context, Where where, size_t output_bytes)
      : kernel_(std::move(kernel)), context_(context), where_(where), output_bytes_(output_bytes) {}
  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  void bind(const graph::KernelArgs& args) override { kernel_->bind(args); }
  void run(const graph::KernelArgs& args) override {
    kernel_->run(args);
    const std::byte* const at = where_ == kBeforeInput ? args.inputs[0] - 1 : args.outputs[0] + output_bytes_;
    context_.fill(reinterpret_cast<uintptr_t>(at), 1, 1, args.stream);
  }

 private:
  const std::unique_ptr<graph::Kernel> kernel_;
  cuda::Context& context_;
  const Where where_;
  const size_t output_bytes_;
};

template <Overrun::Where kWhere>
std::unique_ptr<graph::Kernel> overrun(const graph::KernelRequest& request) {
  return std::make_unique<Overrun>(
      graph::prepare_kernel(
          {ops::row("square"), request.inputs, request.outputs, request.attributes, 1, {}, request.module}),
      request.module->context(), kWhere, request.outputs[0].size_bytes());
}

TEST(DeviceChecks, AKernelThatWritesBesideItsTensorsIsFound) {
  const SimulatedGpu simulated;
  const std::tuple<const char*, graph::KernelFactory, const char*> kernels[] = {
      {"overrun_before", overrun<Overrun::kBeforeInput>, "it writes beside input 0"},
      {"overrun_behind", overrun<Overrun::kBehindOutput>, "it writes beside output 0"}};
  for (const auto& [name, make, text] : kernels) {
    graph::Registry registry;
    graph::OpDef row = ops::row("square");
    row.name = name;
    graph::add_kernel(DeviceKind::kCuda, {row.name, make});
    registry.add(row);
    const auto checks =
        ops::check_device(simulated.gpu, registry,
                          [](const graph::OpDef&, DType dtype, size_t) { return dtype == DType::kF32; });
    ASSERT_EQ(checks.size(), 1u);
    ASSERT_FALSE(checks[0].findings.empty());
    EXPECT_THAT(checks[0].findings[0], testing::HasSubstr(text));
  }
}

TEST(DeviceChecks, AWrongKernelIsFound) {
  const SimulatedGpu simulated;
  graph::Registry registry;
  graph::OpDef row = ops::row("square");
  row.name = "wrong_square";
  graph::add_kernel(
      DeviceKind::kCuda,
      {row.name, [](const graph::KernelRequest& request) {
         return graph::prepare_kernel(
             {ops::row("exp"), request.inputs, request.outputs, request.attributes, 1, {}, request.module});
       }});
  registry.add(row);
  const auto checks = ops::check_device(
      simulated.gpu, registry, [](const graph::OpDef&, DType dtype, size_t) { return dtype == DType::kF32; },
      true);
  ASSERT_EQ(checks.size(), 1u);
  ASSERT_GE(checks[0].findings.size(), 4u) << "but where there is no element";
  EXPECT_THAT(checks[0].findings[0], testing::HasSubstr(": output 0: element 0 is"));
  EXPECT_THAT(checks[0].findings[1], testing::HasSubstr(": eager output 0: element 0 is"));
}

}  // namespace
}  // namespace isochron
