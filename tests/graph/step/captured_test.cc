// The life of a captured function: signatures, sealing, eviction, failures, staleness, threads.
#include "isochron/graph/step/captured.h"

#include <gmock/gmock.h>
#include <immintrin.h>

#include <stdexcept>
#include <thread>

#include "graph/step/doubled.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/memory/allocators/pool.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(CapturedFunction, ResultsAreViewsUntilTheNextCall) {
  auto step = capture(doubled, CaptureOptions{.name = "double"});
  const Tensor first = step(vec({1}));
  const Tensor kept = graph::copy(first);
  EXPECT_EQ(first.item<int>(), 2);
  const Tensor second = step(vec({5}));
  EXPECT_ERROR(first.item<int>(), ErrorCode::kStale, "the next call of captured 'double'");
  EXPECT_ERROR(first + first, ErrorCode::kStale, "keep a copy()");
  EXPECT_EQ(second.item<int>(), 10);
  EXPECT_EQ(kept.item<int>(), 2);
}

TEST(CapturedFunction, RefusesItsOwnResultAndStaleOrUndefinedArguments) {
  auto step = capture(doubled);
  const Tensor result = step(vec({1}));
  EXPECT_ERROR(step(result), ErrorCode::kStale, "pass copy() of it");
  EXPECT_EQ(result.item<int>(), 2) << "a refused call leaves the result alone";
  EXPECT_EQ(step(graph::copy(result)).item<int>(), 4);
  EXPECT_ERROR(step(result), ErrorCode::kStale, "");
  EXPECT_ERROR(step(Tensor()), ErrorCode::kCaptureViolation, "tensors with content");
  const Tensor variable = vec({1});
  graph::assign(variable, vec({2}));
  EXPECT_ERROR(step(variable), ErrorCode::kStale, "replaced by");
  EXPECT_EQ(step(variable.refreshed()).item<int>(), 4);
}

TEST(CapturedFunction, ResultsOfOneFeedAnother) {
  auto twice = capture(doubled);
  auto negated = capture([](const Tensor& x) { return -x; });
  for (int i = 1; i < 4; ++i) EXPECT_EQ(negated(twice(vec({double(i)}))).item<int>(), -2 * i);
}

TEST(CapturedFunction, RefusesAVariableThatItUpdatesAsArgument) {
  const Tensor variable = vec({1, 2});
  auto step = capture([&](const Tensor& x) {
    graph::assign(variable, variable + 1.0);
    return x * 2.0;
  });
  EXPECT_ERROR(step(variable), ErrorCode::kInvalidArgument, "a variable that the step updates");
  EXPECT_THAT(step(graph::copy(variable)).to_vector(), ElementsAre(2, 4));
  EXPECT_THAT(variable.refreshed().to_vector(), ElementsAre(2, 3));
}

TEST(CapturedFunction, TracesOncePerSignatureAndRecordsTheChange) {
  std::vector<std::string> events;
  const int sink = add_event_sink([&](const Event& event) {
    if (event.kind == EventKind::kTrace && event.name == "sizes") events.push_back(event.text);
  });
  int calls = 0;
  auto step = capture(
      [&](const Tensor& x) {
        ++calls;
        return x + 1.0;
      },
      CaptureOptions{.name = "sizes"});
  const int64_t before = counter_value(Counter::kTraces);
  for (int i = 0; i < 3; ++i) {
    step(zeros({32, 4}));
    step(zeros({7, 4}));
    step(zeros({32, 4}, DType::kF64));
  }
  remove_event_sink(sink);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(counter_value(Counter::kTraces) - before, 3);
  EXPECT_EQ(step.plan_count(), 3u);
  ASSERT_EQ(step.traces().size(), 3u);
  EXPECT_EQ(step.traces()[0].signature, "(f32(32, 4))");
  EXPECT_EQ(step.traces()[0].changed, "");
  EXPECT_EQ(step.traces()[0].traced_nodes, 1u);
  EXPECT_EQ(step.traces()[1].changed, "(f32(32, 4)) -> (f32(7, 4))");
  EXPECT_EQ(step.traces()[2].changed, "(f32(7, 4)) -> (f64(32, 4))");
  ASSERT_EQ(events.size(), 3u);
  EXPECT_THAT(events[1], HasSubstr("(f32(32, 4)) -> (f32(7, 4))"));
}

