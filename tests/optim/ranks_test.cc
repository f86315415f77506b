// Gradients summed over ranks: the same bits for every split, and the update of the whole batch.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <mutex>

#include "isochron/autograd/autograd.h"
#include "isochron/core/base/clock.h"
#include "isochron/data/formats/npy.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/collective/collectives.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/near.h"
#include "support/rank_threads.h"

namespace isochron::optim {
namespace {

using Group = std::shared_ptr<comm::Group>;

/// Numbers without a pattern, none of them short in binary.
std::vector<double> sines(int64_t count, double seed) {
  std::vector<double> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(std::sin(seed + 1.7 * static_cast<double>(i)));
  return result;
}

constexpr int64_t kInputs = 5, kHidden = 7;

struct RankNetwork {
  Variable w1{from_vector({kInputs, kHidden}, sines(kInputs* kHidden, 1), DType::kF32), "w1"};
  Variable b1{from_vector({kHidden}, sines(kHidden, 2), DType::kF32), "b1"};
  Variable w2{from_vector({kHidden, 1}, sines(kHidden, 3), DType::kF32), "w2"};
  std::vector<Variable> parameters() const { return {w1, b1, w2}; }
  Tensor loss(const Tensor& x, const Tensor& y) const {
    return mean(square(matmul(tanh(matmul(x, w1) + b1), w2) - y));
  }
};

/// Micro-batch number m: 3 rows, or 2 if it is the last.
constexpr int64_t kBatches = 21;
int64_t rows_of(int64_t m) { return m + 1 == kBatches ? 2 : 3; }
Tensor x_of(int64_t m) {
  return from_vector({rows_of(m), kInputs}, sines(rows_of(m) * kInputs, 0.1 * static_cast<double>(m)),
                     DType::kF32);
}
Tensor y_of(int64_t m) {
  return from_vector({rows_of(m), 1}, sines(rows_of(m), 10 + static_cast<double>(m)), DType::kF32);
}

std::string bytes_of(std::span<const Variable> variables) {
  std::string bytes;
  for (const Variable& variable : variables) {
    const Tensor content = variable.tensor();
    bytes.append(reinterpret_cast<const char*>(content.raw()), content.size_bytes());
  }
  return bytes;
}

using OptimizerFactory = std::function<Optimizer(const StepOptions&)>;

/// Trains on all micro-batches in updates of 8, the last of five. Returns the weights of rank 0 at the end.
std::string train(int ranks, int64_t accumulate, const OptimizerFactory& make, StepOptions options = {}) {
  options.accumulate = accumulate;
  options.exact_sums = true;
  std::mutex mutex;
  std::vector<std::string> results(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](const Group& group) {
    StepOptions own = options;
    own.group = group;
    const RankNetwork network;
    Optimizer optimizer = make(own);
    auto step = capture(
        [&](const Tensor& x, const Tensor& y) {
          optimizer.minimize(network.loss(x, y), network.parameters(), static_cast<double>(x.extent(0)));
        },
        {.plan = {.threads = 1}});
    auto nothing = capture([&] { optimizer.apply_nothing(network.parameters()); });
    const int64_t in_update = ranks * accumulate;
    for (int64_t first = 0; first < kBatches; first += in_update) {
      const int64_t own_first = first + group->rank() * accumulate;
      const int64_t own_end = std::min(own_first + accumulate, kBatches);
      for (int64_t m = own_first; m < own_end; ++m) {
        if (m + 1 == own_end) optimizer.flush_next();
        step(x_of(m), y_of(m));
      }
      if (own_first < kBatches) continue;
      optimizer.prepare(network.parameters());
      optimizer.flush_next();
      nothing();
    }
    EXPECT_EQ(optimizer.step_count(), (kBatches + in_update - 1) / in_update);
    const std::lock_guard lock(mutex);
    results[static_cast<size_t>(group->rank())] = bytes_of(network.parameters());
  });
  for (const std::string& other : results) EXPECT_EQ(other, results[0]) << "ranks differ";
  return results[0];
}

TEST(Ranks, ExchangeInOneOrderHoweverParametersAreListed) {
  std::mutex mutex;
  std::vector<std::string> results;
  run_ranks(2, [&](const Group& group) {
    const RankNetwork network;
    Sgd optimizer({.learning_rate = 0.1, .step = {.group = group, .bucket_bytes = 1}});
    optimizer.prepare(std::vector{network.w2});  // thawed later than w2
    optimizer.prepare(std::vector{network.w1, network.b1});
    auto step = capture([&](const Tensor& x, const Tensor& y) {
      optimizer.minimize(network.loss(x, y), network.parameters(), static_cast<double>(x.extent(0)));
    });
    auto nothing = capture([&] { optimizer.apply_nothing(optimizer.parameters()); });
    step(x_of(group->rank()), y_of(group->rank()));
    if (group->rank() == 0) {
      step(x_of(2), y_of(2));
    } else {
      nothing();
    }
    const std::lock_guard lock(mutex);
    results.push_back(bytes_of(network.parameters()));
  });
  EXPECT_EQ(results[0], results[1]);
}

TEST(Ranks, UsersCollectivesStayBehindTheGradientsOfMicroBatches) {
  run_ranks(2, [](const Group& group) {
    const RankNetwork network;
    Sgd optimizer({.learning_rate = 0.1, .step = {.accumulate = 2, .group = group}});
    auto step = capture([&](const Tensor& x, const Tensor& y) {
      const Tensor loss = network.loss(x, y);
      optimizer.minimize(loss, network.parameters(), 3.0);
      return all_reduce(loss, group);
    });
    step(x_of(group->rank()), y_of(group->rank()));
    size_t update = 0, sum = 0;
    for (size_t i = 0; i < step.graph().nodes().size(); ++i) {
      const std::string& name = step.graph().nodes()[i]->op->name;
      if (name == "update_if") update = i;
      if (name == "all_reduce_start" || name == "all_reduce") sum = i;
    }
    EXPECT_GT(update, 0u);
    EXPECT_GT(sum, update) << "another rank may take part without a batch, and then exchange by hand";
  });
}

TEST(Ranks, UnusedParametersTakePartSoThatARankWithoutABatchSendsAsMuch) {
  std::mutex mutex;
  std::vector<std::string> results;
  run_ranks(2, [&](const Group& group) {
    const RankNetwork network;
    const Variable head(from_vector({3}, sines(3, 4), DType::kF32), "head");
    std::vector<Variable> parameters = network.parameters();
    parameters.push_back(head);
    Sgd optimizer({.learning_rate = 0.1,
                   .momentum = 0.9,
                   .weight_decay = {.rate = 0.1},
                   .step = {.group = group, .bucket_bytes = 1, .allow_unused = true}});
    auto step = capture([&](const Tensor& x, const Tensor& y) {
      optimizer.minimize(network.loss(x, y), parameters, static_cast<double>(x.extent(0)));
    });
    auto nothing = capture([&] { optimizer.apply_nothing(parameters); });
    step(x_of(group->rank()), y_of(group->rank()));
    if (group->rank() == 0) {
      step(x_of(2), y_of(2));
    } else {
      nothing();
    }
    const std::lock_guard lock(mutex);
    results.push_back(bytes_of(parameters));
  });
  EXPECT_EQ(results[0], results[1]);
}

Optimizer small_adam(const StepOptions& step) { return Adam({.learning_rate = 0.05, .step = step}); }

TEST(Ranks, EverySplitOfAnUpdateHasTheSameBits) {
  const std::string whole = train(1, 8, small_adam);
  for (const int ranks : {2, 4, 8})
    EXPECT_EQ(train(ranks, 8 / ranks, small_adam), whole) << ranks << " ranks";
  // The order matters: in another order the sums have other bits.
  EXPECT_NE(train(1, 4, small_adam), whole);
}

TEST(Ranks, ParametersThatMissUpdatesHaveTheSameBitsForEverySplit) {
  constexpr int kUses[] = {1, 3, 2, 2,
                           3, 0, 3};  // the bits of two parameters, of all micro-batches of an update
  const auto trained = [&](int ranks) {
    std::mutex mutex;
    std::vector<std::string> results(static_cast<size_t>(ranks));
    const int64_t each = 4 / ranks;
    run_ranks(ranks, [&](const Group& group) {
      const Variable p(ones({3}), "p"), q(ones({3}), "q"), always(ones({3}), "always");
      const std::vector<Variable> all{p, q, always};
      Adam adam({.learning_rate = 0.05,
                 .weight_decay = {.rate = 0.1},
                 .step = {.accumulate = each, .group = group, .exact_sums = true}});
      adam.prepare(all);
      const auto step_of = [&](int uses) {
        return capture(
            [&, uses](const Tensor& x) {
              Tensor loss = sum(always * x);
              std::vector<Variable> some{always};
              if (uses & 1) loss = loss + sum(square(p * x)), some.insert(some.begin(), p);
              if (uses & 2) loss = loss + sum(square(q * x)), some.insert(some.begin(), q);
              adam.minimize(loss, some);
            },
            {.plan = {.threads = 1}});
      };
      auto none = step_of(0), of_p = step_of(1), of_q = step_of(2), both = step_of(3);
      for (size_t update = 0; update < std::size(kUses); ++update) {
        for (int64_t i = 0; i < each; ++i) {
          const int64_t m = 4 * static_cast<int64_t>(update) + group->rank() * each + i;
          const Tensor x = from_vector({3}, sines(3, static_cast<double>(m)), DType::kF32);
          const int uses = kUses[update];
          uses == 0 ? none(x) : uses == 1 ? of_p(x) : uses == 2 ? of_q(x) : both(x);
        }
      }
      std::vector<Variable> contents = all;
      for (const Variable& slot : adam.state()) {
        if (slot.name() == "missed_updates" || slot.name().find("mean") != std::string::npos)
          contents.push_back(slot);
      }
      const std::lock_guard lock(mutex);
      results[static_cast<size_t>(group->rank())] = bytes_of(contents);
    });
    for (const std::string& other : results) EXPECT_EQ(other, results[0]) << "ranks differ";
    return results[0];
  };
  const std::string whole = trained(1);
  EXPECT_EQ(trained(2), whole);
  EXPECT_EQ(trained(4), whole);
}

TEST(Ranks, BitsDontDependOnBucketsClippingOrScale) {
  const auto momentum = [](const StepOptions& step) {
    return Optimizer(Sgd({.learning_rate = 0.1, .momentum = 0.9, .step = step}));
  };
  StepOptions options{.loss_scale = LossScale::dynamic(1024), .clip = {.global_norm = 0.5}};
  const std::string whole = train(1, 8, momentum, options);
  for (const size_t bytes : {size_t{16}, size_t{150}, size_t{1} << 30}) {
    options.bucket_bytes = bytes;
    EXPECT_EQ(train(4, 2, momentum, options), whole) << bytes << " bytes";
    EXPECT_EQ(train(8, 1, momentum, options), whole) << bytes << " bytes";
  }
}

/// Positions of the nodes of an op in the list of all nodes.
std::vector<size_t> positions(const graph::Graph& graph, std::string_view op) {
  std::vector<size_t> result;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    if (graph.nodes()[i]->op->name == op) result.push_back(i);
  }
  return result;
}

