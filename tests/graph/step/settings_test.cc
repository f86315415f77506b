// Captured functions whose trace reads settings that change later.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "graph/step/doubled.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/graph/capture/settings.h"
#include "isochron/graph/capture/variable.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

using ::testing::HasSubstr;

const auto kName = [] { return std::string("the factor"); };

TEST(Settings, APlanServesTheValueThatItsTraceRead) {
  const graph::Setting factor(2), other(0);
  int traces = 0;
  auto step = capture([&](const Tensor& x) {
    ++traces;
    return x * static_cast<double>(factor.read(kName));
  });
  const Tensor x = ones({1});
  const auto result = [&] { return step(x).item<double>(); };
  EXPECT_EQ(result(), 2);
  other.set(1);  // no plan depends on it
  EXPECT_EQ(result(), 2);
  EXPECT_EQ(traces, 1);
  factor.set(3);
  EXPECT_EQ(result(), 3);
  EXPECT_EQ(result(), 3);
  EXPECT_EQ(traces, 2);
  EXPECT_EQ(step.traces()[1].changed, "the factor");
  factor.set(2);
  EXPECT_EQ(result(), 2) << "by the first plan";
  EXPECT_EQ(traces, 2);
  step.prepare({x.spec()});
  EXPECT_EQ(traces, 2);
  factor.set(5);
  step.prepare({x.spec()});
  EXPECT_EQ(traces, 3);
  EXPECT_EQ(result(), 5);
  EXPECT_EQ(traces, 3);
}

TEST(Settings, AChangeIsNamedInTheEventAndRefusedAfterSealing) {
  const graph::Setting factor(2);
  std::vector<Event> events;
  const int sink = add_event_sink([&](const Event& event) {
    if (event.kind == EventKind::kTrace && event.name == "scaled") events.push_back(event);
  });
  auto step = capture([&](const Tensor& x) { return x * static_cast<double>(factor.read(kName)); },
                      CaptureOptions{.name = "scaled"});
  const Tensor x = ones({1});
  step(x);
  factor.set(3);
  step(x);
  remove_event_sink(sink);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].text, "traced 1 nodes for (f32(1))");
  EXPECT_EQ(events[1].text, "traced 1 nodes for (f32(1)), because these settings changed: the factor");
  EXPECT_EQ(events[1].before, "(f32(1))");
  EXPECT_EQ(events[1].after, "(f32(1)); changed: the factor");
  step.seal();
  factor.set(2);
  EXPECT_EQ(step(x).item<double>(), 2);
  factor.set(4);
  EXPECT_ERROR(
      step(x), ErrorCode::kSealed,
      "signature (f32(1)) was planned before sealing, but these settings changed since: the factor;");
  EXPECT_ERROR(step(zeros({2})), ErrorCode::kSealed, "(f32(2)) was not planned before sealing");
}

TEST(Settings, AreReadInSubgraphsToo) {
  const graph::Setting factor(2);
  auto step = capture([&](const Tensor& x) {
    return cond(
        scalar(1, DType::kBool), [&] { return x * static_cast<double>(factor.read(kName)); },
        [&] { return x; });
  });
  const Tensor x = ones({1});
  EXPECT_EQ(step(x).item<double>(), 2);
  factor.set(3);
  EXPECT_EQ(step(x).item<double>(), 3);
}

TEST(Settings, AValueThatTheTraceItselfSetsIsNone) {
  const graph::Setting factor(2);
  int traces = 0;
  auto step = capture([&](const Tensor& x) {
    ++traces;
    const Tensor outer = x * static_cast<double>(factor.read(kName));
    factor.set(5);
    const Tensor inner = outer + static_cast<double>(factor.read(kName));
    factor.set(2);
    return inner;
  });
  const Tensor x = ones({1});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(step(x).item<double>(), 7);
  EXPECT_EQ(traces, 1);
  factor.set(3);
  EXPECT_EQ(step(x).item<double>(), 8) << "the read before the change counts";
  EXPECT_EQ(traces, 2);

  traces = 0;
  auto leaves_it = capture([&](const Tensor& y) {
    ++traces;
    const Tensor result = y * static_cast<double>(factor.read(kName));
    factor.set(9);
    return result;
  });
  factor.set(4);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(leaves_it(x).item<double>(), 4);
  EXPECT_EQ(traces, 1) << "not traced at every call";
}

TEST(Settings, BelongToTheThreadThatCalls) {
  static thread_local int64_t t_factor = 2;
  auto step = capture([&](const Tensor& x) {
    graph::note_setting(&t_factor, 0, kName, [] { return t_factor; });
    return x * static_cast<double>(t_factor);
  });
  const Tensor x = ones({1});
  EXPECT_EQ(step(x).item<double>(), 2);
  double other = 0;
  std::thread([&] {
    t_factor = 7;
    graph::TracedSettings::note_change();
    for (int i = 0; i < 2; ++i) other = step(x).item<double>();
  }).join();
  EXPECT_EQ(other, 7);
  EXPECT_EQ(step(x).item<double>(), 2);
  std::thread([&] { other = step(x).item<double>(); }).join();  // no setting has changed since
  EXPECT_EQ(other, 2);
}

TEST(Settings, PlansDroppedBetweenChangesAreTold) {
  const graph::Setting factor(0);
  std::string notice;
  const int sink = add_event_sink([&](const Event& event) {
    if (event.kind == EventKind::kNotice && event.name == "scaled") notice = event.text;
  });
  auto step = capture([&](const Tensor& x) { return x * static_cast<double>(factor.read(kName)); },
                      CaptureOptions{.name = "scaled", .max_plans = 3});
  const Tensor x = ones({1});
  for (int i = 0; i < 3; ++i) {
    factor.set(i);
    step(x);
  }
  EXPECT_EQ(notice, "") << "three settings of one signature aren't traces repeated";
  for (const int value : {3, 0}) {
    factor.set(value);
    step(x);
  }
  remove_event_sink(sink);
  EXPECT_THAT(
      notice,
      HasSubstr("'scaled' keeps 3 plans (max_plans) and has met 4 signatures, counted anew under other "
                "settings (what is trainable"));
}

}  // namespace
}  // namespace isochron