TEST(CapturedFunction, SealedRefusesTheUnseenSignatureAndShowsBoth) {
  const std::vector<Signature> signatures{{{DType::kF32, {32}}}, {{DType::kF32, {5}}}};
  auto step = capture(doubled, signatures, CaptureOptions{.name = "train"});
  EXPECT_EQ(step.plan_count(), 2u);
  step.prepare(signatures[0]);  // known
  EXPECT_ERROR(step.prepare({{DType::kF32, {4}}, {DType::kF32, {4}}}), ErrorCode::kInvalidArgument,
               "takes 1 tensors, the signature has 2");
  EXPECT_EQ(step.plan_count(), 2u);
  step.seal();
  EXPECT_TRUE(step.sealed());
  EXPECT_EQ(step(zeros({32})).elems(), 32);
  EXPECT_EQ(step(zeros({5})).elems(), 5) << "the partial last batch was prepared";
  EXPECT_EQ(step.traces().size(), 2u);
  EXPECT_ERROR(step(zeros({6})), ErrorCode::kSealed,
               "(f32(6)) was not planned before sealing (planned: (f32(5)))");
  EXPECT_ERROR(step.prepare({{DType::kF32, {6}}}), ErrorCode::kSealed, "before sealing");
  EXPECT_EQ(step(zeros({32})).elems(), 32);
}

TEST(CapturedFunction, KeepsTheRecentlyUsedPlans) {
  auto step = capture(doubled, CaptureOptions{.max_plans = 2});
  const int64_t plans = counter_value(Counter::kPlans);
  const Tensor old = step(zeros({1}));
  step(zeros({2}));
  const Tensor first = step(ones({1}));
  step(zeros({3}));  // evicts (2)
  EXPECT_EQ(step.plan_count(), 2u);
  EXPECT_EQ(step.evictions(), 1u);
  EXPECT_EQ(counter_value(Counter::kPlans) - plans, 2);
  step(ones({1}));
  EXPECT_EQ(step.traces().size(), 3u) << "(1) was kept";
  step(zeros({2}));
  step(zeros({4}));  // evicts (1)
  EXPECT_EQ(step.traces().size(), 5u);
  EXPECT_EQ(step(ones({2})).to_vector(), (std::vector<double>{2, 2}));
  EXPECT_ERROR(old.item<int>(), ErrorCode::kStale, "");
  EXPECT_ERROR(capture(doubled, CaptureOptions{.max_plans = 0}), ErrorCode::kInvalidArgument, "at least 1");
}

TEST(CapturedFunction, AFailedTraceEvictsNothing) {
  bool fails = false;
  auto step = capture(
      [&](const Tensor& x) {
        if (fails) throw std::runtime_error("user's own");
        return x + 1.0;
      },
      CaptureOptions{.max_plans = 1});
  const Tensor before = step(zeros({1}));
  fails = true;
  EXPECT_THROW(step(zeros({2})), std::runtime_error);
  EXPECT_EQ(graph::Capture::current(), nullptr);
  EXPECT_EQ(step.plan_count(), 1u);
  EXPECT_EQ(step.evictions(), 0u);
  EXPECT_EQ(before.item<int>(), 1);
  EXPECT_EQ(step(ones({1})).item<int>(), 2);
  EXPECT_EQ(step.traces().size(), 1u);
  fails = false;
  EXPECT_EQ(step(ones({2})).elems(), 2);
}

TEST(CapturedFunction, PlansShareOneArenaOfTheLongestOnesLength) {
  auto step = capture([](const Tensor& x) { return exp(x) * exp(-x); });
  const auto expected = [](int64_t n) { return std::vector<double>(static_cast<size_t>(n * n), 1.0); };
  const Tensor of_long = step(zeros({64, 64}));
  const std::byte* arena = of_long.storage()->data();
  const size_t bytes = of_long.storage()->size_bytes();
  const Tensor of_short = step(zeros({8, 8}));
  EXPECT_EQ(of_short.storage()->data(), arena);
  EXPECT_ERROR(of_long.to_vector(), ErrorCode::kStale, "the next call of captured 'step'");
  EXPECT_EQ(of_short.to_vector(), expected(8));
  EXPECT_EQ(step(zeros({64, 64})).to_vector(), expected(64));
  const Tensor last = step(zeros({8, 8}));
  EXPECT_EQ(last.storage()->size_bytes(), bytes);
  const Tensor of_longest = step(zeros({100, 100}));
  EXPECT_GT(of_longest.storage()->size_bytes(), bytes);
  EXPECT_ERROR(last.to_vector(), ErrorCode::kStale, "the next call of captured 'step'");
  EXPECT_EQ(of_longest.to_vector(), expected(100));
  for (const int64_t n : {8, 64, 100}) {
    EXPECT_EQ(step(zeros({n, n})).to_vector(), expected(n));
    EXPECT_EQ(step(zeros({n, n})).storage().get(), of_longest.storage().get());
  }
  EXPECT_EQ(step.traces().size(), 3u);
}

