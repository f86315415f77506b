// Sealed means sealed: replaying a training step makes no heap allocations and creates nothing that is
// counted.
#include <gmock/gmock.h>
#include <pthread.h>

#include <array>
#include <cmath>

#include "graph/program/trace.h"
#include "isochron/apps/allocation_counter.h"
#include "isochron/autograd/autograd.h"
#include "isochron/core/base/library_call.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/along_axis.h"
#include "isochron/ops/linalg/linalg.h"
#include "isochron/ops/matmul/einsum.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/cumulative.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/reduction/sorting.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/interpolation.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::graph {
namespace {

constexpr int kSteps = 1000;
constexpr Counter kStill[] = {Counter::kLiveTensors,
                              Counter::kGraphNodes,
                              Counter::kPlans,
                              Counter::kTraces,
                              Counter::kBytesReserved,
                              Counter::kBytesInUse,
                              Counter::kSystemAllocations,
                              Counter::kTapeEntries,
                              Counter::kThreads};

/// 20-16-1 with ReLU and mean squared error, written out by hand.
struct Network {
  std::vector<Tensor> parameters{full({20, 16}, 0.05), zeros({16}), full({16, 1}, 0.1), zeros({1})};

  Tensor loss(const Tensor& x, const Tensor& y) const {
    const Tensor hidden = relu(matmul(x, parameters[0].refreshed()) + parameters[1].refreshed());
    const Tensor out = matmul(hidden, parameters[2].refreshed()) + parameters[3].refreshed();
    return mean(square(out - y));
  }
  std::vector<Tensor> gradients_of(const Tensor& loss_value) const {
    std::vector<Tensor> sources;
    for (const Tensor& parameter : parameters) sources.push_back(parameter.refreshed());
    return gradients(loss_value, sources);
  }
};

template <typename Step>
void expect_still(Step& step) {
  const Tensor x = full({32, 20}, 0.5);
  const Tensor y = full({32, 1}, 1.0);
  const Tensor partial_x = full({7, 20}, 0.25);
  const Tensor partial_y = full({7, 1}, 1.0);
  double first = 0;
  double last = 0;
  first = step(x, y).template item<double>();
  step(partial_x, partial_y);
  std::array<int64_t, std::size(kStill)> before{};
  for (size_t i = 0; i < before.size(); ++i) before[i] = counter_value(kStill[i]);
  const int64_t allocations = heap_allocations();
  for (int i = 0; i < kSteps; ++i) {
    last = step(x, y).template item<double>();
    step(partial_x, partial_y);
  }
  const int64_t made = heap_allocations() - allocations;
  EXPECT_EQ(made, 0) << "allocations in " << kSteps << " pairs of steps";
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(counter_value(kStill[i]), before[i]) << counter_name(kStill[i]);
  }
  EXPECT_LT(last, 0.5 * first) << "it trains";
}

TEST(Allocations, NoneInReplayedOpsAlongAxesAndOnMatrices) {
  auto step = capture([](const Tensor& x) {
    const auto [q, r] = qr(x);
    const auto [sign, log_magnitude] = slogdet(x);
    const Tensor factor = cholesky(x);
    Tensor total = sum(q) + sum(r) + log_magnitude + sum(factor) + sum(solve(x, q)) +
                   sum(triangular_solve(factor, q)) + sum(einsum("ij,jk,ik->i", {x, q, r}));
    total = total + sum(cumulative_sum(x, 0)) + sum(cumulative_product(x, 1)) +
            sum(cumulative_max(x, 1).first) + sum(log_cumulative_sum_exp(x, 1));
    total = total + sum(isochron::sort(x).first) + sum(top_k(x, 5).first) +
            sum(take_along_axis(x, argsort(x), 1)) + sum(resize(reshape(x, {1, 50, 100, 8}), {70, 60}));
    return total + sum(gradients(total, {&x, 1})[0]);
  });
  const Tensor x = eye(200, DType::kF64) * 2.0 + 0.001;
  const double first = step(x).item<double>();
  const int64_t before = heap_allocations();
  double last = 0;
  for (int i = 0; i < 3; ++i) last = step(x).item<double>();
  EXPECT_EQ(heap_allocations() - before, 0);
  EXPECT_EQ(last, first);
  EXPECT_TRUE(std::isfinite(first));
}

TEST(Allocations, AreCountedAtAll) {
  if (!allocations_counted()) GTEST_SKIP() << "a sanitizer has its own allocator";
  const int64_t before = heap_allocations();
  const auto block = std::make_unique<int>(1);
  void* aligned = nullptr;
  ASSERT_EQ(posix_memalign(&aligned, 64, 100), 0);
  free(aligned);
  EXPECT_GE(heap_allocations() - before, 2);
  EXPECT_NE(block, nullptr);
}

