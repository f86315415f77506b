// Collective ops among ranks that are threads: values, gradients, and where they may stand.
#include "isochron/ops/collective/collectives.h"

#include <gtest/gtest.h>

#include "isochron/autograd/autograd.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/control/debug.h"
#include "isochron/ops/control/scan.h"
#include "isochron/ops/control/update_if.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/rank_threads.h"

namespace isochron {
namespace {

using Group = RankGroup;
using Values = std::vector<double>;

/// Rank r has {10 r, 10 r + 1, ...}.
Tensor own(const Group& group, const Shape& shape, DType dtype = DType::kF32) {
  Values values;
  for (int64_t i = 0; i < shape.elems(); ++i) values.push_back(10.0 * group->rank() + static_cast<double>(i));
  return from_vector(shape, values, dtype);
}

TEST(Collectives, SumsOfSeveralTensorsAndDtypes) {
  run_ranks(3, [](const Group& group) {
    const Tensor tensors[] = {own(group, {2}), own(group, {}, DType::kI64), own(group, {3}, DType::kF64),
                              own(group, {0}), own(group, {2, 2})};
    const std::vector<Tensor> sums = all_reduce(tensors, group);
    EXPECT_EQ(sums[0].to_vector(), (Values{30, 33}));
    EXPECT_EQ(sums[1].to_vector(), (Values{30}));
    EXPECT_EQ(sums[2].to_vector(), (Values{30, 33, 36}));
    EXPECT_EQ(sums[3].to_vector(), Values{});
    EXPECT_EQ(sums[4].to_vector(), (Values{30, 33, 36, 39}));
    EXPECT_EQ(tensors[0].to_vector()[0], 10.0 * group->rank()) << "inputs stay";
  });
}

TEST(Collectives, SumsAreATreesOverRanks) {
  // (1 + 2^-24) + (-1 + 2^-24), and one after another 1 + 2^-24 - 1 + 2^-24 in f32.
  const Values parts = {1, 0x1p-24, -1, 0x1p-24};
  run_ranks(4, [&](const Group& group) {
    const Tensor part = from_vector({1}, {parts[static_cast<size_t>(group->rank())]}, DType::kF32);
    EXPECT_EQ(all_reduce(part, group).item<float>(), (1.0f + 0x1p-24f) + (-1.0f + 0x1p-24f));
  });
}

TEST(Collectives, GatherScatterAndBroadcast) {
  run_ranks(2, [](const Group& group) {
    EXPECT_EQ(all_gather(own(group, {2, 1}), group).to_vector(), (Values{0, 1, 10, 11}));
    EXPECT_EQ(all_gather(own(group, {1}, DType::kI64), group).to_vector(), (Values{0, 10}));
    const Tensor scattered = reduce_scatter(own(group, {4}), group);
    EXPECT_EQ(scattered.to_vector(), group->rank() == 0 ? (Values{10, 12}) : (Values{14, 16}));
    EXPECT_EQ(broadcast(own(group, {2}), 1, group).to_vector(), (Values{10, 11}));
    EXPECT_ERROR(reduce_scatter(own(group, {3}), group), ErrorCode::kShapeMismatch, "don't divide");
    EXPECT_ERROR(broadcast(own(group, {2}), 2, group), ErrorCode::kInvalidArgument, "no rank 2 among 2");
  });
}

TEST(Collectives, OtherShapesDtypesAndRootsAreRefused) {
  const auto refused = [](const std::function<void(const Group&)>& call, const char* text) {
    run_ranks(2, [&](const Group& group) { EXPECT_ERROR(call(group), ErrorCode::kCommunication, text); });
  };
  refused(
      [](const Group& group) {
        all_reduce(own(group, group->rank() == 0 ? Shape{3, 4} : Shape{2, 6}), group);
      },
      "on rank 0, but all_reduce of 48 bytes with another dtype, shape, order or root on rank 1");
  refused([](const Group& group) { broadcast(own(group, {2}), group->rank(), group); },
          "on rank 0, but broadcast of 8 bytes with another dtype, shape, order or root on rank 1");
  refused(
      [](const Group& group) {
        all_gather(own(group, {2}, group->rank() == 0 ? DType::kF64 : DType::kI64), group);
      },
      "all_gather of 32 bytes with another dtype");
  refused(
      [](const Group& group) {
        if (group->rank() == 0) all_reduce(own(group, {4}), group);
        if (group->rank() == 1) all_gather(own(group, {4}), group);
      },
      "call 1 is all_reduce of 16 bytes on rank 0, but all_gather of 32 bytes on rank 1");
}

TEST(Collectives, ASecondGradientGoesThroughABroadcastOnAllRanks) {
  run_ranks(2, [](const Group& group) {
    auto step = capture([&](const Tensor& x) {
      const Tensor once = gradients(sum(square(broadcast(x, 1, group))), {{x}})[0];
      return std::pair(once, gradients(sum(once), {{x}})[0]);
    });
    const auto [once, twice] = step(own(group, {2}));
    EXPECT_EQ(once.to_vector(), group->rank() == 1 ? (Values{4 * 10, 4 * 11}) : (Values{0, 0}));
    EXPECT_EQ(twice.to_vector(), group->rank() == 1 ? (Values{4, 4}) : (Values{0, 0}));
  });
}

/// The gradient at x of sum(weights * function(x)), where rank r's weights are (r + 1) {1, 2, ...}.
Values gradient_of(const Group& group, const Tensor& x,
                   const std::function<Tensor(const Tensor&)>& function) {
  auto step = capture([&](const Tensor& at) {
    const Tensor y = function(at);
    Values numbers;
    for (int64_t i = 0; i < y.shape().elems(); ++i)
      numbers.push_back((group->rank() + 1) * (1 + static_cast<double>(i)));
    const Tensor weights = constant(from_vector(y.shape(), numbers, DType::kF32));
    return gradients(sum(y * weights), {{at}})[0];
  });
  return Tensor(step(x)).to_vector();
}

TEST(Collectives, GradientsOfTheSumOfAllRanksResults) {
  run_ranks(2, [](const Group& group) {
    const bool first = group->rank() == 0;
    const Tensor x = own(group, {2});
    EXPECT_EQ(gradient_of(group, x, [&](const Tensor& at) { return all_reduce(at, group); }), (Values{3, 6}));
    EXPECT_EQ(gradient_of(group, x, [&](const Tensor& at) { return all_gather(at, group); }),
              first ? (Values{3, 6}) : (Values{9, 12}));
    EXPECT_EQ(gradient_of(group, x, [&](const Tensor& at) { return reduce_scatter(at, group); }),
              (Values{1, 2}));
    EXPECT_EQ(gradient_of(group, x, [&](const Tensor& at) { return broadcast(at, 1, group); }),
              first ? (Values{0, 0}) : (Values{3, 6}));
    // Also where the sum of gradients isn't finite.
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    EXPECT_EQ(gradient_of(group, x,
                          [&](const Tensor& at) { return broadcast(at, 1, group) * scalar(kInfinity); })[0],
              first ? 0 : kInfinity);
  });
}

TEST(Collectives, AnErrorBetweenAStartAndItsWaitEndsTheExchangeAndIsTold) {
  // The error depends on which rank was in the exchange when the other rank left it.
  run_ranks(2, [](const Group& group) {
    const Tensor x = own(group, {1000});
    {
      auto step = capture([&](const Tensor& at, const Tensor& y) {
        const Tensor checked = check_numerics(y * scalar(2), "y");
        return checked + sum(all_reduce(at, group));  // the all_reduce starts before the check
      });
      EXPECT_ERROR(step(x, scalar(std::numeric_limits<double>::infinity())), ErrorCode::kNotANumber, "'y'");
      EXPECT_ERROR(step(x, scalar(1)), ErrorCode::kCommunication, "");
    }  // the memory of the step goes
    EXPECT_ERROR(group->barrier(), ErrorCode::kCommunication, "");
  });
}

TEST(Collectives, EqualCallsStayTwoAndUnreadOnesStay) {
  const auto group = std::make_shared<comm::Group>();
  auto step = capture([&](const Tensor& x) {
    all_reduce(x, group);  // the other ranks wait for it
    return all_reduce(x, group) + all_reduce(x, group);
  });
  step(full({2}, 1));
  size_t count = 0;
  for (const auto& node : step.graph().nodes()) count += node->op->name == "all_reduce";
  EXPECT_EQ(count, 3u);
}

TEST(Collectives, RefusedWhereRanksMayDifferInHowOftenTheyRun) {
  const auto group = std::make_shared<comm::Group>();
  const auto sum_of = [&](const Tensor& x) { return all_reduce(x, group); };
  const Tensor x = full({2}, 1);
  auto branch = capture([&](const Tensor& at) {
    return cond(
        greater(sum(at), scalar(0)), [&] { return std::vector<Tensor>{sum_of(at)}; },
        [&] { return std::vector<Tensor>{at}; })[0];
  });
  EXPECT_ERROR(branch(x), ErrorCode::kUnsupported, "contains 'all_reduce'");
  auto loop = capture([&](const Tensor& at) -> Tensor {
    return while_loop([](std::span<const Tensor> state) { return greater(scalar(9), sum(state[0])); },
                      [&](std::span<const Tensor> state) {
                        // Below an update that may stand anywhere.
                        return update_if(greater(sum(state[0]), scalar(0)), state,
                                         [&](std::span<const Tensor> before) {
                                           return std::vector<Tensor>{sum_of(before[0])};
                                         });
                      },
                      {at}, {.max_iterations = 3})[0];
  });
  EXPECT_ERROR(loop(x), ErrorCode::kUnsupported, "contains 'all_reduce'");
  auto update = capture([&](const Tensor& at) {
    const Tensor state[] = {at};
    return update_if(greater(sum(at), scalar(0)), state, [&](std::span<const Tensor> before) {
      return std::vector<Tensor>{sum_of(before[0])};
    })[0];
  });
  EXPECT_EQ(Tensor(update(x)).to_vector(), (Values{1, 1}));
}

TEST(Collectives, ReplaysAllocateNothingAndTellWhatTheySent) {
  run_ranks(2, [](const Group& group) {
    auto step = capture([&](const Tensor& x) { return all_reduce(x, group); }, {.plan = {.threads = 1}});
    const Tensor x = own(group, {1000});
    step(x);
    const comm::CommunicationStats before = group->stats();
    for (int i = 0; i < 10; ++i) step(x);
    const comm::CommunicationStats after = group->stats();
    EXPECT_EQ(after.calls - before.calls, 10);
    // Half of 4,000 bytes there, half back; slices end at whole lines.
    EXPECT_EQ(after.bytes_sent - before.bytes_sent, 10 * 4000);
  });
}

TEST(Collectives, AFailureOfAnotherRankIsToldAndLasts) {
  run_ranks(2, [](const Group& group) {
    auto step = capture([&](const Tensor& x) { return all_reduce(x, group); });
    step(own(group, {4}));
    if (group->rank() == 1) return;  // and leaves
    EXPECT_ERROR(step(own(group, {4})), ErrorCode::kCommunication, "");
    EXPECT_ERROR(step(own(group, {4})), ErrorCode::kCommunication, "");
  });
}

}  // namespace
}  // namespace isochron
