// Attention of tensors stored in 16 bits, compared with its definition in doubles: for any length and width,
// whether or not the processor multiplies bf16.
#include "isochron/ops/attention/attention.h"

#include "isochron/backends/common/choices.h"
#include "isochron/core/process/threads.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/rows/registry.h"
#include "ops/rows/half_call.h"
#include "support/vector_targets.h"

namespace isochron {
namespace {

/// Whole blocks, groups and tiles, and one more or less.
struct Case {
  int64_t batch, queries, keys, heads, key_heads, width;
  bool packed = false, causal = false, masked = false;
};
const Case kCases[] = {{2, 64, 64, 2, 2, 32, true, true},          {1, 16, 16, 1, 1, 16},
                       {1, 70, 70, 4, 2, 40, true, true, true},    {2, 33, 150, 2, 1, 17, false, true, true},
                       {1, 130, 47, 2, 2, 64, false, false, true}, {1, 100, 20, 1, 1, 33, false, true},
                       {3, 1, 90, 2, 2, 32, false, true},          {1, 129, 129, 3, 1, 80, true, true}};

graph::Attributes attributes_of(const Case& c) {
  return {{"packed", c.packed},
          {"heads", c.heads},
          {"key_heads", c.key_heads},
          {"causal", c.causal},
          {"scale", -0.7 / std::sqrt(static_cast<double>(c.width))}};
}

Tensor numbers(const Shape& shape, random::Generator& generator, DType half) {
  return cast(random_uniform(shape, -1.5, 1.5, DType::kF32, generator), half);
}

HalfCall forward_call(const Case& c, DType half) {
  random::Generator generator(5);
  HalfCall call{&ops::row("attention"), attributes_of(c), {}};
  if (c.packed) {
    call.inputs = {numbers({c.batch, c.queries, c.heads + 2 * c.key_heads, c.width}, generator, half)};
  } else {
    call.inputs = {numbers({c.batch, c.queries, c.heads, c.width}, generator, half),
                   numbers({c.batch, c.keys, c.key_heads, c.width}, generator, half),
                   numbers({c.batch, c.keys, c.key_heads, c.width}, generator, half)};
  }
  if (c.masked) {
    Values seen(static_cast<size_t>(c.batch * c.keys), 1.0);
    for (size_t i = 2; i < seen.size(); i += 3) seen[i] = 0;
    call.inputs.push_back(from_vector({c.batch, c.keys}, seen, DType::kBool));
  }
  return call;
}

/// `given`: the forward call's results.
HalfCall gradient_call(const HalfCall& forward, const std::vector<Tensor>& given, bool masked, DType half) {
  random::Generator generator(6);
  HalfCall call{&ops::row("attention_gradient"), forward.attributes, forward.inputs};
  const std::vector<Tensor> more = {given[0], given[1], numbers(given[0].shape(), generator, half)};
  call.inputs.insert(call.inputs.end() - (masked ? 1 : 0), more.begin(), more.end());
  return call;
}

void expect_defined(const Case& c, DType half) {
  const std::string what = fmt::format("{} queries, {} keys, {} wide", c.queries, c.keys, c.width);
  const HalfCall forward = forward_call(c, half);
  const std::vector<Tensor> given = forward.run(half, 4);
  const auto defined = [](const HalfCall& call) {
    const std::vector<TensorSpec> specs = call.specs();
    return call.op->reference({*call.op, specs, call.attributes}, call.outputs(), call.values());
  };
  // Probabilities and gradients of scores are rounded to 8 bits where pairs are multiplied.
  const std::vector<Values> want = defined(forward);
  expect_close(given[0], want[0], 3e-3, what);
  expect_close(given[1], want[1], 1e-5, what + ", logs");
  const HalfCall gradient = gradient_call(forward, given, c.masked, half);
  const std::vector<Tensor> gradients = gradient.run(half, 4);
  const std::vector<Values> wanted = defined(gradient);
  for (size_t i = 0; i < gradients.size(); ++i) {
    expect_close(gradients[i], wanted[i], 4e-3, fmt::format("{}, gradient {}", what, i), 0.05);
  }
}

TEST(HalfAttention, IsWhatItsDefinitionSays) {
  const ops::Deterministic by_rule;
  for_each_target([] {
    for (const DType half : {DType::kBF16, DType::kF16}) {
      for (const Case& c : kCases) expect_defined(c, half);
    }
  });
}

TEST(HalfAttention, GivesTheSameBitsOnAnyNumberOfThreads) {
  const ops::Deterministic by_rule;
  const int before = compute_threads();
  const HalfCall forward = forward_call(kCases[7], DType::kBF16);
  const auto results = [&](int threads) {
    set_compute_threads(threads);
    std::vector<Tensor> all = forward.run(DType::kBF16, 4);
    for (const Tensor& x : gradient_call(forward, all, false, DType::kBF16).run(DType::kBF16, 4)) {
      all.push_back(x);
    }
    return all;
  };
  const std::vector<Tensor> one = results(1), three = results(3);
  set_compute_threads(before);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].to_vector(), three[i].to_vector()) << i;
}

/// A NaN in a query affects only its own row; an overflowing score is reported.
TEST(HalfAttention, KeepsNaNToItsRow) {
  const ops::Deterministic by_rule;
  const Case c{1, 70, 70, 2, 2, 32, false, true};
  HalfCall call = forward_call(c, DType::kBF16);
  Values q = call.inputs[0].to_vector();
  const size_t broken = (66 * 2 + 1) * 32;  // query 66 of head 1
  q[broken] = std::numeric_limits<double>::quiet_NaN();
  call.inputs[0] = from_vector({1, 70, 2, 32}, q, DType::kBF16);
  const Values y = call.run(DType::kBF16, 4)[0].to_vector();
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 32 == broken / 32) << i;
}

}  // namespace
}  // namespace isochron
