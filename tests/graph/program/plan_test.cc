#include "isochron/graph/program/plan.h"

#include <gmock/gmock.h>

#include <cstring>

#include "graph/program/trace.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "support/expect_error.h"

namespace isochron::graph {
namespace {

using testing::ElementsAre;

const CaptureOptions kPlain{.passes = {.disabled = {"all"}}};

TEST(Plan, ChainsRunInOneBuffer) {
  auto step = capture(
      [](const Tensor& x) {
        Tensor y = matmul(x, x);
        for (int i = 0; i < 10; ++i) y = tanh(y);
        return y;
      },
      kPlain);
  const Tensor x = ones({16, 16});
  step(x);
  const PlanReport& report = step.plan_report();
  EXPECT_EQ(report.nodes, 11u);
  EXPECT_EQ(report.instructions, 11u);
  size_t results = 0;
  for (const PlannedBuffer& buffer : report.buffers) results += !buffer.owner.starts_with("workspace");
  EXPECT_EQ(results, 1u) << "every tanh runs in place";
  EXPECT_GT(report.flops, 2 * 16 * 16 * 16);
  EXPECT_EQ(report.arena_bytes, report.lower_bound_bytes);
}

TEST(Plan, WhatNobodyReadsAnyMoreIsNoPartOfIt) {
  const Tensor weight = ones({8, 8}), view = reshape(weight, {64});  // `view` has the same content
  auto step = capture([&](const Tensor& x) {
    const Tensor unused = view * 2.0;
    static_cast<void>(unused);
    assign(weight, weight - x * 0.1);
  });
  step(ones({8, 8}));
  EXPECT_EQ(step.plan_report().updates_in_place, 1);
  EXPECT_EQ(step.plan_report().bound_bytes, weight.size_bytes());
  const Tensor folded = constant(ones({100}));
  auto sums = capture([&](const Tensor& x) { return matmul(x, reshape(folded * 2.0 + 1.0, {100, 1})); });
  EXPECT_EQ(sums(ones({1, 100})).to_vector()[0], 300);
  EXPECT_EQ(sums.plan_report().bound_bytes, folded.size_bytes()) << "the folded number alone";
}

TEST(Plan, UpdatesAreWrittenInPlaceWhereNothingReadsTheOldContentLater) {
  const Tensor weight = ones({8, 8});
  auto direct = capture([&](const Tensor& x) { assign(weight, weight - x * 0.1); }, kPlain);
  direct(ones({8, 8}));
  EXPECT_EQ(direct.plan_report().updates_in_place, 1);
  EXPECT_EQ(direct.plan_report().updates_copied, 0);
  const Tensor other = ones({8, 8});
  auto late = capture(
      [&](const Tensor& x) {
        const Tensor next = other - x;
        assign(other, next);
        const Tensor old_too = matmul(stop_gradient(next), x);
        return old_too;
      },
      kPlain);
  late(ones({8, 8}));
  EXPECT_EQ(late.plan_report().updates_in_place, 1);
  const Tensor third = ones({8, 8});
  auto returned = capture(
      [&](const Tensor& x) {
        const Tensor old = stop_gradient(third);
        assign(third, third - x);
        return old;  // the old content is still needed at the end
      },
      kPlain);
  EXPECT_EQ(returned(ones({8, 8})).to_vector()[0], 1);
  EXPECT_EQ(returned.plan_report().updates_in_place, 0);
  EXPECT_EQ(returned.plan_report().updates_copied, 1);
  EXPECT_EQ(returned(ones({8, 8})).to_vector()[0], 0);
}

TEST(Plan, AMatrixMultiplyDoesNotWriteOverTheVariableItReads) {
  const Tensor weight = from_vector({2, 2}, {1, 2, 3, 4});
  auto step = capture([&] { assign(weight, matmul(weight, weight)); });
  step();
  EXPECT_EQ(step.plan_report().updates_in_place, 0);
  EXPECT_THAT(weight.refreshed().to_vector(), ElementsAre(7, 10, 15, 22));
}

TEST(Plan, ManyCopiesSurvivePoison) {
  const Tensor a = from_vector({3}, {1, 2, 3});
  const Tensor b = from_vector({3}, {4, 5, 6});
  const Tensor c = from_vector({3}, {7, 8, 9});
  for (const bool poison : {false, true}) {
    auto step = capture(
        [&](const Tensor& x) {  // a, b, c rotate through staging; inputs and variables are returned
          const Tensor old_a = stop_gradient(a);
          const Tensor old_b = stop_gradient(b);
          const Tensor old_c = stop_gradient(c);
          const std::vector<Tensor> results{x, old_a, old_b, old_c, x};
          assign(a, old_b);
          assign(b, old_c);
          assign(c, old_a);
          return results;
        },
        CaptureOptions{.plan = {.poison = poison}});
    const std::vector<double> was_a = a.refreshed().to_vector();
    const std::vector<double> was_b = b.refreshed().to_vector();
    const Tensor x = from_vector({3}, {0, 1, 0});
    const std::span<const Tensor> results = step(x);
    EXPECT_EQ(results[0].to_vector(), x.to_vector());
    EXPECT_EQ(results[1].to_vector(), was_a);
    EXPECT_EQ(results[2].to_vector(), was_b);
    EXPECT_EQ(results[4].to_vector(), x.to_vector());
    EXPECT_EQ(a.refreshed().to_vector(), was_b);
    EXPECT_EQ(c.refreshed().to_vector(), was_a);
    EXPECT_EQ(step.plan_report().updates_copied, 3);
    step(x);
    step(x);
    EXPECT_EQ(a.refreshed().to_vector(), was_a) << "three rotations";
  }
  EXPECT_THAT(a.refreshed().to_vector(), ElementsAre(1, 2, 3));
}

std::vector<TensorSpec> same(const OpCall& call) { return {call.inputs[0]}; }

/// Writes past its result by the number of elements in its attribute.
class Overrun final : public Kernel {
 public:
  Overrun(int64_t elems, int64_t beyond) : bytes_(static_cast<size_t>(elems + beyond) * sizeof(float)) {}
  void run(const KernelArgs& args) override { std::memset(args.outputs[0], 0, bytes_); }