TEST(Ranks, SumsBeginWhileTheBackwardPassGoesOn) {
  run_ranks(2, [](const Group& group) {
    std::vector<graph::Attributes> start_attributes;  // of the starts
    const auto make = [&](const std::vector<std::string>& disabled, std::string& bytes) {
      const RankNetwork network;
      Optimizer optimizer = Sgd({.learning_rate = 0.1, .step = {.group = group, .bucket_bytes = 1}});
      auto step =
          capture([&](const Tensor& x,
                      const Tensor& y) { optimizer.minimize(network.loss(x, y), network.parameters(), 3); },
                  {.passes = {.disabled = disabled}});
      for (int64_t m = 0; m < 4; ++m) step(x_of(2 * m + group->rank()), y_of(2 * m + group->rank()));
      bytes = bytes_of(network.parameters());
      for (const size_t start : positions(step.graph(), "all_reduce_start"))
        start_attributes.push_back(step.graph().nodes()[start]->attributes);
      return std::array{positions(step.graph(), "all_reduce"), positions(step.graph(), "all_reduce_start"),
                        positions(step.graph(), "all_reduce_wait"), positions(step.graph(), "matmul")};
    };
    std::string early, late;
    const auto [last, starts, waits, products] = make({}, early);
    const auto [whole, no_starts, no_waits, all_products] = make({"overlap"}, late);
    EXPECT_EQ(early, late);
    EXPECT_TRUE(no_starts.empty() && no_waits.empty());
    EXPECT_EQ(whole.size(), 3u);
    EXPECT_TRUE(last.empty());
    ASSERT_EQ(starts.size(), 3u);
    ASSERT_EQ(waits.size(), 3u);
    for (size_t i = 0; i < starts.size(); ++i) {
      const graph::Attributes& attributes = start_attributes.at(i);
      EXPECT_EQ(attributes.get_or("waited_for_at_once", false), i + 1 == starts.size()) << i;
    }
    // The last layer's gradient is on its way before the first layer's is computed.
    EXPECT_LT(starts[0], products.back());
    EXPECT_GT(waits[0], products.back());
  });
}

