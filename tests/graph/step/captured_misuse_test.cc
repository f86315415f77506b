// Misused captured functions: called from two threads at once, from within, after a move, destroyed during
// tracing; and plans that are made and evicted.
#include <gmock/gmock.h>

#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "graph/step/doubled.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/graph/capture/variable.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/notices.h"

namespace isochron {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// What the op below does once, when it runs.
std::function<void()> g_within_a_kernel;

class HookKernel final : public graph::Kernel {
 public:
  void run(const graph::KernelArgs& args) override {
    *reinterpret_cast<float*>(args.outputs[0]) = *reinterpret_cast<const float*>(args.inputs[0]);
    if (g_within_a_kernel) std::exchange(g_within_a_kernel, nullptr)();
  }
};

Tensor hooked(const Tensor& x) {
  static const graph::OpDef& op = []() -> const graph::OpDef& {
    graph::OpDef row;
    row.name = "hook_of_a_test";
    row.infer = [](const graph::OpCall& call) { return std::vector<TensorSpec>{call.inputs[0]}; };
    const auto kernel = [](const graph::KernelRequest&) -> std::unique_ptr<graph::Kernel> {
      return std::make_unique<HookKernel>();
    };
    return ops::register_op(std::move(row), kernel);
  }();
  return graph::apply_one(op, {x});
}

TEST(CapturedMisuse, ACallWhileAnotherThreadsRunsIsRefused) {
  auto step = capture([](const Tensor& x) { return hooked(x) * 2.0; }, {.name = "shared"});
  step(vec({1}));
  std::promise<void> inside, go_on;
  g_within_a_kernel = [&] {
    inside.set_value();
    go_on.get_future().wait();
  };
  double result = 0;
  std::thread other([&] { result = step(vec({3})).item<double>(); });
  inside.get_future().wait();
  EXPECT_ERROR(step(vec({4})), ErrorCode::kCaptureViolation,
               "[shared] called while another thread's call runs");
  EXPECT_ERROR(step(vec({4, 5})), ErrorCode::kCaptureViolation, "one call at a time");
  EXPECT_ERROR(step.prepare({TensorSpec{DType::kF32, {7}}}), ErrorCode::kCaptureViolation,
               "another thread's");
  go_on.set_value();
  other.join();
  EXPECT_EQ(result, 6) << "the running call is left alone";
  EXPECT_EQ(step(vec({4})).item<int>(), 8) << "and then it serves again";
  EXPECT_EQ(step.plan_count(), 1u);
}

TEST(CapturedMisuse, ACallFromWithinIsRefused) {
  std::function<void(const Tensor&)> again;
  auto by_trace = capture([&](const Tensor& x) {
    if (again) {
      const graph::EagerScope eager;
      again(vec({1, 2}));
    }
    return x + 1.0;
  });
  again = [&](const Tensor& x) { by_trace(x); };
  EXPECT_ERROR(by_trace(vec({1})), ErrorCode::kCaptureViolation, "called from within its own call");
  again = nullptr;
  EXPECT_EQ(by_trace(vec({1})).item<int>(), 2);

  auto by_kernel = capture([](const Tensor& x) { return hooked(x); });
  by_kernel(vec({1}));
  g_within_a_kernel = [&] { by_kernel(vec({2})); };
  EXPECT_ERROR(by_kernel(vec({1})), ErrorCode::kCaptureViolation, "called from within its own call");
  EXPECT_EQ(by_kernel(vec({3})).item<int>(), 3);
}

TEST(CapturedMisuse, OneThatWasMovedFromSaysSo) {
  auto step = capture(doubled);
  auto moved = std::move(step);
  // NOLINTBEGIN(bugprone-use-after-move): that is what is tested
  const char* const text = "[capture] the captured function was moved from";
  EXPECT_ERROR(step(vec({1})), ErrorCode::kInvalidArgument, text);
  EXPECT_ERROR(step.prepare({}), ErrorCode::kInvalidArgument, text);
  EXPECT_ERROR(step.seal(), ErrorCode::kInvalidArgument, text);
  EXPECT_ERROR(step.sealed(), ErrorCode::kInvalidArgument, text);
  EXPECT_ERROR(step.plan_count(), ErrorCode::kInvalidArgument, text);
  EXPECT_ERROR(step.evictions(), ErrorCode::kInvalidArgument, text);
  EXPECT_ERROR(step.traces(), ErrorCode::kInvalidArgument, text);
  EXPECT_ERROR(step.transfer_stats(), ErrorCode::kInvalidArgument, text);
  EXPECT_ERROR(step.plan_report(), ErrorCode::kInvalidArgument, text);
  EXPECT_ERROR(step.plan(), ErrorCode::kInvalidArgument, text);
  EXPECT_ERROR(step.largest_plan(), ErrorCode::kInvalidArgument, text);
  EXPECT_ERROR(step.graph(), ErrorCode::kInvalidArgument, text);
  EXPECT_ERROR(step.report(), ErrorCode::kInvalidArgument, text);
  step = std::move(moved);
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_EQ(step(vec({3})).item<int>(), 6);
}

TEST(CapturedMisuse, ATraceThatDestroysItsOwnFunctionIsAnError) {
  using Function = std::function<Tensor(const Tensor&)>;
  struct Holder {
    std::unique_ptr<Captured<Function>> step;
  } holder;
  const auto holding = std::make_shared<int>(1);  // destroyed with the function
  bool destroys = true;
  const auto make = [&] {
    return std::make_unique<Captured<Function>>(Function([&holder, &destroys, holding](const Tensor& x) {
                                                  if (destroys) holder.step.reset();
                                                  return x + static_cast<double>(*holding);
                                                }),
                                                CaptureOptions{.name = "own"});
  };
  holder.step = make();
  EXPECT_ERROR((*holder.step)(vec({1})), ErrorCode::kCaptureViolation,
               "[own] was destroyed or replaced while it was traced");
  EXPECT_EQ(holding.use_count(), 1) << "nothing is left of it";
  holder.step = make();
  EXPECT_ERROR(holder.step->prepare({TensorSpec{DType::kF32, {2}}}), ErrorCode::kCaptureViolation,
               "destroyed");
  destroys = false;
  holder.step = make();
  EXPECT_EQ((*holder.step)(vec({1})).item<int>(), 2);
}

TEST(CapturedMisuse, ATraceThatReplacesOrMovesItsOwnFunction) {
  using Step = Captured<std::function<Tensor(const Tensor&)>>;
  std::optional<Step> step, elsewhere;
  const auto other = [] { return Step(doubled, {}); };
  step.emplace(
      [&](const Tensor& x) {
        *step = other();
        return x;
      },
      CaptureOptions{});
  EXPECT_ERROR((*step)(vec({1})), ErrorCode::kCaptureViolation, "destroyed or replaced");
  EXPECT_EQ((*step)(vec({2})).item<int>(), 4) << "the one that took its place";
  step.emplace(
      [&](const Tensor& x) {
        elsewhere.emplace(std::move(*step));
        return x + 1.0;
      },
      CaptureOptions{});
  EXPECT_EQ((*step)(vec({1})).item<int>(), 2) << "the call goes on where it was moved to";
  EXPECT_EQ((*elsewhere)(vec({5})).item<int>(), 6);
}

TEST(CapturedMisuse, AVariableThatEndsWithTheFunctionIsAnError) {
  const std::string told =
      "variable 'count' was made inside the captured function and ends with it, so each trace would begin "
      "with a new one; make it, or the layer that has it, outside of the function";
  auto counting = capture([](const Tensor& x) {
    const Variable count(scalar(0), "count");
    count.assign(count + 1.0);
    return x * count;
  });
  EXPECT_ERROR(counting(vec({1})), ErrorCode::kCaptureViolation, told);
  auto reading = capture([](const Tensor& x) {
    const Tensor content = Variable(scalar(3), "count").tensor();
    return x * content;
  });
  EXPECT_ERROR(reading(vec({1})), ErrorCode::kCaptureViolation, told);
}

TEST(CapturedMisuse, VariablesThatSomethingHoldsMayBeMadeInATrace) {
  Variable count;
  auto counting = capture([&count](const Tensor& x) {
    const Variable unused(scalar(0), "unused");
    if (!count.defined()) count = Variable(scalar(0), "count");
    count.assign(count + 1.0);
    return x * count;
  });
  EXPECT_EQ(counting(vec({1})).item<int>(), 1);
  EXPECT_THAT(counting(vec({1, 2})).to_vector(), ElementsAre(2, 4)) << "one count for both signatures";
  Tensor content;
  {
    const Variable made_before(scalar(5), "made_before");
    content = made_before.tensor();
  }
  auto plain = capture([&](const Tensor& x) { return x * content; });
  EXPECT_EQ(plain(vec({2})).item<int>(), 10) << "content that a tensor holds";
}

TEST(CapturedMisuse, OptionsInBracesAreOptions) {
  auto step = capture(doubled, {.max_plans = 4});
  for (int64_t n = 1; n <= 5; ++n) step(zeros({n}));
  EXPECT_EQ(step.plan_count(), 4u);
  EXPECT_EQ(capture(doubled, {}).plan_count(), 0u);
  EXPECT_THAT(capture(doubled, {.name = "named", .max_plans = 2}).report(), HasSubstr("captured 'named'"));
  const TensorSpec three{DType::kF32, {3}}, four{DType::kF32, {4}};
  EXPECT_EQ(capture(doubled, {{three}, {four}}).plan_count(), 2u);
  EXPECT_EQ(capture(doubled, {{three}, {four}}, {.max_plans = 1}).plan_count(), 2u);
  const std::vector<Signature> signatures{{three}};
  EXPECT_EQ(capture(doubled, signatures, {.name = "planned"}).plan_count(), 1u);
}

TEST(CapturedMisuse, PlansOfAllGivenSignaturesAreKept) {
  std::vector<Signature> signatures;
  for (int64_t n = 1; n <= 20; ++n) signatures.push_back({{DType::kF32, {n}}});
  auto step = capture([](const Tensor& x) { return x * 2.0; }, signatures, {.max_plans = 3});
  step.seal();
  EXPECT_EQ(step.plan_count(), 20u);
  EXPECT_EQ(step.evictions(), 0u);
  EXPECT_EQ(step(vec({4})).item<int>(), 8) << "the first one's";
}

TEST(CapturedMisuse, AResultOfAnotherFunctionIsReadUntilItIsOverwritten) {
  auto producer = capture([](const Tensor& x) { return x * 2.0; }, {.name = "producer"});
  const Tensor made = producer(ones({3}));
  auto reader = capture([&](const Tensor& x) { return x + made; }, {.name = "reader"});
  EXPECT_THAT(reader(zeros({3})).to_vector(), ElementsAre(2, 2, 2));
  EXPECT_THAT(reader(zeros({3})).to_vector(), ElementsAre(2, 2, 2));
  producer(zeros({3}));
  EXPECT_ERROR(reader(zeros({3})), ErrorCode::kStale, "the next call of captured 'producer' has replaced it");
  const Tensor kept = copy(producer(ones({3})));
  auto keeper = capture([&](const Tensor& x) { return x + kept; });
  keeper(zeros({3}));
  producer(zeros({3}));
  EXPECT_THAT(keeper(zeros({3})).to_vector(), ElementsAre(2, 2, 2));
}

TEST(CapturedMisuse, AFunctionsOwnResultIsRefusedAtTheTrace) {
  Tensor before;
  auto step = capture([&](const Tensor& x) { return before.defined() ? x + sum(before) : x * 1.0; });
  before = step(ones({1000}));
  EXPECT_ERROR(step(ones({990})), ErrorCode::kStale, "its own previous result, which the call overwrites");
  before = copy(step(ones({1000})));
  EXPECT_EQ(step(ones({990})).to_vector()[0], 1001);
}

TEST(CapturedMisuse, MoreSignaturesThanPlansAreToldOnce) {
  const Notices notices;
  auto step = capture(doubled, {.name = "ragged", .max_plans = 4});
  for (int64_t n = 1; n <= 4; ++n) step(zeros({n}));
  EXPECT_THAT(step.report(), testing::Not(HasSubstr("max_plans")));
  step(zeros({5}));  // replaces the plan for (1)
  EXPECT_THAT(notices.texts(), testing::IsEmpty()) << "one that goes is no loop yet";
  for (int round = 0; round < 3; ++round) {
    for (int64_t n = 1; n <= 5; ++n) step(zeros({n}));
  }
  EXPECT_THAT(
      notices.texts(),
      ElementsAre(AllOf(HasSubstr("'ragged' keeps 4 plans (max_plans) and has met 5 signatures in 6 calls"),
                        HasSubstr("of 6 traces"), HasSubstr("1 were of signatures traced before"),
                        HasSubstr("raise max_plans"))));
  EXPECT_THAT(step.report(), AllOf(HasSubstr("has met 5 signatures in 20 calls: of 20 traces"),
                                   HasSubstr("15 were of signatures traced before")));
}

TEST(CapturedMisuse, SignaturesThatNeverComeAgainAreToldToo) {
  const Notices notices;
  auto step = capture(doubled, {.max_plans = 2});
  for (int64_t n = 1; n <= 10; ++n) step(zeros({n}));
  EXPECT_THAT(notices.texts(), ElementsAre(HasSubstr("has met 4 signatures in 4 calls: of 4 traces")));
  EXPECT_THAT(step.report(), HasSubstr("has met 10 signatures"));
}

}  // namespace
}  // namespace isochron
