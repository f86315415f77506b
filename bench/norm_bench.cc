// Compares layer, group, instance and batch normalization of one size, forward and backward. They are
// measured alternately, and the medians of many turns are compared, so that a busy machine affects all alike.
// Counters: the median of layer_norm in microseconds, and the ratios of the others to it.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>

#include "isochron/autograd/autograd.h"
#include "isochron/core/base/rng.h"
#include "isochron/core/process/threads.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/normalization/normalization.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"

namespace isochron {
namespace {

using Norm = std::function<Tensor(const Tensor& x, const Tensor& gamma, const Tensor& beta)>;
using Clock = std::chrono::steady_clock;

Tensor numbers(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  Tensor result = empty({DType::kF32, shape});
  for (float& value : result.span<float>()) value = static_cast<float>(rng.normal());
  return result;
}

/// What a step differentiates: y with a given gradient (kSeed), or the mean of y's squares (kSquares).
enum class Use { kSeed, kSquares };

/// Returns the gradients of x, gamma and beta, and the target.
std::vector<Tensor> step(const Norm& norm, Use use, std::span<const Tensor> in) {
  const std::array<Tensor, 3> sources{in[0], in[1], in[2]};
  const Tensor y = norm(in[0], in[1], in[2]);
  const Tensor target = use == Use::kSeed ? y : mean(square(y));
  const std::array<Tensor, 1> targets{target}, seeds{use == Use::kSeed ? in[3] : Tensor()};
  std::vector<Tensor> results =
      use == Use::kSeed ? gradients(targets, sources, seeds) : gradients(targets, sources);
  results.push_back(target);
  return results;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

constexpr const char* kNames[] = {"layer", "group", "instance", "batch"};

void compare(benchmark::State& state, const Shape& shape, int64_t groups, Use use, int threads) {
  set_compute_threads(threads);
  const int64_t channels = shape.back();
  const std::array<Tensor, 4> inputs{numbers(shape, 1), numbers({channels}, 2), numbers({channels}, 3),
                                     numbers(shape, 4)};
  const std::array<Norm, 4> norms{[](auto& x, auto& g, auto& b) { return layer_norm(x, g, b); },
                                  [groups](auto& x, auto& g, auto& b) { return group_norm(x, groups, g, b); },
                                  [](auto& x, auto& g, auto& b) { return instance_norm(x, g, b); },
                                  [](auto& x, auto& g, auto& b) { return batch_norm(x, g, b).y; }};
  std::vector<CapturedFunction> steps;
  for (const Norm& norm : norms) {
    steps.emplace_back([&norm, use](std::span<const Tensor> in) { return step(norm, use, in); },
                       CaptureOptions{});
  }
  const std::array<const Tensor*, 4> arguments{&inputs[0], &inputs[1], &inputs[2], &inputs[3]};
  std::array<std::vector<double>, 4> times;
  for (auto _ : state) {
    for (size_t i = 0; i < steps.size(); ++i) {
      steps[i].call(arguments);  // brings its memory into cache
      const auto start = Clock::now();
      steps[i].call(arguments);
      times[i].push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
  }
  const double layer = median(times[0]);
  state.counters["layer_us"] = layer;
  for (size_t i = 1; i < steps.size(); ++i) state.counters[kNames[i]] = median(times[i]) / layer;
}

struct Size {
  Shape shape;
  int64_t groups;
};

void register_all() {
  const std::vector<Size> sizes = {{{8, 64, 64, 32}, 8},      {{8, 64, 64, 128}, 32}, {{32, 32, 32, 16}, 4},
                                   {{32, 8, 8, 64}, 8},       {{8, 64, 64, 24}, 8},   {{8, 64, 64, 15}, 3},
                                   {{8, 64, 64, 3}, 1},       {{8, 64, 64, 100}, 4},  {{16, 2000, 40}, 8},
                                   {{2, 16, 48, 48, 36}, 12}, {{1, 128, 128, 64}, 8}, {{256, 8, 8, 32}, 8},
                                   {{64, 16, 16, 512}, 32}};
  for (const Use use : {Use::kSeed, Use::kSquares}) {
    for (const Size& size : sizes) {
      for (const int threads : {1, 2}) {
        const std::string name = "norms/" + size.shape.str() + (use == Use::kSeed ? "" : "/squares") +
                                 "/threads:" + std::to_string(threads);
        benchmark::RegisterBenchmark(
            name.c_str(),
            [=](benchmark::State& state) { compare(state, size.shape, size.groups, use, threads); })
            ->UseRealTime()
            ->Unit(benchmark::kMicrosecond);
      }
    }
  }
}

const bool registered = (register_all(), true);

}  // namespace
}  // namespace isochron