TEST(Ranks, GradientsAreComputedWhereTheyAreSentFrom) {
  run_ranks(2, [](const Group& group) {
    const RankNetwork network;
    Optimizer optimizer = Sgd({.learning_rate = 0.1, .step = {.group = group}});
    const auto step = [&](const Tensor& x, const Tensor& y) {
      optimizer.minimize(network.loss(x, y), network.parameters(), 3);
    };
    auto packed = capture(step), copied = capture(step, {.passes = {.disabled = {"overlap"}}});
    const Tensor x = x_of(group->rank()), y = y_of(group->rank());
    packed(x, y);
    copied(x, y);
    size_t gradients = 0;
    for (const Variable& parameter : network.parameters()) gradients += parameter.tensor().size_bytes();
    const auto& buffers = packed.plan_report().buffers;
    const auto range = std::ranges::find_if(buffers, [](const graph::PlannedBuffer& buffer) {
      return buffer.owner.find("all_reduce_start") != std::string::npos;
    });
    ASSERT_NE(range, buffers.end());
    EXPECT_GE(range->size_bytes, gradients);
    const size_t of_w1 = network.w1.tensor().size_bytes();  // only its gradient has this size
    EXPECT_TRUE(std::ranges::none_of(buffers, [&](const auto& b) { return b.size_bytes == of_w1; }))
        << "the gradient is written into the range";
    EXPECT_LT(packed.plan_report().arena_bytes, copied.plan_report().arena_bytes);
  });
}

