// The threads of each kernel are put in order by its barriers, and by no fewer.
#include <gmock/gmock.h>

#include <cmath>
#include <set>

#include "isochron/backends/device_checks.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/normalization/normalization.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "support/simulated/simulated_gpu.h"

namespace isochron {
namespace {

using Names = std::set<std::string, std::less<>>;

/// What is wrong with the samples of these ops in f32; after a race, nothing else can be told.
std::vector<std::string> findings_of(const SimulatedGpu& simulated, const Names& ops) {
  std::vector<std::string> findings;
  try {
    for (const ops::DeviceCheck& check :
         ops::check_device(simulated.gpu, ops::registry(), [&](const graph::OpDef&op, DType dtype, size_t) {
           return dtype == DType::kF32 && (ops.empty() || ops.contains(op.name));
         }))
      for (const std::string& finding : check.findings) findings.push_back(check.op + " " + finding);
  } catch (const Error& error) {
    findings.emplace_back(error.what());
  }
  return findings;
}

TEST(DeviceRaces, NoKernelHasAny) {
  SimulatedGpu simulated({}, false, false);
  simulated.compiler.check_races = true;
  EXPECT_THAT(findings_of(simulated, {}), testing::IsEmpty());
}

/// `check` is given a simulated device whose kernels lack one barrier, for each in turn, and tells what it
/// finds.
template <typename Check>
void expect_each_barrier_is_needed(const Check& check, bool generated, size_t count) {
  size_t barriers = 1;
  for (size_t without = 0; without < barriers; ++without) {
    SimulatedGpu simulated({}, false, false);
    simulated.compiler.check_races = true;
    simulated.compiler.barriers_generated = generated;
    simulated.compiler.without_barrier = without;
    EXPECT_FALSE(check(simulated).empty()) << "barrier " << without << " may go";
    barriers = simulated.compiler.barriers;
  }
  EXPECT_EQ(barriers, count);
}

struct Family {
  const char* name;
  Names ops;
  size_t barriers;
};
class BarriersOf : public testing::TestWithParam<Family> {};

TEST_P(BarriersOf, AreNeeded) {
  const auto check = [](const SimulatedGpu& simulated) { return findings_of(simulated, GetParam().ops); };
  expect_each_barrier_is_needed(check, false, GetParam().barriers);
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, BarriersOf,
    testing::Values(Family{"Rows",
                           {"softmax", "log_softmax", "log_sum_exp", "layer_norm", "layer_norm_gradient",
                            "sparse_softmax_cross_entropy", "sparse_softmax_cross_entropy_gradient",
                            "scatter_add", "argmax", "argmin", "square_sum"},
                           9},
                    Family{"Attention", {"attention", "attention_gradient"}, 5},
                    Family{"Recurrent", {"lstm", "lstm_gradient", "gru", "gru_gradient"}, 7}),
    [](const auto& family) { return std::string(family.param.name); });

/// What a captured function of `x` gives on `simulated` if it isn't `want`, or that it failed.
template <typename F>
std::string wrong_result(F function, const Tensor& x, double want) {
  CaptureOptions options;
  options.plan.device = SimulatedGpu::kDevice;
  try {
    for (const double got : capture(function, options)(x).to_vector())
      if (std::abs(got - want) > 1e-3) return fmt::format("{}", got);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(DeviceRaces, ASumByManyBlocksNeedsItsBarriers) {
  const auto check = [](const SimulatedGpu&) {
    return wrong_result([](const Tensor& x) { return sum(x); }, ones({40'000}), 40'000);
  };
  expect_each_barrier_is_needed(check, true, 6);
}

TEST(DeviceRaces, ProductsInPartsNeedTheirBarriers) {
  const auto check = [](const SimulatedGpu&) {
    return wrong_result([](const Tensor& x) { return matmul(x, transpose(x)); }, ones({5, 2'000}), 2'000);
  };
  expect_each_barrier_is_needed(check, false, 2);
}

TEST(DeviceRaces, MomentsByManyBlocksNeedTheirBarriers) {
  const auto check = [](const SimulatedGpu&) {
    return wrong_result([](const Tensor& x) { return channel_moments(x).mean; }, ones({30, 100, 3}), 1);
  };
  expect_each_barrier_is_needed(check, false, 4);
}

}  // namespace
}  // namespace isochron
