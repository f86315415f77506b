#include <gmock/gmock.h>

#include "graph/program/trace.h"
#include "isochron/core/telemetry/trace.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"

namespace isochron {
namespace {

using testing::ElementsAre;

/// Category and name of the spans on this thread.
std::vector<std::string> spans_of(const TraceBuffer& buffer) {
  std::vector<std::string> spans;
  for (const TracedThread& thread : buffer.threads()) {
    for (const TraceEvent& event : thread.events) {
      const TraceName& name = trace_name_of(event.name);
      if (name.category == TraceCategory::kTeam) continue;
      spans.push_back(fmt::format("{} {}", trace_category_name(name.category), name.name));
    }
  }
  return spans;
}

TEST(TracedPlan, EveryKernelIsASpanWithinItsCall) {
  TraceBuffer buffer(64);
  auto step = capture([](const Tensor& x) { return sum(exp(matmul(x, x))); }, {.name = "step"});
  const float plain = step(ones({3, 3})).item<float>();
  buffer.start();
  EXPECT_EQ(step(ones({3, 3})).item<float>(), plain);
  buffer.stop();
  EXPECT_THAT(spans_of(buffer), ElementsAre("kernel matmul_0", "kernel fused_3", "call step"));
  const TraceName& product = trace_name_of(buffer.threads()[0].events[0].name);
  EXPECT_EQ(product.detail.op, "matmul");
  EXPECT_EQ(product.detail.flops, 54);
  EXPECT_EQ(product.detail.shapes, "(3, 3) (3, 3)");
}

TEST(TracedPlan, CapturingIsTraced) {
  TraceBuffer buffer(64);
  auto step = capture([](const Tensor& x) { return x + 1.0; }, {.name = "step"});
  buffer.start();
  step(ones({3}));
  buffer.stop();
  EXPECT_THAT(spans_of(buffer),
              ElementsAre("capture trace", "capture passes", "capture plan", "kernel add_0", "call step"));
}

TEST(TracedPlan, ABodyCountsAsItsOp) {
  TraceBuffer buffer(64);
  auto loop = capture(
      [](const Tensor& x) {
        return while_loop([](std::span<const Tensor> s) { return sum(s[0]) < 100.0; },
                          [](std::span<const Tensor> s) { return std::vector<Tensor>{s[0] * 2.0}; }, {x})[0];
      },
      {.name = "loop"});
  loop(ones({3}));
  buffer.start();
  loop(ones({3}));
  buffer.stop();
  EXPECT_THAT(spans_of(buffer), ElementsAre("kernel while_loop_0", "call loop"));
}

}  // namespace
}  // namespace isochron