TEST(Ranks, AnyNumberOfRanksSplitsAlike) {
  const std::string six = train(6, 1, small_adam);
  EXPECT_EQ(train(3, 2, small_adam), six);
}

/// The weights after `updates` updates in which rank r has `rows[r]` rows.
std::vector<double> after_uneven(const std::vector<int64_t>& rows, int updates, bool by_hand) {
  int64_t all = 0;
  for (const int64_t count : rows) all += count;
  const Tensor x = from_vector({all, kInputs}, sines(all * kInputs, 0.3), DType::kF32);
  const Tensor y = from_vector({all, 1}, sines(all, 0.7), DType::kF32);
  std::vector<double> result;
  run_ranks(static_cast<int>(rows.size()), [&](const Group& group) {
    const RankNetwork network;
    Optimizer optimizer = Sgd({.learning_rate = 0.1, .step = {.group = group}});
    int64_t begin = 0;
    for (int r = 0; r < group->rank(); ++r) begin += rows[static_cast<size_t>(r)];
    const int64_t end = begin + rows[static_cast<size_t>(group->rank())];
    auto step = capture([&](const Tensor& own_x, const Tensor& own_y) {
      const Tensor loss = network.loss(own_x, own_y);
      const auto count = static_cast<double>(own_x.extent(0));
      if (by_hand) {
        const std::vector<Variable> parameters = network.parameters();
        const std::vector<Tensor> sources(parameters.begin(), parameters.end());
        optimizer.apply(parameters, gradients(loss, sources), count);
      } else {
        optimizer.minimize(loss, network.parameters(), count);
      }
    });
    for (int i = 0; i < updates; ++i)
      step(slice(x, {begin, 0}, {end, kInputs}), slice(y, {begin, 0}, {end, 1}));
    if (group->rank() != 0) return;
    for (const Variable& parameter : network.parameters()) {
      const std::vector<double> values = parameter.tensor().to_vector();
      result.insert(result.end(), values.begin(), values.end());
    }
  });
  return result;
}