 private:
  size_t bytes_;
};

TEST(Plan, RedZonesCatchAKernelThatWritesTooFar) {
  OpDef row;
  row.name = "overrun";
  row.infer = same;
  const auto kernel = [](const KernelRequest& request) -> std::unique_ptr<Kernel> {
    return std::make_unique<Overrun>(request.outputs[0].shape.elems(),
                                     request.attributes.get<int64_t>("beyond"));
  };
  const OpDef& op = ops::register_op(std::move(row), kernel);
  for (const int64_t beyond : {0, 1}) {
    auto step = capture(
        [&](const Tensor& x) {
          return apply_one(op, {x}, {{"beyond", beyond}}) + 1.0;
        },
        CaptureOptions{.passes = {.disabled = {"all"}}, .plan = {.poison = true}});
    if (beyond == 0) {
      EXPECT_EQ(step(ones({16})).to_vector()[15], 1);
    } else {
      EXPECT_ERROR(step(ones({16})), ErrorCode::kOutOfRange,
                   "[overrun_0] wrote 1 bytes past the end of overrun_0");
    }
  }
}

TEST(Plan, PoisonShowsContentThatIsReadAfterItsEnd) {
  // A kernel that keeps an address and reads from it a step later: without poison it would read the old
  // numbers.
  class Remember final : public Kernel {
   public:
    explicit Remember(bool later) : later_(later) {}
    void run(const KernelArgs& args) override {
      static const std::byte* kept = nullptr;
      if (!later_) kept = args.inputs[0];
      std::memcpy(args.outputs[0], later_ ? kept : args.inputs[0], 4 * sizeof(float));
    }

   private:
    bool later_;
  };
  OpDef row;
  row.name = "remember";
  row.infer = same;
  const auto kernel = [](const KernelRequest& request) -> std::unique_ptr<Kernel> {
    return std::make_unique<Remember>(request.attributes.get<bool>("later"));
  };
  const OpDef& op = ops::register_op(std::move(row), kernel);
  const auto function = [&](const Tensor& x) {
    const Tensor dead = x + 1.0;
    const Tensor middle = apply_one(op, {dead}, {{"later", false}});
    const Tensor more = apply_one(op, {middle}, {{"later", true}});
    return more;
  };
  auto checked = capture(function, CaptureOptions{.passes = {.disabled = {"all"}}, .plan = {.poison = true}});
  EXPECT_TRUE(std::isnan(checked(ones({4})).to_vector()[0]));
}

TEST(Plan, ProfilesEveryInstruction) {
  auto step = capture([](const Tensor& x) { return sum(matmul(x, x)); }, kPlain);
  const Tensor x = ones({32, 32});
  step(x);
  std::vector<int64_t> times(step.plan().instruction_count(), 0);
  step.plan().run_profiled(times);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(step.plan().instruction(0).name, "matmul_0");
  EXPECT_EQ(step.plan().instruction(1).name, "sum_1");
  EXPECT_GE(times[0], 0);
}

TEST(Plan, ViewsCostNothing) {
  auto step = capture(
      [](const Tensor& x) {
        return reshape(stop_gradient(reshape(x * 2.0, {4})), {2, 2});
      },
      kPlain);
  EXPECT_THAT(step(ones({1, 4})).to_vector(), ElementsAre(2, 2, 2, 2));
  EXPECT_EQ(step.plan_report().nodes, 4u);
  EXPECT_EQ(step.plan_report().instructions, 1u);
}

TEST(Plan, AnArgumentMayMoveOnEveryCall) {
  auto step = capture([](const Tensor& x, const Tensor& y) { return x * y + x; });
  std::vector<Tensor> xs;
  for (int i = 0; i < 10; ++i) {
    xs.push_back(full({5}, i));
    EXPECT_EQ(step(xs.back(), xs[static_cast<size_t>(i / 2)]).to_vector()[4], i * (i / 2) + i);
    EXPECT_EQ(step(xs.back(), xs.back()).to_vector()[0], i * i + i) << "one tensor twice";
  }
}

}  // namespace
}  // namespace isochron::graph
