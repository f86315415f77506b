// Updates of the rows that a step reads, compared with results computed by hand and with dense updates.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "isochron/autograd/autograd.h"
#include "isochron/core/process/threads.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/embedding.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/optimizer/update_rule.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "isochron/optim/clipping.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron::optim {
namespace {

using Numbers = std::vector<double>;

constexpr int64_t kTableRows = 60, kTableWidth = 5;
constexpr LookupOptions kSparse{.padding_idx = {}, .sparse = true};

Variable table_of(DType dtype = DType::kF64, int64_t rows = kTableRows) {
  Numbers values;
  for (int64_t i = 0; i < rows * kTableWidth; ++i) values.push_back(std::sin(0.7 * static_cast<double>(i)));
  return Variable(from_vector({rows, kTableWidth}, values, dtype), "table");
}

/// Of step `step`: some numbers repeat, within a step and between steps.
Numbers indices_in(int step) {
  Numbers indices;
  for (int i = 0; i < 12; ++i) indices.push_back((i * i * 7 + step * 5) % 23);
  return indices;
}
Tensor index_tensor(int step) { return from_vector({3, 4}, indices_in(step), DType::kI32); }

Tensor factors(DType dtype) {
  Numbers values;
  for (int i = 0; i < 12 * kTableWidth; ++i) values.push_back(std::cos(1.3 * i));
  return from_vector({3, 4, kTableWidth}, values, dtype);
}

using Loss = std::function<Tensor(const Variable& table, const Tensor& indices)>;

Loss lookup(LookupOptions options = kSparse) {
  return [options](const Variable& table, const Tensor& indices) {
    return sum(embedding(table, indices, options) * factors(table.dtype()));
  };
}

struct Outcome {
  Tensor table;
  size_t arena_bytes = 0;
  int in_place = 0;
  bool by_rows = false;
};

Outcome captured_run(Optimizer& optimizer, const Variable& table, const Loss& loss, int steps = 4) {
  auto step = capture([&](const Tensor& indices) {
    const Tensor value = loss(table, indices);
    optimizer.minimize(value, std::vector{table});
    return value;
  });
  for (int i = 0; i < steps; ++i) step(index_tensor(i));
  const bool by_rows = std::ranges::any_of(step.graph().nodes(),
                                           [](const auto& node) { return node->op->name == "update_rows"; });
  return {copy(table.tensor()), step.plan_report().arena_bytes, step.plan_report().updates_in_place, by_rows};
}

Tensor eager_run(Optimizer& optimizer, const Variable& table, const Loss& loss, int steps = 4) {
  for (int i = 0; i < steps; ++i) {
    const GradientTape tape;
    optimizer.minimize(loss(table, index_tensor(i)), std::vector{table});
  }
  return copy(table.tensor());
}

/// Every row gets its gradient as a tensor, whatever it is made of.
Tensor dense_run(Optimizer& optimizer, const Variable& table, const Loss& loss, int steps = 4) {
  for (int i = 0; i < steps; ++i) {
    GradientTape tape;
    const Tensor gradient = tape.gradient(loss(table, index_tensor(i)), table);
    optimizer.apply(std::vector{table}, std::vector{gradient});
  }
  return copy(table.tensor());
}

/// Adam on the rows of each step alone, in doubles.
Tensor lazy_adam(int steps, double rate, double epsilon) {
  Numbers w = table_of().tensor().to_vector(), m(w.size()), v(w.size());
  const Numbers f = factors(DType::kF64).to_vector();
  for (int step = 0; step < steps; ++step) {
    const Numbers indices = indices_in(step);
    std::map<size_t, Numbers> sums;
    for (size_t i = 0; i < indices.size(); ++i) {
      Numbers& sum = sums.try_emplace(static_cast<size_t>(indices[i]), Numbers(kTableWidth)).first->second;
      for (size_t k = 0; k < kTableWidth; ++k) sum[k] += f[i * kTableWidth + k];
    }
    const double t = step + 1;
    const double corrected = rate * std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
    for (const auto& [row, g] : sums) {
      for (size_t k = 0; k < kTableWidth; ++k) {
        const size_t at = row * kTableWidth + k;
        m[at] = 0.9 * m[at] + 0.1 * g[k];
        v[at] = 0.999 * v[at] + 0.001 * g[k] * g[k];
        w[at] -= corrected * m[at] / (std::sqrt(v[at]) + epsilon);
      }
    }
  }
  return from_vector({kTableRows, kTableWidth}, w, DType::kF64);
}

TEST(RowUpdates, StatesOfOtherRowsDontMoveWhereTheLayerSaysSparse) {
  const Variable captured_table = table_of(), eager_table = table_of();
  Adam captured({.learning_rate = 0.01, .epsilon = 1e-8}), eager({.learning_rate = 0.01, .epsilon = 1e-8});
  const Outcome run = captured_run(captured, captured_table, lookup(), 6);
  EXPECT_TRUE(near(run.table, lazy_adam(6, 0.01, 1e-8), 1e-12));
  EXPECT_EQ(eager_run(eager, eager_table, lookup(), 6).to_vector(), run.table.to_vector());
  EXPECT_EQ(captured.step_count(), 6);
  Adam dense({.learning_rate = 0.01, .epsilon = 1e-8});
  EXPECT_FALSE(
      near(dense_run(dense, table_of(), lookup(), 6), run.table, 1e-6));  // moves on without a gradient
}

TEST(RowUpdates, AreInPlaceAndNeedNoMemoryOfTheTablesSize) {
  const Variable table = table_of(DType::kF32, 100000);
  Adam adam;
  const Outcome run = captured_run(adam, table, lookup());
  EXPECT_LT(run.arena_bytes, 10000u);  // the table takes 2,000,000
  EXPECT_EQ(run.in_place, 4);          // step, table and two states
}

TEST(RowUpdates, AreTakenByThemselvesWhereNoBitChanges) {
  const auto sgd = [] { return Sgd({.learning_rate = 0.1}); };
  const auto adagrad = [] { return Adagrad({.learning_rate = 0.1}); };
  const auto check = [](auto make) {
    const Variable by_rows = table_of(DType::kF32, 5000);
    auto optimizer = make();
    const Outcome run = captured_run(optimizer, by_rows, lookup({}));
    EXPECT_LT(run.arena_bytes, 10000u);
    auto dense = make();
    EXPECT_EQ(run.table.to_vector(), dense_run(dense, table_of(DType::kF32, 5000), lookup({})).to_vector());
  };
  check(sgd);
  check(adagrad);
  // Twelve places in a small table, clipping by norm, a moving state: dense.
  for (const int64_t rows : {23, 24}) {
    Sgd few({.learning_rate = 0.1});
    EXPECT_EQ(captured_run(few, table_of(DType::kF32, rows), lookup({})).by_rows, rows == 24) << rows;
  }
  const Loss columns = [](const Variable& table, const Tensor&) {
    return sum(square(gather(table, from_vector({3}, {1, 4, 1}, DType::kI64), 1)));
  };
  Sgd of_columns({.learning_rate = 0.1}), dense_columns({.learning_rate = 0.1});
  const Outcome by_columns = captured_run(of_columns, table_of(), columns);
  EXPECT_FALSE(by_columns.by_rows) << "along another axis";
  EXPECT_EQ(by_columns.table.to_vector(), dense_run(dense_columns, table_of(), columns).to_vector());
  Sgd clipped({.step = {.clip = {.norm = 1}}});
  EXPECT_GT(captured_run(clipped, table_of(DType::kF32, 5000), lookup({})).arena_bytes, 100000u);
  Adam adam, dense_adam;
  EXPECT_GT(captured_run(adam, table_of(), lookup({})).arena_bytes, 0u);
  const Variable lazy = table_of();
  Adam again;
  EXPECT_TRUE(near(captured_run(again, lazy, lookup({})).table, dense_run(dense_adam, table_of(), lookup({})),
                   1e-13));
}

TEST(RowUpdates, AreTheSameBitsOnAnyNumberOfThreads) {
  const int before = compute_threads();
  std::vector<Numbers> results;
  for (const int threads : {1, 2, 3}) {
    set_compute_threads(threads);
    // The rows of both are shared out together.
    const Variable table(full({4000, 64}, 0.5), "table"), other(full({2000, 32}, 0.25), "other");
    Adam adam;
    auto step = capture([&](const Tensor& indices, const Tensor& f) {
      const Tensor half = narrow(f, 1, 0, 32);
      adam.minimize(
          sum(embedding(table, indices, kSparse) * f) + sum(embedding(other, indices, kSparse) * half),
          std::vector{table, other});
    });
    Numbers indices, values;
    for (int i = 0; i < 3000; ++i) indices.push_back((i * 37) % 1501);
    for (int i = 0; i < 3000 * 64; ++i) values.push_back(std::sin(i));
    for (int i = 0; i < 2; ++i)
      step(from_vector({3000}, indices, DType::kI64), from_vector({3000, 64}, values));
    results.push_back(table.tensor().to_vector());
    const Numbers of_other = other.tensor().to_vector();
    results.back().insert(results.back().end(), of_other.begin(), of_other.end());
  }
  set_compute_threads(before);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(RowUpdates, TiedWeightsHaveADenseGradient) {
  const auto tied = [](LookupOptions options) {
    return [options](const Variable& table, const Tensor& indices) {
      const Tensor vectors = embedding(table, indices, options);
      return sum(square(matmul(reshape(vectors, {12, kTableWidth}), table, false, true)));
    };
  };
  const Variable sparse = table_of(), usual = table_of();
  Adam a, b;
  EXPECT_EQ(captured_run(a, sparse, tied(kSparse)).table.to_vector(),
            captured_run(b, usual, tied({})).table.to_vector());
}

TEST(RowUpdates, SeveralLookupsOfOneTableCountAsOne) {
  const auto twice = [](const Variable& table, const Tensor& indices) {
    const Tensor f = factors(table.dtype());
    const Tensor first = cast(reshape(indices, {12}), DType::kI64);
    return sum(embedding(table, first, kSparse) * reshape(f, {12, kTableWidth}) * 0.25) +
           sum(embedding(table, indices, kSparse) * f * 0.75);
  };
  const Variable table = table_of();
  Adam adam({.learning_rate = 0.01, .epsilon = 1e-8});
  const Outcome run = captured_run(adam, table, twice, 6);
  EXPECT_TRUE(near(run.table, lazy_adam(6, 0.01, 1e-8), 1e-12));
  const auto padded_apart = [](const Variable& t, const Tensor& indices) {
    return sum(embedding(t, indices, kSparse)) +
           sum(embedding(t, indices, {.padding_idx = 3, .sparse = true}));
  };
  Adam refused;
  EXPECT_ERROR(captured_run(refused, table, padded_apart), ErrorCode::kInvalidArgument,
               "parameter 'table' is looked up with padding_idx");
}

TEST(RowUpdates, ThePaddingsRowStaysWhatItIs) {
  const double padding = indices_in(0)[3];
  for (const bool sparse : {false, true}) {
    const LookupOptions options{.padding_idx = static_cast<int64_t>(padding), .sparse = sparse};
    const Variable table = table_of(), other = table_of();
    Adam adam, unpadded;
    const Numbers got = captured_run(adam, table, lookup(options)).table.to_vector();
    const Numbers all =
        captured_run(unpadded, other, lookup({.padding_idx = {}, .sparse = sparse})).table.to_vector();
    const Numbers initial = table_of().tensor().to_vector();
    for (size_t i = 0; i < got.size(); ++i) {
      const bool padded = i / kTableWidth == static_cast<size_t>(padding);
      EXPECT_EQ(got[i], padded ? initial[i] : all[i]) << i;
      EXPECT_TRUE(!padded || all[i] != initial[i]) << i;
    }
  }
}

TEST(RowUpdates, ClippingLossScaleGroupsSchedulesAndAveragesTakeThemAsAnyGradient) {
  const auto same = [](const StepOptions& step, Schedule schedule = 0.05) {
    const Variable rows = table_of(), whole = table_of();
    Adagrad by_rows({.learning_rate = schedule, .step = step});
    Adagrad dense({.learning_rate = schedule, .step = step});
    const Tensor got = captured_run(by_rows, rows, lookup()).table;
    EXPECT_TRUE(near(got, captured_run(dense, whole, lookup({})).table, 1e-12));
    if (step.ema_decay == 0) return;
    const AveragedWeights of_rows(by_rows), of_whole(dense);
    EXPECT_TRUE(near(rows.tensor(), whole.tensor(), 1e-12));
  };
  same({.clip = {.global_norm = 0.5}});
  same({.clip = {.norm = 0.5}});
  same({.clip = {.value = 0.3}});
  same({.loss_scale = LossScale::dynamic(1024)});
  same({.ema_decay = 0.9});
  same({.keep_gradients = true});
  same({}, cosine(0.1, 8));
  ParameterGroup group;
  group.holds = [](const Variable&) { return true; };
  group.learning_rate_factor = 0.25;
  same({.parameter_groups = {group}});
}

TEST(RowUpdates, GradientsScaledByHandStayRows) {
  using Scale = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  const auto run = [](const Scale& scale, double of_loss, LookupOptions options, bool eager) {
    const Variable table = table_of();
    Adam adam({.learning_rate = 0.01});
    const Loss loss = lookup(options);
    if (eager) {
      for (int i = 0; i < 4; ++i) {
        const ops::RowGradientScope scope;
        GradientTape tape;
        const Tensor gradient = tape.gradient(loss(table, index_tensor(i)) * of_loss, table);
        adam.apply(std::vector{table}, scale({gradient}));
      }
      return Outcome{copy(table.tensor()), 0, 0, true};
    }
    auto step = capture([&](const Tensor& indices) {
      const std::vector<Tensor> found =
          gradients(loss(table, indices) * of_loss, std::vector{table.tensor()});
      adam.apply(std::vector{table}, scale(found));
    });
    for (int i = 0; i < 4; ++i) step(index_tensor(i));
    const bool by_rows = std::ranges::any_of(
        step.graph().nodes(), [](const auto& node) { return node->op->name == "update_rows"; });
    return Outcome{copy(table.tensor()), 0, 0, by_rows};
  };
  const Variable usual = table_of(), clipped = table_of();
  Adam plain({.learning_rate = 0.01}), clips({.learning_rate = 0.01, .step = {.clip = {.global_norm = 0.5}}});
  const Tensor expected = captured_run(plain, usual, lookup()).table;
  const Tensor expected_clipped = captured_run(clips, clipped, lookup()).table;
  const Scale by_norm = [](const std::vector<Tensor>& g) { return clip_by_global_norm(g, 0.5); };
  const Scale divided = [](const std::vector<Tensor>& g) { return std::vector{g[0] / 1024.0}; };
  const Scale multiplied = [](const std::vector<Tensor>& g) {
    return std::vector{scalar(1.0 / 32, DType::kF64) * (g[0] * (1.0 / 32))};
  };
  const Scale negated = [](const std::vector<Tensor>& g) {
    return std::vector{-(full({1}, 1.0 / 32, DType::kF64) * g[0]) / full({1, 1}, -32, DType::kF64)};
  };
  for (const bool eager : {false, true}) {
    const Outcome norm = run(by_norm, 1, kSparse, eager);
    EXPECT_TRUE(norm.by_rows);
    EXPECT_TRUE(near(norm.table, expected_clipped, 1e-12));
    for (const Scale& scale : {divided, multiplied, negated}) {
      const Outcome unscaled = run(scale, 1024, kSparse, eager);
      EXPECT_TRUE(unscaled.by_rows);
      EXPECT_TRUE(near(unscaled.table, expected, 1e-12));
    }
  }
  EXPECT_FALSE(run(divided, 1024, {}, false).by_rows) << "of a layer that wasn't told to";
}

TEST(RowUpdates, GradientsChangedByHandAreRefusedUnlessEveryRowIsRight) {
  using Change = std::function<Tensor(const Tensor&)>;
  const auto run = [](auto optimizer, const Change& change, LookupOptions options, bool eager) {
    const Variable table = table_of();
    const Loss loss = lookup(options);
    if (eager) {
      const ops::RowGradientScope scope;
      GradientTape tape;
      optimizer.apply(std::vector{table},
                      std::vector{change(tape.gradient(loss(table, index_tensor(0)), table))});
    } else {
      auto step = capture([&](const Tensor& indices) {
        const Tensor gradient = gradients(loss(table, indices), std::vector{table.tensor()})[0];
        optimizer.apply(std::vector{table}, std::vector{change(gradient)});
      });
      step(index_tensor(0));
    }
    return table.tensor().to_vector();
  };
  const Change clipped = [](const Tensor& g) { return clip(g, -0.5, 0.5); };
  const Change masked = [](const Tensor& g) { return -where(g > 0.0, g, scalar(0, g.dtype())) * 2.0; };
  const Change added = [](const Tensor& g) { return clip(g, -0.5, 0.5) + ones(g.shape(), g.dtype()); };
  for (const bool eager : {false, true}) {
    for (const Change& change : {clipped, masked})
      EXPECT_ERROR(run(Adam(), change, kSparse, eager), ErrorCode::kUnsupported, "parameter 'table'");
    EXPECT_ERROR(run(Adam(), masked, kSparse, eager), ErrorCode::kUnsupported, "'where' changed");
    run(Adam(), clipped, {}, eager);
    EXPECT_EQ(run(Adam(), added, kSparse, eager), run(Adam(), added, {}, eager))
        << "every row has a gradient";
    EXPECT_EQ(run(Adagrad(), clipped, kSparse, eager), run(Adagrad(), clipped, {}, eager));
  }
}

TEST(RowUpdates, AnOverflowLeavesTheUpdateOut) {
  const Variable table = table_of(DType::kF32);
  Adam adam({.step = {.loss_scale = LossScale::dynamic()}});
  auto step = capture([&](const Tensor& indices, const Tensor& f) {
    adam.minimize(sum(embedding(table, indices, kSparse)) * f, std::vector{table});
  });
  const Numbers before = table.tensor().to_vector();
  step(index_tensor(0), full({}, INFINITY));
  EXPECT_EQ(table.tensor().to_vector(), before);
  EXPECT_EQ(adam.skipped_steps(), 1);
  step(index_tensor(0), full({}, 1));
  EXPECT_NE(table.tensor().to_vector(), before);
  EXPECT_EQ(adam.step_count(), 1);
}

TEST(RowUpdates, WhatNeedsTheWholeGradientGetsItOrRefuses) {
  const auto run = [](auto optimizer) {
    const Variable table = table_of();
    return captured_run(optimizer, table, lookup()).table;
  };
  const auto dense = [](auto optimizer) {
    const Variable table = table_of();
    return captured_run(optimizer, table, lookup({})).table;
  };
  const StepOptions accumulate{.accumulate = 2};
  EXPECT_EQ(run(Sgd({.step = accumulate})).to_vector(), dense(Sgd({.step = accumulate})).to_vector());
  const WeightDecay decay{.rate = 0.1};
  EXPECT_EQ(run(Adagrad({.weight_decay = decay})).to_vector(),
            dense(Adagrad({.weight_decay = decay})).to_vector());
  EXPECT_ERROR(run(Adam({.step = accumulate})), ErrorCode::kUnsupported, "micro-batches are accumulated");
  EXPECT_ERROR(run(AdamW()), ErrorCode::kUnsupported, "'table' is to be updated only in the rows");
  EXPECT_ERROR(run(Adam({.step = {.noise = {.eta = 0.1}}})), ErrorCode::kUnsupported, "noise");
  EXPECT_ERROR(run(Lamb()), ErrorCode::kUnsupported, "whole parameters");
  ParameterGroup tables;
  tables.holds = [](const Variable& parameter) { return parameter.name() == "table"; };
  tables.weight_decay = 0.1;
  const StepOptions decaying{.parameter_groups = {tables}};
  EXPECT_EQ(run(Adagrad({.step = decaying})).to_vector(), dense(Adagrad({.step = decaying})).to_vector());
  EXPECT_ERROR(run(Adam({.step = decaying})), ErrorCode::kUnsupported, "weight decay changes all rows");
  tables.weight_decay = 0;
  AdamWOptions spared;
  spared.step.parameter_groups = {tables};
  Adam adam({.epsilon = 1e-8, .epsilon_after_correction = true});
  EXPECT_EQ(run(AdamW(spared)).to_vector(), run(std::move(adam)).to_vector());
}

TEST(RowUpdates, GoOnFromTheirStateAlone) {
  const Variable table = table_of(), resumed_table = table_of();
  Adam whole, resumed;
  captured_run(whole, table, lookup(), 2);
  resumed.prepare(std::vector{resumed_table});
  resumed_table.assign(table.tensor());
  const std::vector<Variable> from = whole.state(), to = resumed.state();
  ASSERT_EQ(from.size(), to.size());
  for (size_t i = 0; i < from.size(); ++i) to[i].assign(from[i].tensor());
  EXPECT_EQ(captured_run(whole, table, lookup(), 3).table.to_vector(),
            captured_run(resumed, resumed_table, lookup(), 3).table.to_vector());
}

TEST(RowUpdates, TheirGradientsStayF32UnderMixedPrecision) {
  const auto run = [](Precision precision) {
    const Variable table = table_of(DType::kF32, 5000);
    const Variable kernel(full({kTableWidth, 8}, 0.25), "kernel");
    Adam adam({.learning_rate = 0.01});
    CaptureOptions options;
    options.passes.precision = precision;
    auto step = capture(
        [&](const Tensor& indices) {
          const Tensor vectors = reshape(embedding(table, indices, kSparse), {12, kTableWidth});
          adam.minimize(mean(square(matmul(vectors, kernel) - 1.0)), std::vector{table, kernel});
        },
        options);
    for (int i = 0; i < 4; ++i) step(index_tensor(i));
    EXPECT_LT(step.plan_report().arena_bytes, 20000u);
    return copy(table.tensor());
  };
  EXPECT_TRUE(near(run(Precision::kMixedBf16), run(Precision::kF32), 0, 0.02));
}

TEST(RowUpdates, AnIndexOutOfRangeChangesNothing) {
  const Variable table = table_of();
  Adam adam;
  auto step = capture([&](const Tensor& indices) {
    adam.minimize(sum(embedding(table, indices, kSparse)), std::vector{table});
  });
  const Numbers before = table.tensor().to_vector();
  EXPECT_ERROR(step(from_vector({2}, {1, kTableRows}, DType::kI64)), ErrorCode::kOutOfRange,
               "index 60 at position 1");
  EXPECT_EQ(table.tensor().to_vector(), before);
  EXPECT_EQ(adam.step_count(), 0);
}

TEST(RowUpdates, AreTheDenseOnesOnlyWhereAZeroGradientChangesNothing) {
  const auto zero_changes_nothing = ops::optimizer_rule("adagrad_update").zero_changes_nothing;
  for (const double epsilon : {0.0, 1e-40, 1e-10}) {
    const graph::Attributes attributes{{"epsilon", epsilon}, {"epsilon_outside_root", false}};
    EXPECT_EQ(zero_changes_nothing(attributes), epsilon == 1e-10) << epsilon;
  }
}

}  // namespace
}  // namespace isochron::optim