TEST(Ranks, UnevenBatchesAreTheUpdateOfTheWholeBatch) {
  const std::vector<double> whole = after_uneven({12}, 10, false);
  for (const bool by_hand : {false, true}) {
    const std::vector<double> uneven = after_uneven({7, 1, 4}, 10, by_hand);
    ASSERT_EQ(uneven.size(), whole.size());
    for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(uneven[i], whole[i], 1e-6) << i;
  }
}

/// tests/golden/make_ddp_torch.py
TEST(Ranks, TwoOfThemTrainAsPyTorchsDo) {
  const data::NpzFile file = data::read_npz(ISOCHRON_SOURCE_DIR "/tests/golden/ddp_torch.npz");
  const Tensor& x = file.at("x");  // (steps, ranks, rows, inputs)
  const Tensor& y = file.at("y");
  run_ranks(2, [&](const Group& group) {
    const Variable w1(file.at("w1"), "w1"), b1(file.at("b1"), "b1"), w2(file.at("w2"), "w2");
    Optimizer optimizer = Adam({.learning_rate = 0.05,
                                .epsilon = 1e-8,
                                .epsilon_after_correction = true,
                                .step = {.group = group, .bucket_bytes = 100}});
    auto step = capture([&](const Tensor& own_x, const Tensor& own_y) {
      const Tensor loss = mean(square(matmul(tanh(matmul(own_x, w1) + b1), w2) - own_y));
      optimizer.minimize(loss, {{w1, b1, w2}}, static_cast<double>(own_x.extent(0)));
      return loss;
    });
    const auto part = [&](const Tensor& of, int64_t i) {
      const int64_t r = group->rank();
      const Tensor one = slice(of, {i, r, 0, 0}, {i + 1, r + 1, of.extent(2), of.extent(3)});
      return graph::contiguous(reshape(one, {of.extent(2), of.extent(3)}));
    };
    const std::vector<double> losses = file.at("losses").to_vector();
    for (int64_t i = 0; i < x.extent(0); ++i) {
      const double loss = Tensor(step(part(x, i), part(y, i))).item<double>();
      if (group->rank() == 0) {
        EXPECT_NEAR(loss, losses[static_cast<size_t>(i)], 1e-10) << i;
      }
    }
    for (const Variable& variable : {w1, b1, w2}) {
      const std::vector<double> ours = variable.tensor().to_vector();
      const std::vector<double> theirs = file.at(variable.name() + ".after").to_vector();
      ASSERT_EQ(ours.size(), theirs.size());
      for (size_t e = 0; e < ours.size(); ++e) EXPECT_NEAR(ours[e], theirs[e], 1e-10) << variable.name() << e;
    }
  });
}

