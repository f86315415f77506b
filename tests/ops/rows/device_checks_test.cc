// The check of a device's kernels against the CPU's (backends/device_checks.h) finds those that are wrong.
#include "isochron/backends/device_checks.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "isochron/core/cuda/kernel_module.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/ops/rows/registry.h"
#include "support/simulated/simulated_gpu.h"

namespace isochron {
namespace {

/// Writes one byte beyond its own memory.
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
  EXPECT_EQ(static_cast<size_t>(2 * checks[0].wrong), checks[0].findings.size()) << "calls are counted";
  EXPECT_LT(checks[0].wrong, checks[0].calls);
}

/// Correct except where `kWrong` says otherwise: there it writes zeros.
template <bool (*kWrong)(const cuda::KernelModule& module, cuda::Stream stream)>
class SometimesWrong final : public graph::Kernel {
 public:
  explicit SometimesWrong(const graph::KernelRequest& request, std::unique_ptr<graph::Kernel> kernel)
      : kernel_(std::move(kernel)), module_(*request.module), bytes_(request.outputs[0].size_bytes()) {}
  size_t workspace_bytes() const override { return kernel_->workspace_bytes(); }
  void bind(const graph::KernelArgs& args) override { kernel_->bind(args); }
  void run(const graph::KernelArgs& args) override {
    kernel_->run(args);
    if (bytes_ > 0 && kWrong(module_, args.stream))
      module_.context().fill(reinterpret_cast<uintptr_t>(args.outputs[0]), 0, bytes_, args.stream);
  }

 private:
  const std::unique_ptr<graph::Kernel> kernel_;
  const cuda::KernelModule& module_;
  const size_t bytes_;
};

/// The row that "wrong_exp" imitates.
const graph::OpDef& row_like(const graph::KernelRequest& request) {
  return ops::row(request.op.name.substr(std::string_view("wrong_").size()));
}

/// The findings for a row "wrong_...", whose device kernel is wrong in that way.
template <bool (*kWrong)(const cuda::KernelModule& module, cuda::Stream stream)>
ops::DeviceCheck check_of(const std::string& like) {
  const SimulatedGpu simulated;
  graph::Registry registry;
  graph::OpDef row = ops::row(like);
  row.name = "wrong_" + like;
  const graph::KernelFactory here = [](const graph::KernelRequest& request) {
    return graph::prepare_kernel({row_like(request), request.inputs, request.outputs, request.attributes});
  };
  const graph::KernelFactory there =
      [](const graph::KernelRequest& request) -> std::unique_ptr<graph::Kernel> {
    graph::KernelRequest right{row_like(request), request.inputs, request.outputs, request.attributes};
    right.module = request.module;
    return std::make_unique<SometimesWrong<kWrong>>(request, graph::prepare_kernel(right));
  };
  graph::add_kernel(DeviceKind::kCpu, {row.name, here});
  graph::add_kernel(DeviceKind::kCuda, {row.name, there});
  registry.add(row);
  const auto checks = ops::check_device(
      simulated.gpu, registry, [](const graph::OpDef&, DType dtype, size_t) { return dtype == DType::kF32; },
      true);
  return checks.at(0);
}

bool in_a_capture(const cuda::KernelModule& module, cuda::Stream stream) {
  return module.context().capturing(stream);
}
bool in_tf32(const cuda::KernelModule& module, cuda::Stream) { return module.tf32(); }

TEST(DeviceChecks, AKernelThatIsWrongInACaptureIsFound) {
  const ops::DeviceCheck check = check_of<in_a_capture>("exp");
  ASSERT_GT(check.wrong, 0);
  for (const std::string& finding : check.findings)
    EXPECT_THAT(finding, testing::HasSubstr(": captured output 0: element 0 is 0, expected"));
}

TEST(DeviceChecks, AProductThatIsWrongInTf32IsFound) {
  const ops::DeviceCheck check = check_of<in_tf32>("matmul");
  ASSERT_GT(check.wrong, 0);
  for (const std::string& finding : check.findings) EXPECT_THAT(finding, testing::StartsWith("tf32 f32 "));
}

TEST(DeviceChecks, EachOpAgreesInEveryWay) {
  const SimulatedGpu simulated;
  const auto checks = ops::check_device(
      simulated.gpu, ops::registry(),
      [](const graph::OpDef& op, DType dtype, size_t sample) {
        const bool has_f32 =
            op.dtypes.empty() || std::ranges::find(op.dtypes, DType::kF32) != op.dtypes.end();
        return sample == 0 && dtype == (has_f32 ? DType::kF32 : op.dtypes.front());
      },
      true);
  int calls = 0;
  for (const ops::DeviceCheck& check : checks) {
    calls += check.calls;
    EXPECT_THAT(check.findings, testing::IsEmpty()) << check.op;
  }
  EXPECT_GT(calls, 100);
}

}  // namespace
}  // namespace isochron
