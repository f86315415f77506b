// Updates of the rows that a step reads, and sums of gradients by a tree, on a simulated device.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "isochron/backends/common/vector_target.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/variable.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/embedding.h"
#include "isochron/ops/indexing/row_updates.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/near.h"
#include "support/simulated/results_on.h"

namespace isochron::optim {
namespace {

using Arguments = std::span<const Tensor>;
using Numbers = std::vector<double>;

constexpr int64_t kRows = 300, kWidth = 37;

Tensor indices_of(int step) {
  Numbers indices;
  for (int i = 0; i < 60; ++i) indices.push_back((i * i * 7 + step * 5) % 43);
  return from_vector({4, 15}, indices, DType::kI32);
}

struct Trained {
  Tensor table;
  bool by_rows;
  int in_place;
};

/// Four steps of the optimizer that `make` gives.
template <typename Make>
Trained trained_rows(Device device, const Make& make, const LookupOptions& lookup) {
  Variable table(waves({kRows, kWidth}, 0.7), "table");
  table.move_to(device);
  auto optimizer = make();
  CaptureOptions options;
  options.plan.device = device;
  auto step = capture(
      [&](const Tensor& indices, const Tensor& factors) {
        const Tensor loss = sum(embedding(table, indices, lookup) * factors);
        optimizer.minimize(loss, std::vector{table});
        return loss;
      },
      options);
  for (int i = 0; i < 4; ++i) step(indices_of(i), waves({4, 15, kWidth}, 1.3));
  const bool by_rows = std::ranges::any_of(step.graph().nodes(), [](const auto& node) {
    return node->op->name == "update_rows" || node->op->name == "coalesce_rows";
  });
  return {to_device(table.tensor(), {}), by_rows, step.plan_report().updates_in_place};
}

TEST(DeviceRowUpdates, AreTheCpus) {
  const auto check = [](const auto& make, const LookupOptions& lookup) {
    const SimulatedGpu simulated({}, true);
    const Trained there = trained_rows(SimulatedGpu::kDevice, make, lookup),
                  here = trained_rows({}, make, lookup);
    EXPECT_TRUE(there.by_rows);
    EXPECT_EQ(there.in_place, here.in_place);
    EXPECT_TRUE(near(there.table, here.table, 1e-6, 1e-6));
    return there;
  };
  const LookupOptions sparse{.padding_idx = 7, .sparse = true};
  check([] { return Sgd({.learning_rate = 0.1}); }, {});
  check([] { return Adagrad({.learning_rate = 0.1}); }, {});
  check([] { return Adam({.learning_rate = 0.01}); }, sparse);
  check([] { return Adam({.learning_rate = 0.01, .step = {.clip = {.global_norm = 0.5}}}); }, sparse);
  check([] { return Adam({.learning_rate = 0.01, .step = {.loss_scale = LossScale::dynamic(1024)}}); },
        sparse);
}

TEST(DeviceRowUpdates, RowsOfManyIndicesAreSummedInTheirOrder) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const int64_t extent : {3, 4000, 1 << 20}) {
      const auto coalesced = [&](Arguments in) {
        const CoalescedRows rows = coalesce_rows(in[0], in[1], extent, 2);
        return std::vector<Tensor>{rows.values, rows.rows, rows.count};
      };
      Numbers indices;
      for (int64_t i = 0; i < 5000; ++i)
        indices.push_back(static_cast<double>((i * i * 31 + i / 7) % extent));
      const std::vector<Tensor> arguments = {waves({5000, 3}, 0.7, dtype),
                                             from_vector({5000}, indices, DType::kI64)};
      const auto expected = results_of(coalesced, arguments);
      for (const int multiprocessors : {1, 132})
        EXPECT_EQ(results_of(coalesced, arguments, multiprocessors), expected) << extent;
    }
  }
}

TEST(DeviceRowUpdates, AllIndicesMayBePadding) {
  const auto coalesced = [](Arguments in) {
    const CoalescedRows rows = coalesce_rows(in[0], in[1], 4, 3);
    return std::vector<Tensor>{rows.values, rows.rows, rows.count};
  };
  const std::vector<Tensor> arguments = {ones({9, 2}), full({9}, 3, DType::kI32)};
  EXPECT_EQ(results_of(coalesced, arguments, 4), results_of(coalesced, arguments));
  const std::vector<Tensor> narrow_rows = {zeros({9, 0}), full({9}, 1, DType::kI32)};
  EXPECT_EQ(results_of(coalesced, narrow_rows, 4), results_of(coalesced, narrow_rows));
}

TEST(DeviceRowUpdates, IndicesOutsideEndTheDevice) {
  const auto coalesced = [](Arguments in) {
    return std::vector<Tensor>{coalesce_rows(in[0], in[1], 4).values};
  };
  for (const double index : {-1, 4})
    EXPECT_ERROR(results_of(coalesced, {ones({2, 2}), full({2}, index, DType::kI64)}, 4),
                 ErrorCode::kDeviceLost, "coalesce_rows: index");
}

TEST(DeviceRowUpdates, ATreeSumsMicroBatchesInTheCpusOrder) {
  const auto run = [](Device device) {
    Variable weights(waves({70, 30}, 0.3), "weights");
    weights.move_to(device);
    Sgd optimizer({.learning_rate = 0.1, .step = {.accumulate = 4, .exact_sums = true}});
    CaptureOptions options;
    options.plan.device = device;
    auto step = capture(
        [&](const Tensor& x) {
          const Tensor loss = sum(weights.tensor() * x);
          optimizer.minimize(loss, std::vector{weights});
          return loss;
        },
        options);
    for (int i = 0; i < 8; ++i) step(waves({70, 30}, 0.1 + 0.2 * i));
    return to_device(weights.tensor(), {}).to_vector();
  };
  const SimulatedGpu simulated({}, true);
  const std::vector<double> there = run(SimulatedGpu::kDevice), here = run({});
  // Without a fused multiply-add, the CPU's last update rounds twice.
  const bool fused = std::string_view(ops::vector_target()).starts_with("avx");
  for (size_t i = 0; i < here.size(); ++i) ASSERT_NEAR(there[i], here[i], fused ? 0 : 1e-6) << i;
}

}  // namespace
}  // namespace isochron::optim