TEST(Ranks, AnInfiniteGradientOfOneRankSkipsTheUpdateOfAll) {
  run_ranks(3, [](const Group& group) {
    const Variable w(from_vector({2}, {1, 2}, DType::kF32), "w");
    Optimizer optimizer =
        Sgd({.learning_rate = 1, .step = {.group = group, .loss_scale = LossScale::dynamic(8)}});
    auto step = capture([&](const Tensor& x) { optimizer.minimize(sum(w * x), {{w}}); });
    const double infinity = std::numeric_limits<double>::infinity();
    step(from_vector({2}, {1, group->rank() == 1 ? infinity : 1}, DType::kF32));
    EXPECT_EQ(w.tensor().to_vector(), (std::vector<double>{1, 2}));
    EXPECT_EQ(optimizer.skipped_steps(), 1);
    EXPECT_EQ(optimizer.loss_scale(), 4);
    step(from_vector({2}, {0.5, static_cast<double>(group->rank())}, DType::kF32));
    EXPECT_EQ(w.tensor().to_vector(), (std::vector<double>{0.5, 1}));
    EXPECT_EQ(optimizer.step_count(), 1);
  });
}

TEST(Ranks, ARequestOfOneReachesAllWithTheNextUpdate) {
  run_ranks(4, [](const Group& group) {
    const Variable w(from_vector({2}, {1, 2}, DType::kF32), "w");
    Optimizer optimizer = Sgd({.step = {.accumulate = 2, .group = group}});
    auto step = capture([&](const Tensor& x) { optimizer.minimize(sum(w * x), {{w}}); });
    const Tensor x = from_vector({2}, {1, 1}, DType::kF32);
    step(x);
    step(x);
    EXPECT_EQ(group->notes().requests(), 0);
    group->notes().request(group->rank() == 2);
    step(x);
    EXPECT_EQ(group->notes().requests(), 0);
    step(x);
    EXPECT_EQ(group->notes().requests(), 1);
    group->notes().request(false);
    step(x);
    step(x);
    EXPECT_EQ(group->notes().requests(), 0);
  });
}

TEST(Ranks, EveryRankKnowsHowLongTheWorkOfAllHasTaken) {
  run_ranks(3, [](const Group& group) {
    const Variable w(from_vector({2}, {1, 2}, DType::kF32), "w");
    Optimizer optimizer = Sgd({.step = {.group = group}});
    auto step = capture([&](const Tensor& x) { optimizer.minimize(sum(w * x), {{w}}); });
    const Tensor x = from_vector({2}, {1, 1}, DType::kF32);
    step(x);
    EXPECT_EQ(group->notes().exchanges(), 1);
    constexpr int64_t kMoreNs = 20'000'000;
    if (group->rank() == 1) {
      for (const int64_t begin = now_ns(); now_ns() - begin < kMoreNs;) {
      }
      group->notes().add_input(kMoreNs);
    }
    step(x);
    const comm::RankNotes& notes = group->notes();
    EXPECT_EQ(notes.exchanges(), 2);
    ASSERT_EQ(notes.all().size(), 3u);
    EXPECT_GE(notes.all()[1].work_ns, static_cast<double>(kMoreNs));
    EXPECT_EQ(notes.all()[1].input_ns, static_cast<double>(kMoreNs));
    EXPECT_EQ(notes.all()[0].input_ns, 0);
    EXPECT_LE(notes.rank_wait_ns(), notes.exposed_ns());
    // The first rank to arrive waits for the slowest.
    double longest = 0;
    for (const comm::RankNote& note : notes.all()) longest = std::max(longest, note.work_ns);
    if (notes.all()[static_cast<size_t>(group->rank())].work_ns == longest) {
      EXPECT_EQ(notes.rank_wait_ns(), 0);
    }
    step(x);
    EXPECT_EQ(notes.all()[1].input_ns, 0);  // it was told
  });
}

TEST(Ranks, ExactSumsWantAPowerOfTwo) {
  EXPECT_ERROR(Sgd({.step = {.accumulate = 6, .exact_sums = true}}), ErrorCode::kInvalidArgument,
               "power of two");
}

}  // namespace
}  // namespace isochron::optim
