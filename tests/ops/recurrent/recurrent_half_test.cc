// Recurrent ops on tensors stored in 16 bits: what their products multiply, against the definition in doubles
// that rounds the same factors.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "isochron/backends/common/choices.h"
#include "isochron/backends/cpu/recurrent/recurrent.h"
#include "isochron/backends/cpu/recurrent/recurrent_blocks.h"
#include "isochron/core/process/threads.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/recurrent/recurrent_reference.h"
#include "isochron/ops/reduction/cumulative.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "ops/rows/half_call.h"
#include "support/vector_targets.h"

namespace isochron {
namespace {

/// Units and depths that fill vectors and pairs and that don't, one row and more than a block's.
struct Case {
  int64_t rows, steps, features, units;
  bool reverse = false, initial_state = false, lengths = false;
};
const Case kCases[] = {{6, 5, 8, 32},
                       {1, 4, 3, 16},
                       {7, 5, 2, 19, true, true, true},
                       {9, 3, 5, 1, false, true, false},
                       {101, 4, 7, 33, false, true, true},
                       {5, 4, 0, 7, true, false, true},
                       {4, 6, 40, 70, false, true, false}};

double to_bf16(double x) { return static_cast<float>(bfloat16(static_cast<float>(x))); }
double unrounded(double x) { return x; }

HalfCall forward_call(const Case& c, bool lstm, DType half) {
  random::Generator generator(7);
  const auto numbers = [&](const Shape& shape, double size) {
    return cast(random_uniform(shape, -size, size, DType::kF32, generator), half);
  };
  const int64_t columns = (lstm ? 4 : 3) * c.units;
  const double size = 2 / std::sqrt(static_cast<double>(c.features + c.units));
  HalfCall call{&ops::row(lstm ? "lstm" : "gru"),
                {{"reverse", c.reverse}, {"initial_state", c.initial_state}, {"lengths", c.lengths}},
                {numbers({c.rows, c.steps, c.features}, 1), numbers({c.features, columns}, size),
                 numbers({c.units, columns}, size), numbers(lstm ? Shape{columns} : Shape{2, columns}, 0.5)}};
  for (int i = 0; c.initial_state && i < (lstm ? 2 : 1); ++i) {
    call.inputs.push_back(numbers({c.rows, c.units}, 1));
  }
  if (c.lengths) {
    Values lengths;
    for (int64_t n = 0; n < c.rows; ++n) lengths.push_back(static_cast<double>(n % (c.steps + 1)));
    call.inputs.push_back(from_vector({c.rows}, lengths, DType::kI64));
  }
  return call;
}

/// The gradients of the sum of all that `given`, the forward call's results, were seeded with.
HalfCall gradient_call(const HalfCall& forward, const std::vector<Tensor>& given, DType half) {
  random::Generator generator(8);
  const ops::RecurrentLayout layout(*forward.op, forward.attributes);
  HalfCall call{&ops::row(forward.op->name + "_gradient"), forward.attributes, {}};
  Dims seeds;
  for (size_t i = 0; i < given.size(); ++i) {
    seeds.push_back(static_cast<int64_t>(i));
    call.inputs.push_back(cast(random_uniform(given[i].shape(), -1, 1, DType::kF32, generator), half));
  }
  call.attributes.set("seeds", seeds);
  call.inputs.insert(call.inputs.end(), forward.inputs.begin(), forward.inputs.end());
  call.inputs.push_back(given[0]);
  call.inputs.push_back(given[layout.gates()]);
  if (layout.lstm) call.inputs.push_back(given[layout.cells()]);
  return call;
}

/// The op and its gradient op against their definitions; `pairs`: products multiply pairs of bf16.
void expect_defined(const Case& c, bool lstm, DType half, bool pairs) {
  const ops::Rounding round = pairs ? to_bf16 : unrounded;
  const std::string what = fmt::format("{} rows, {} steps, {} features, {} {}", c.rows, c.steps, c.features,
                                       c.units, lstm ? "LSTM" : "GRU");
  const HalfCall forward = forward_call(c, lstm, half);
  const std::vector<Tensor> given = forward.run(half);
  const std::vector<Values> want = ops::rounding_recurrent_reference(
      {*forward.op, forward.specs(), forward.attributes}, forward.outputs(), forward.values(), round);
  for (size_t i = 0; i < given.size(); ++i) {
    expect_close(given[i], want[i], 3e-6, fmt::format("{}, output {}", what, i));
  }
  const HalfCall gradient = gradient_call(forward, given, half);
  const std::vector<Tensor> gradients = gradient.run(half);
  const std::vector<Values> wanted = ops::rounding_recurrent_gradient_reference(
      {*gradient.op, gradient.specs(), gradient.attributes}, gradient.outputs(), gradient.values(), round);
  for (size_t i = 0; i < gradients.size(); ++i) {
    expect_close(gradients[i], wanted[i], 2e-4, fmt::format("{}, gradient {}", what, i));
  }
}

TEST(HalfRecurrentOps, RoundWhatTheirProductsMultiplyAndNothingElse) {
  for_each_target([] {
    EXPECT_EQ(ops::recurrent_multiplies_pairs(),
              ops::vector_target() == "avx3" && ops::multiplies_in(DType::kBF16));
    const ops::Deterministic by_rule;
    for (const DType half : {DType::kBF16, DType::kF16}) {
      const bool pairs = half == DType::kBF16 && ops::recurrent_multiplies_pairs();
      for (const bool lstm : {true, false}) {
        for (const Case& c : kCases) expect_defined(c, lstm, half, pairs);
      }
    }
  });
}

/// Not every processor that multiplies pairs of bf16 does so faster than it multiplies f32.
TEST(HalfRecurrentOps, MultiplyWhatWasFasterToMultiply) {
  if (!ops::recurrent_multiplies_pairs()) GTEST_SKIP() << "this processor has no products of bf16";
  const Case with_lengths{7, 5, 2, 19, true, true, true};
  const HalfCall forward = forward_call(with_lengths, true, DType::kBF16);
  const auto before = ops::recorded_choices();
  gradient_call(forward, forward.run(DType::kBF16), DType::kBF16).run(DType::kBF16);
  std::vector<std::string> calls;
  for (const auto& [call, chosen] : ops::recorded_choices()) {
    if (!before.contains(call) && call.starts_with("lstm")) calls.push_back(call);
  }
  ASSERT_EQ(calls.size(), 2u) << "the layer's and its gradient's";
  for (const char* way : {"pairs", "f32"}) {
    SCOPED_TRACE(way);
    for (const std::string& call : calls) ops::restore_choices({{call, way}});
    expect_defined(with_lengths, true, DType::kBF16, way == std::string_view("pairs"));
  }
}

TEST(HalfRecurrentOps, GiveTheSameBitsOnAnyNumberOfThreads) {
  const ops::Deterministic by_rule;
  const int before = compute_threads();
  for (const bool lstm : {true, false}) {
    const HalfCall forward = forward_call({101, 12, 5, 24, false, true, true}, lstm, DType::kBF16);
    set_compute_threads(1);
    const std::vector<Tensor> one = forward.run(DType::kBF16);
    const HalfCall gradient = gradient_call(forward, one, DType::kBF16);
    const Tensor d_x = gradient.run(DType::kBF16)[0];
    set_compute_threads(3);
    const std::vector<Tensor> three = forward.run(DType::kBF16);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].to_vector(), three[i].to_vector()) << i;
    EXPECT_EQ(gradient.run(DType::kBF16)[0].to_vector(), d_x.to_vector());
    set_compute_threads(before);
  }
}

/// An infinite feature affects only the units of its own row, which saturate.
TEST(HalfRecurrentOps, KeepInfinityToItsRow) {
  HalfCall call = forward_call({3, 3, 2, 17}, true, DType::kBF16);
  const Values clean = call.run(DType::kBF16)[0].to_vector();
  Values x = call.inputs[0].to_vector();
  x[3 * 2] = std::numeric_limits<double>::infinity();  // of the second row
  call.inputs[0] = from_vector({3, 3, 2}, x, DType::kBF16);
  const Values got = call.run(DType::kBF16)[0].to_vector();
  for (size_t i = 0; i < got.size(); ++i) {
    if (i / (3 * 17) == 1) {
      EXPECT_TRUE(std::isfinite(got[i])) << i;
    } else {
      EXPECT_EQ(got[i], clean[i]) << i;
    }
  }
}

}  // namespace
}  // namespace isochron