TEST(CapturedFunction, KeepsNoArenaThatALongerOneReplaced) {
  PoolAllocator pool;
  const AllocatorScope scope(pool);
  auto step = capture([](const Tensor& x) { return exp(x) * exp(-x); });
  const auto held = [&] {
    for (const TagUsage& usage : pool.usage_by_tag()) {
      if (usage.tag == "arena") return usage.bytes;
    }
    return size_t{0};
  };
  size_t last = 0;
  for (int64_t n = 100; n <= 1000; n += 100) {
    EXPECT_EQ(step(zeros({n})).to_vector()[0], 1);
    EXPECT_GT(held(), last);
    last = held();
  }
  EXPECT_LT(last, 2 * step.largest_plan().report.arena_bytes) << "one arena, the longest";
  EXPECT_EQ(step(zeros({100})).to_vector().back(), 1);
}

TEST(CapturedFunction, LimitsTheBytesOfItsArena) {
  auto step = capture([](const Tensor& x) { return x + 1.0; }, CaptureOptions{.max_arena_bytes = 10000});
  step(zeros({512}));
  EXPECT_ERROR(step(zeros({1024})), ErrorCode::kOutOfMemory, "the limit is 10000");
  EXPECT_EQ(step.plan_count(), 1u);
  EXPECT_EQ(step(ones({512})).to_vector().back(), 2);
  step(zeros({768}));
  EXPECT_EQ(step.plan_count(), 2u);
}

TEST(CapturedFunction, UserErrorsInTheTraceLeaveEverythingUsable) {
  const int64_t nodes = counter_value(Counter::kGraphNodes);
  auto step = capture([](const Tensor& x) { return x + ones({3}); });
  EXPECT_ERROR(step(zeros({2})), ErrorCode::kShapeMismatch, "[add]");
  EXPECT_EQ(counter_value(Counter::kGraphNodes), nodes);
  EXPECT_THAT((ones({2}) + ones({2})).to_vector(), ElementsAre(2, 2)) << "eager again";
  EXPECT_THAT(step(zeros({3})).to_vector(), ElementsAre(1, 1, 1));
}

std::vector<TensorSpec> same(const graph::OpCall& call) { return {call.inputs[0]}; }

class ThrowsOnNegative final : public graph::Kernel {
 public:
  void run(const graph::KernelArgs& args) override {
    const float x = *reinterpret_cast<const float*>(args.inputs[0]);
    require(x >= 0, ErrorCode::kOutOfRange, "needs_positive", "got {}", x);
    *reinterpret_cast<float*>(args.outputs[0]) = x;
  }
};

const graph::OpDef& needs_positive() {
  static const graph::OpDef& op = []() -> const graph::OpDef& {
    graph::OpDef row;
    row.name = "needs_positive";
    row.infer = same;
    const auto kernel = [](const graph::KernelRequest&) -> std::unique_ptr<graph::Kernel> {
      return std::make_unique<ThrowsOnNegative>();
    };
    return ops::register_op(std::move(row), kernel);
  }();
  return op;
}

TEST(CapturedFunction, AKernelThatThrowsLeavesItUsable) {
  auto step = capture([](const Tensor& x) { return graph::apply_one(needs_positive(), {x + 0.5}) * 2.0; });
  EXPECT_EQ(step(vec({1})).item<double>(), 3);
  EXPECT_ERROR(step(vec({-3})), ErrorCode::kOutOfRange, "got -2.5");
  EXPECT_EQ(step(vec({2})).item<double>(), 5);
  EXPECT_ERROR(graph::apply_one(needs_positive(), {vec({-1})}), ErrorCode::kOutOfRange, "got -1");
  EXPECT_EQ(graph::apply_one(needs_positive(), {vec({4})}).item<int>(), 4)
      << "its cached kernel is free again";
}

TEST(CapturedFunction, HoldsWhatItIsBoundTo) {
  auto variable = std::make_unique<Tensor>(vec({1, 2}));
  const int64_t in_use = counter_value(Counter::kBytesInUse);
  {
    auto step = capture([w = variable.get()](const Tensor& x) { return x * *w; });
    step(vec({1, 1}));
    variable.reset();
    const Tensor noise = vec({9, 9});  // would get the memory of a freed variable
    EXPECT_THAT(step(vec({10, 10})).to_vector(), ElementsAre(10, 20));
  }
  EXPECT_LT(counter_value(Counter::kBytesInUse), in_use) << "the last holder is gone";
}

TEST(CapturedFunction, ReleasesGraphsPlansAndTensors) {
  const int64_t nodes = counter_value(Counter::kGraphNodes);
  const int64_t plans = counter_value(Counter::kPlans);
  const int64_t bytes = counter_value(Counter::kBytesInUse);
  const int64_t tensors = counter_value(Counter::kLiveTensors);
  {
    auto step = capture([](const Tensor& x) { return sum(exp(x) * 2.0 + 1.0); });
    step(ones({3}));
    step(ones({4}));
    EXPECT_GT(counter_value(Counter::kPlans), plans);
  }
  EXPECT_EQ(counter_value(Counter::kGraphNodes), nodes);
  EXPECT_EQ(counter_value(Counter::kPlans), plans);
  EXPECT_EQ(counter_value(Counter::kBytesInUse), bytes);
  EXPECT_EQ(counter_value(Counter::kLiveTensors), tensors);
}