TEST(Allocations, NoneInAReplayedSgdStepOfTwoSignatures) {
  Network network;
  auto step = capture([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = network.loss(x, y);
    const std::vector<Tensor> g = network.gradients_of(loss);
    for (size_t i = 0; i < g.size(); ++i) {
      const Tensor parameter = network.parameters[i].refreshed();
      assign(parameter, parameter - g[i] * 0.01);
    }
    return loss;
  });
  expect_still(step);
}

TEST(Allocations, NoneInAReplayedStepInMixedPrecision) {
  for (const Precision precision : {Precision::kMixedBf16, Precision::kMixedF16}) {
    Network network;
    CaptureOptions options;
    options.passes.precision = precision;
    auto step = capture(
        [&](const Tensor& x, const Tensor& y) {
          const Tensor loss = network.loss(x, y);
          const std::vector<Tensor> g = network.gradients_of(loss);
          for (size_t i = 0; i < g.size(); ++i) {
            const Tensor parameter = network.parameters[i].refreshed();
            assign(parameter, parameter - g[i] * 0.01);
          }
          return loss;
        },
        options);
    expect_still(step);
  }
}

TEST(Allocations, NoneInAReplayedAdamStepOfTwoSignatures) {
  Network network;
  std::vector<Tensor> first_moments;
  std::vector<Tensor> second_moments;
  for (const Tensor& parameter : network.parameters) {
    first_moments.push_back(zeros_like(parameter));
    second_moments.push_back(zeros_like(parameter));
  }
  const Tensor count = zeros({});
  auto step = capture([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = network.loss(x, y);
    const std::vector<Tensor> g = network.gradients_of(loss);
    assign(count, count.refreshed() + 1.0);
    const Tensor t = count.refreshed();
    const Tensor rate = sqrt(1.0 - pow(scalar(0.999), t)) / (1.0 - pow(scalar(0.9), t)) *
                        0.003;  // in slots: never in a plan's key
    for (size_t i = 0; i < g.size(); ++i) {
      const Tensor m = first_moments[i] * 0.9 + g[i] * 0.1;
      const Tensor v = second_moments[i] * 0.999 + square(g[i]) * 0.001;
      assign(first_moments[i], m);
      assign(second_moments[i], v);
      const Tensor parameter = network.parameters[i].refreshed();
      assign(parameter, parameter - m * rate / (sqrt(v) + 1e-7));
    }
    return loss;
  });
  expect_still(step);
  EXPECT_EQ(count.refreshed().item<int>(), 2 * (kSteps + 1));
  EXPECT_EQ(step.plan_report().updates_copied, 0);
}

TEST(Allocations, EagerStepsGrowNothing) {
  // Eager calls allocate from the pool, but what lives stays level.
  Network network;
  const auto step = [&] {
    GradientTape tape;
    const Tensor loss = network.loss(full({8, 20}, 0.5), full({8, 1}, 1.0));
    std::vector<Tensor> sources;
    for (const Tensor& parameter : network.parameters) sources.push_back(parameter.refreshed());
    const std::vector<Tensor> g = tape.gradient(loss, sources);
    for (size_t i = 0; i < g.size(); ++i) assign(sources[i], sources[i] - g[i] * 0.05);
  };
  step();
  std::array<int64_t, std::size(kStill)> before{};
  for (size_t i = 0; i < before.size(); ++i) before[i] = counter_value(kStill[i]);
  for (int i = 0; i < 100; ++i) step();
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(counter_value(kStill[i]), before[i]) << counter_name(kStill[i]);
  }
}

TEST(Allocations, OfAThreadThatALibraryMadeAreTheLibrarys) {
  if (!allocations_counted()) GTEST_SKIP() << "allocations aren't counted under a sanitizer";
  const auto allocate = [](void*) -> void* {
    void* volatile block = malloc(1000);  // volatile: not left out
    free(block);
    return nullptr;
  };
  const auto ours_of = [&](auto make) {
    pthread_t thread = 0;
    const int64_t before = heap_allocations(), library_before = library_allocations();
    make(&thread);
    const int64_t to_make = heap_allocations() - before;
    pthread_join(thread, nullptr);
    return std::array{heap_allocations() - before - to_make, library_allocations() - library_before};
  };
  const auto own = ours_of([&](pthread_t* thread) { pthread_create(thread, nullptr, allocate, nullptr); });
  EXPECT_EQ(own[1], 0);
  const auto of_library = ours_of([&](pthread_t* thread) {
    const SingleThreadLibraryCall call;
    pthread_create(thread, nullptr, allocate, nullptr);
  });
  EXPECT_EQ(of_library[0], 0);
  EXPECT_GE(of_library[1], 1);
}

}  // namespace
}  // namespace isochron::graph
