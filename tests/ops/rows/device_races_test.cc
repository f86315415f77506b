// The threads of each kernel are put in order by its barriers, and by no fewer.
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <set>

#include "isochron/backends/cuda/common/launches.h"
#include "isochron/backends/device_checks.h"
#include "isochron/graph/capture/variable.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/normalization/normalization.h"
#include "isochron/ops/reduction/cumulative.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/reduction/sorting.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/sanitizers.h"
#include "support/simulated/results_on.h"
#include "support/simulated/simulated_gpu.h"

namespace isochron {
namespace {

using Names = std::set<std::string, std::less<>>;

/// What is wrong with the samples of these ops in f32, or in `also`; after a race, nothing else can be told.
std::vector<std::string> findings_of(const SimulatedGpu& simulated, const Names& ops,
                                     DType also = DType::kF32) {
  std::vector<std::string> findings;
  try {
    for (const ops::DeviceCheck& check :
         ops::check_device(simulated.gpu, ops::registry(), [&](const graph::OpDef&op, DType dtype, size_t) {
           return (dtype == DType::kF32 || dtype == also) && (ops.empty() || ops.contains(op.name));
         }))
      for (const std::string& finding : check.findings) findings.push_back(check.op + " " + finding);
  } catch (const Error& error) {
    findings.emplace_back(error.what());
  }
  return findings;
}

constexpr const char* kNotSanitized = "the kernels are the same, and slower to check";

TEST(DeviceRaces, NoKernelHasAny) {
  if (kSanitizer) GTEST_SKIP() << kNotSanitized;
  SimulatedGpu simulated({}, false, false);
  simulated.compiler.check_races = true;
  EXPECT_THAT(findings_of(simulated, {}), testing::IsEmpty());
}

/// `check` is given a simulated device whose kernels lack one barrier, for each in turn, and tells what it
/// finds.
template <typename Check>
void expect_each_barrier_is_needed(const Check& check, bool generated, size_t count) {
  size_t barriers = 0;
  const auto is_found = [&](size_t without) {
    SimulatedGpu simulated({}, false, false);
    simulated.compiler.check_races = true;
    simulated.compiler.barriers_generated = generated;
    simulated.compiler.without_barrier = without;
    const bool found = !check(simulated).empty();
    barriers = simulated.compiler.barriers;
    return found;
  };
  EXPECT_FALSE(is_found(SIZE_MAX)) << "none is left out";
  for (size_t without = 0; without < barriers; ++without)
    EXPECT_TRUE(is_found(without)) << "barrier " << without << " may go";
  EXPECT_EQ(barriers, count);
}

struct Family {
  const char* name;
  Names ops;
  size_t barriers;
  DType also = DType::kF32;
};
class BarriersOf : public testing::TestWithParam<Family> {};

TEST_P(BarriersOf, AreNeeded) {
  if (kSanitizer) GTEST_SKIP() << kNotSanitized;
  const auto check = [](const SimulatedGpu& simulated) {
    return findings_of(simulated, GetParam().ops, GetParam().also);
  };
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
                    Family{"Matrices",  // and what else there is in rows_text.h
                           {"cholesky", "triangular_solve", "solve", "slogdet", "qr", "scatter_add",
                            "layer_norm_gradient"},
                           28},
                    Family{"Recurrent", {"lstm", "lstm_gradient", "gru", "gru_gradient"}, 8, DType::kBF16}),
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
    const auto product = [](const Tensor& x) { return matmul(x, transpose(x)); };
    const std::string wrong = wrong_result(product, ones({5, 2'000}), 2'000);
    return wrong.empty() ? wrong_result(product, ones({5, 2'000}, DType::kBF16), 2'000)
                         : wrong;  // tensor cores
  };
  expect_each_barrier_is_needed(check, false, 3);
}

TEST(DeviceRaces, AStepIsCountedByTheLastBlockThatIsDone) {
  const auto check = [](const SimulatedGpu&) -> std::string {
    const VariableDeviceScope there(SimulatedGpu::kDevice);
    const Variable weights(ones({5'000}), "weights");
    optim::Sgd optimizer({.learning_rate = 0.25});
    CaptureOptions options;
    options.plan.device = SimulatedGpu::kDevice;
    auto step = capture(
        [&](const Tensor& x) {
          const Tensor loss = sum(weights * x);
          optimizer.minimize(loss, std::vector{weights});
          return loss;
        },
        options);
    try {
      for (int i = 0; i < 2; ++i) step(ones({5'000}));
      return optimizer.step_count() == 2 && weights.tensor().to_vector().back() == 0.5 ? "" : "wrong";
    } catch (const Error& error) {
      return error.what();
    }
  };
  expect_each_barrier_is_needed(check, false, 1);
}

/// Reads the next element too, which the last one hasn't.
std::unique_ptr<graph::Kernel> prepare_next_sum(const graph::KernelRequest& request) {
  auto kernel = std::make_unique<ops::LaunchKernel>(request);
  kernel->add_loop(request, request.outputs[0].shape.elems(), "out0[i] = in0[i] + 0 * in0[i + 1];");
  return kernel;
}

TEST(DeviceRaces, AReadBesideATensorIsFound) {
  SimulatedGpu simulated({}, false, false);
  simulated.compiler.check_races = true;
  graph::Registry registry;
  graph::OpDef row = ops::row("square");
  row.name = "next_sum";
  graph::add_kernel(DeviceKind::kCuda, {row.name, prepare_next_sum});
  registry.add(row);
  const auto one = [](const graph::OpDef&, DType dtype, size_t sample) {
    return dtype == DType::kF32 && sample == 1;
  };
  const std::vector<ops::DeviceCheck> checks = ops::check_device(simulated.gpu, registry, one);
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_THAT(checks[0].findings, testing::ElementsAre(testing::HasSubstr("which nothing has written")));
}

/// A block's threads share what they leave for their sum; in one block, the last of them leaves nothing.
constexpr const char* kSumOfThree = R"(
extern "C" { char host_fault[256] = ""; }
extern "C" __global__ void sum(float* out, unsigned lacking) {
  __shared__ float parts[4];
  if (threadIdx.x < 3 || blockIdx.x != lacking) parts[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = parts[0] + parts[1] + parts[2] + parts[3];
}
)";

TEST(DeviceRaces, AReadOfSharedMemoryThatTheBlockHasNotWrittenIsFound) {
  std::vector<float> sums(5);
  float* const out = sums.data();
  const auto run = [&](const HostKernels& kernels, unsigned lacking) {
    const void* const arguments[] = {&out, &lacking};
    kernels.run("sum", {5, 1}, 4, {const_cast<void* const*>(arguments), 2});
  };
  const HostKernels checked(kSumOfThree, true), plain(kSumOfThree);
  run(checked, 5);
  EXPECT_THAT(sums, testing::Each(4.0f));
  for (unsigned lacking = 0; lacking < 5; ++lacking) {
    EXPECT_ERROR(run(checked, lacking), ErrorCode::kDevice, "which nothing has written");
    run(plain, lacking);
    for (unsigned b = 0; b < 5; ++b) EXPECT_EQ(std::isnan(sums[b]), b == lacking);
  }
}

TEST(DeviceRaces, BlocksAndThreadsComeInAnyOrder) {
  const HostKernels kernels(
      "extern \"C\" { char host_fault[256] = \"\"; }\nextern \"C\" __global__ void next(unsigned* order, "
      "unsigned* count) {\n"
      "  order[(*count)++] = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x;\n}\n");
  constexpr unsigned kThreads = 32;
  std::vector<unsigned> ascending(kThreads * 7 * 5);
  std::iota(ascending.begin(), ascending.end(), 0u);
  std::set<std::vector<unsigned>> orders_of_blocks, orders_of_threads;
  for (int launch = 0; launch < 4; ++launch) {
    std::vector<unsigned> order(ascending.size()), blocks, threads;
    unsigned count = 0;
    unsigned *out = order.data(), *counted = &count;
    void* const arguments[] = {&out, &counted};
    kernels.run("next", {7, 5}, kThreads, arguments);
    for (size_t i = 0; i < order.size(); i += kThreads) blocks.push_back(order[i] / kThreads);
    for (size_t i = 0; i < kThreads; ++i) threads.push_back(order[i] % kThreads);
    EXPECT_FALSE(std::ranges::is_sorted(blocks));
    EXPECT_FALSE(std::ranges::is_sorted(threads));
    orders_of_blocks.insert(blocks);
    orders_of_threads.insert(threads);
    std::ranges::sort(order);
    EXPECT_EQ(order, ascending);
  }
  EXPECT_EQ(orders_of_blocks.size(), 4u);
  EXPECT_EQ(orders_of_threads.size(), 4u);
}

TEST(DeviceRaces, SortsNeedTheirBarriers) {
  // Two whole tiles: what is sorted wrongly still names places of the line.
  const Tensor line = waves({4'096}, 0.7), numbers = constant(line),
               sorted = constant(isochron::sort(line).first);
  const auto check = [&](const SimulatedGpu&) {
    return wrong_result(
        [&](const Tensor& x) { return cast(equal(isochron::sort(numbers * x).first, sorted), DType::kF32); },
        ones({4'096}), 1);
  };
  expect_each_barrier_is_needed(check, false, 5);
}

TEST(DeviceRaces, ScansNeedTheirBarriers) {
  const auto check = [](const SimulatedGpu&) {
    return wrong_result([](const Tensor& x) { return cumulative_max(x, 0).first; }, ones({10'000}), 1);
  };
  expect_each_barrier_is_needed(check, false, 4);
}

TEST(DeviceRaces, MomentsByManyBlocksNeedTheirBarriers) {
  const auto check = [](const SimulatedGpu&) {
    return wrong_result([](const Tensor& x) { return channel_moments(x).mean; }, ones({30, 100, 3}), 1);
  };
  expect_each_barrier_is_needed(check, false, 4);
}

TEST(DeviceRaces, EveryBarrierIsAmongTheseTests) {
  size_t barriers = 0;
  for (const auto& file :
       std::filesystem::recursive_directory_iterator(ISOCHRON_SOURCE_DIR "/backends/cuda")) {
    if (!file.is_regular_file()) continue;
    std::ifstream stream(file.path());
    const std::string text(std::istreambuf_iterator<char>(stream), {});
    constexpr std::string_view kBarrier = "__syncthreads();";
    for (size_t at = 0; (at = text.find(kBarrier, at)) != std::string::npos; at += kBarrier.size())
      ++barriers;
  }
  EXPECT_EQ(barriers, 60u) << "each needs a test here that fails without it";
}

}  // namespace
}  // namespace isochron