TEST(CapturedFunction, MovesWithItsPlans) {
  auto step = capture(doubled);
  const Tensor before = step(vec({1}));
  auto moved = std::move(step);
  EXPECT_EQ(before.item<int>(), 2);
  EXPECT_EQ(moved(vec({3})).item<int>(), 6);
  EXPECT_EQ(moved.traces().size(), 1u);
  auto other = capture(doubled);
  other(vec({1}));
  other = std::move(moved);
  EXPECT_EQ(other(vec({4})).item<int>(), 8);
  EXPECT_EQ(other.traces().size(), 1u);
}

TEST(CapturedFunction, ReplaysAndTracesOnAnotherThread) {
  const Tensor weight = vec({3});
  auto step = capture([&](const Tensor& x) { return x * weight; });
  EXPECT_EQ(step(vec({1})).item<int>(), 3);
  std::vector<double> results;
  std::thread other([&] {
    results.push_back(step(vec({2})).item<double>());
    results.push_back(step(vec({2, 3})).to_vector()[1]);
  });
  other.join();
  EXPECT_THAT(results, ElementsAre(6, 9));
  EXPECT_EQ(step(vec({4})).item<int>(), 12);
  EXPECT_EQ(step.traces().size(), 2u);
}

TEST(CapturedFunction, AnotherThreadRunsEagerWhileThisOneCaptures) {
  double eager = 0;
  auto step = capture([&](const Tensor& x) {
    std::thread other([&] { eager = (ones({2}) + 1.0).to_vector()[0]; });
    other.join();
    return x + 1.0;
  });
  EXPECT_EQ(step(vec({1})).item<int>(), 2);
  EXPECT_EQ(eager, 2);
  EXPECT_EQ(step.traces()[0].traced_nodes, 1u);
}

/// By default, a thread computes with subnormals; the result of an op doesn't depend on that setting.
TEST(CapturedFunction, SubnormalsAreFlushedAsByEagerOps) {
  std::vector<double> eager, captured;
  std::thread fresh([&] {
    _mm_setcsr(0x1f80);  // the default; a thread inherits its creator's
    eager = (vec({1e-38, 1}) * 0.1).to_vector();
  });
  fresh.join();
  std::thread other([&] {
    _mm_setcsr(0x1f80);
    captured = capture([](const Tensor& x) { return x * 0.1; })(vec({1e-38, 1})).to_vector();
  });
  other.join();
  EXPECT_THAT(eager, ElementsAre(0, 0.1F));
  EXPECT_EQ(captured, eager);
}

TEST(CapturedFunction, AsksForACallBeforeItReports) {
  auto step = capture(doubled, CaptureOptions{.name = "new"});
  EXPECT_ERROR(step.plan_report(), ErrorCode::kInvalidArgument, "[new] has not been called yet");
  EXPECT_ERROR(step.graph(), ErrorCode::kInvalidArgument, "not been called");
  EXPECT_ERROR(step.plan(), ErrorCode::kInvalidArgument, "not been called");
  EXPECT_THAT(step.report(), HasSubstr("captured 'new': 0 plans"));
  step(vec({1}));
  EXPECT_EQ(step.plan_report().instructions, 1u);
}

TEST(CapturedFunction, RejectsUnknownPassNames) {
  auto step = capture(doubled, CaptureOptions{.passes = {.disabled = {"fuze"}}});
  EXPECT_ERROR(step(vec({1})), ErrorCode::kInvalidArgument, "no pass 'fuze'");
}

TEST(CapturedFunction, EmptyAndScalarTensors) {
  auto step = capture([](const Tensor& x, const Tensor& y) {
    return std::tuple(x * 2.0, sum(x + 1.0), reshape(x, {0}), y * y);
  });
  const auto [a, b, c, d] = step(zeros({0, 3}), scalar(3));
  EXPECT_EQ(a.elems(), 0);
  EXPECT_EQ(b.item<int>(), 0);
  EXPECT_EQ(c.shape(), Shape{0});
  EXPECT_EQ(d.item<int>(), 9);
}

TEST(CapturedFunction, ReturnsArrays) {
  auto step = capture([](const Tensor& x) { return std::array{x + 1.0, x + 2.0, x + 3.0}; });
  const std::array<Tensor, 3> results = step(vec({1}));
  EXPECT_THAT(results[0].to_vector(), ElementsAre(2));
  EXPECT_THAT(results[2].to_vector(), ElementsAre(4));
}

}  // namespace
}  // namespace isochron
