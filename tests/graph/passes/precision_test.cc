#include "isochron/graph/passes/precision.h"

#include <gmock/gmock.h>

#include <cmath>

#include "graph/program/trace.h"
#include "isochron/autograd/autograd.h"
#include "isochron/core/base/rng.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/convolution/convolution.h"
#include "isochron/ops/convolution/pooling.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/normalization/normalization.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/reduction/softmax.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "support/expect_error.h"

namespace isochron::graph {
namespace {

using In = const std::vector<Tensor>&;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Tensor random_tensor(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  Tensor result = empty({DType::kF32, shape});
  for (float& value : result.span<float>()) value = static_cast<float>(rng.normal());
  return result;
}

PassOptions mixed(Precision precision = Precision::kMixedBf16) {
  PassOptions options;
  options.precision = precision;
  return options;
}

template <typename F>
std::string text_of(const std::vector<TensorSpec>& specs, F function, const PassOptions& options = mixed()) {
  auto graph = trace(specs, function);
  run_passes(*graph, options);
  graph->check();
  return to_text(*graph);
}

TEST(Precision, HasNames) {
  for (const Precision precision :
       {Precision::kF32, Precision::kMixedBf16, Precision::kMixedF16, Precision::kMixedFp8, Precision::kTf32})
    EXPECT_EQ(parse_precision(precision_name(precision)), precision);
  EXPECT_EQ(precision_name(Precision::kMixedF16), "mixed_f16");
  EXPECT_ERROR(parse_precision("f8"), ErrorCode::kInvalidArgument,
               "f32, mixed_bf16, mixed_f16, mixed_fp8, tf32");
}

/// One step of gradient descent on a net of two layers.
class Step {
 public:
  Tensor operator()(In in) const {
    const Tensor w = first_.refreshed();
    const Tensor v = second_.refreshed();
    const Tensor loss = mean(square(matmul(relu(matmul(in[0], w)), v)));
    const Tensor sources[] = {w, v};
    const std::vector<Tensor> g = gradients(loss, sources);
    assign(first_, w - g[0] * 0.5);
    assign(second_, v - g[1] * 0.5);
    return loss;
  }

 private:
  Tensor first_ = random_tensor({6, 5}, 1);
  Tensor second_ = random_tensor({5, 3}, 2);
};

TEST(Precision, ATrainStepIsHalfBetweenProductsAndFullAtItsEnds) {
  const Step step;
  EXPECT_EQ(text_of({{DType::kF32, {8, 6}}}, step),
            "%0 = input 0 : f32(8, 6)\n"
            "%1 = bound : f32(6, 5)\n"
            "%4 = bound : f32(5, 3)\n"
            "%8 = constant : f32()\n"
            "%10 = constant : f32()\n"
            "%13 = constant : f32()\n"
            "%20 = constant : f32()\n"
            "%23 = constant : f32()\n"
            "%26 = constant : f32(1, 1)\n"
            "%27 = constant : f32(1, 1)\n"
            "%32 = cast(%0) {dtype=bf16} : bf16(8, 6)\n"
            "%33 = cast(%1) {dtype=bf16} : bf16(6, 5)\n"
            "%34 = matmul(%32, %33) {transpose_a=false, transpose_b=false, storage=[bf16]} : bf16(8, 5)\n"
            "%35 = fused(%34) {program={r1=cast(r0); r2=relu(r1); r3=cast(r2); -> r3}} : bf16(8, 5)\n"
            "%36 = cast(%4) {dtype=bf16} : bf16(5, 3)\n"
            "%37 = matmul(%35, %36) {transpose_a=false, transpose_b=false, storage=[bf16]} : bf16(8, 3)\n"
            "%38 = fused(%37) {program={r1=cast(r0); r2=square(r1); -> mean(0, 1)(r2)}} : f32()\n"
            "%39 = fused(%37) {program={r0=0.0416667; r1=2; r3=cast(r2); r4=copy(r0); r5=mul(r4,r1); "
            "r6=mul(r5,r3); r7=cast(r6); -> r7}} : bf16(8, 3)\n"
            "%40 = matmul(%39, %36) {transpose_a=false, transpose_b=true, storage=[bf16]} : bf16(8, 5)\n"
            "%41 = matmul(%35, %39) {transpose_a=true, transpose_b=false, storage=[f32]} : f32(5, 3)\n"
            "%42 = fused(%40, %35) {program={r2=cast(r0); r3=cast(r1); r4=relu_grad(r2,r3); r5=cast(r4); "
            "-> r5}} : bf16(8, 5)\n"
            "%43 = matmul(%32, %42) {transpose_a=true, transpose_b=false, storage=[f32]} : f32(6, 5)\n"
            "%30 = fused(%43, %1) {program={r1=0.5; r3=mul(r0,r1); r4=sub(r2,r3); -> r4}} : f32(6, 5)\n"
            "%31 = fused(%41, %4) {program={r1=0.5; r3=mul(r0,r1); r4=sub(r2,r3); -> r4}} : f32(5, 3)\n"
            "update %1 <- %30\n"
            "update %4 <- %31\n"
            "return %38\n");
}

TEST(Precision, WhatIsPutTogetherIsAsWideAsItsWidestPart) {
  const auto program = [](bool product_behind) {
    return [=](In in) {
      const Tensor y1 = matmul(in[0], in[1]);  // read by a product
      const Tensor y2 = matmul(y1, in[1]);
      const Tensor path = concatenate({in[0], y1, y2}, 0);
      return std::vector<Tensor>{product_behind ? matmul(path, in[1]) : mean(square(path - in[2]))};
    };
  };
  const std::vector<TensorSpec> specs = {
      {DType::kF32, {8, 8}}, {DType::kF32, {8, 8}}, {DType::kF32, {24, 8}}};
  EXPECT_THAT(text_of(specs, program(false)), testing::ContainsRegex("= concatenate.* : f32.24, 8."));
  EXPECT_THAT(text_of(specs, program(true)), testing::ContainsRegex("= concatenate.* : bf16.24, 8."));
}

TEST(Precision, ResultsAndVariablesAreNotRoundedOnTheirWayThroughViews) {
  const Tensor w = random_tensor({8, 8}, 2), x = random_tensor({4, 8}, 1);
  const Tensor state = zeros({32}), again = zeros({4, 16});
  CaptureOptions options;
  options.passes = mixed();
  auto step = capture(
      [&](const Tensor& in) {
        const Tensor h = exp(in);
        assign(state, reshape(h, {32}));
        assign(again, concatenate({h, h}, 1));
        return std::vector<Tensor>{transpose(h, {1, 0}), matmul(h, w)};
      },
      options);
  const std::vector<double> got = step(x)[0].to_vector();
  EXPECT_EQ(got, transpose(exp(x), {1, 0}).to_vector());
  EXPECT_EQ(state.to_vector(), exp(x).to_vector());
  EXPECT_EQ(again.to_vector(), concatenate({exp(x), exp(x)}, 1).to_vector());
}

/// Convolution, batch norm, pooling, a dense layer and cross-entropy. Returns the loss and the gradients of
/// all parameters and of the images.
class Network {
 public:
  explicit Network(int64_t channels) : channels_(channels) {}
  std::vector<Tensor> operator()(In in) const {
    Tensor h = conv2d(in[0], kernel_, {.padding = Padding::same()});
    const Moments moments = channel_moments(h);
    h = relu(normalize_channels(h, moments, gamma_, beta_, 1e-5));
    h = conv2d(h, second_, bias_, {.stride = {2, 2}});
    h = max_pool2d(relu(h), {2, 2});
    const Tensor flat = reshape(h, {h.extent(0), -1});
    const Tensor logits = matmul(layer_norm(flat, {}, {}, 1e-5), dense_) + scalar(0.1);
    const Tensor loss = mean(sparse_softmax_cross_entropy(logits, in[1]));
    const Tensor sources[] = {kernel_, bias_, gamma_, beta_, second_, dense_, in[0]};
    std::vector<Tensor> results = gradients(loss, sources);
    results.insert(results.begin(), loss);
    return results;
  }

 private:
  int64_t channels_;
  Tensor kernel_ = random_tensor({3, 3, channels_, 16}, 1) * 0.2;
  Tensor bias_ = random_tensor({24}, 2) * 0.1;
  Tensor gamma_ = random_tensor({16}, 3) * 0.1 + 1.0;
  Tensor beta_ = random_tensor({16}, 4) * 0.1;
  Tensor second_ = random_tensor({3, 3, 16, 24}, 5) * 0.1;
  Tensor dense_ = random_tensor({96, 10}, 6) * 0.1;
};

Tensor images() { return random_tensor({6, 11, 11, 4}, 9); }
Tensor labels() { return from_vector({6}, {0, 3, 9, 1, 5, 2}, DType::kI64); }

std::vector<Tensor> run_network(const CaptureOptions& options) {
  const Network network(4);
  auto step = capture([&](const Tensor& x, const Tensor& y) { return network({x, y}); }, options);
  const Tensor x = images();
  const Tensor y = labels();
  std::vector<Tensor> results;
  for (const Tensor& result : step(x, y)) results.push_back(copy(result));
  return results;
}

/// |a - b| / |b|, over all elements.
double distance(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to_vector();
  const std::vector<double> y = b.to_vector();
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    difference += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return std::sqrt(difference / size);
}

/// bf16 has 8 bits, f16 has 11. If rounding flips a relu or a maximum, the gradient takes another path.
constexpr double kBf16Bound = 0.1;
constexpr double kF16Bound = 0.008;

TEST(Precision, LossAndGradientsAreCloseToThoseInF32) {
  const std::vector<Tensor> want = run_network({});
  for (const auto& [precision, bound] :
       {std::pair{Precision::kMixedBf16, kBf16Bound}, {Precision::kMixedF16, kF16Bound}}) {
    const std::vector<Tensor> got = run_network({.passes = mixed(precision)});
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].spec(), want[i].spec()) << "results stay f32";
      EXPECT_LT(distance(got[i], want[i]), bound) << precision_name(precision) << ", result " << i;
      EXPECT_GT(distance(got[i], want[i]), 0) << precision_name(precision) << ", result " << i;
    }
  }
}

TEST(Precision, TheLargestElementIsAmongThoseThatAreStored) {
  const Tensor x = random_tensor({4, 10, 6}, 1), w = random_tensor({6, 32}, 2), v = random_tensor({32, 3}, 3);
  const auto gradient = [&](const auto& pooled, const auto& activated, const PassOptions& options) {
    auto step = capture(
        [&](const Tensor& in, const Tensor& kernel) {
          const Tensor loss = sum(square(matmul(pooled(activated(matmul(in, kernel))), v)));
          return gradients(loss, {kernel})[0];
        },
        CaptureOptions{.passes = options});
    return step(x, w).to_vector();
  };
  const auto same = [](const Tensor& y) { return y; };
  const auto curved = [](const Tensor& y) { return gelu(y) * 0.7; };
  const auto largest = [](const Tensor& y) { return max(y, {1}); };
  const auto smallest = [](const Tensor& y) { return min(y, {1}); };
  const auto by_softmax = [](const Tensor& y) {
    const Tensor e = exp(y - max(y, {1}, true));
    return sum(y * e / sum(e, {1}, true), {1});
  };
  const auto check = [&](const auto& pooled, const auto& activated) {
    const std::vector<double> exact = gradient(pooled, activated, {});
    const double most = *std::ranges::max_element(exact);
    for (const Precision precision : {Precision::kMixedBf16, Precision::kMixedF16}) {
      const std::vector<double> got = gradient(pooled, activated, mixed(precision));
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], exact[i], 0.15 * most) << i;
    }
  };
  check(largest, same);
  check(largest, curved);
  check(smallest, curved);
  check(by_softmax, curved);
}

TEST(Precision, ASumThatIsPinnedIsNotRounded) {
  const Tensor x = random_tensor({16, 32}, 1) * 30.0, w = random_tensor({32, 32}, 2) * 0.1;
  const auto change = [&](bool pinned, const PassOptions& options) {
    auto step = capture(
        [&](const Tensor& in) {
          Tensor h = in;
          for (int i = 0; i < 3; ++i) {
            const Tensor next = h + matmul(tanh(h), w) * 0.3;
            h = pinned ? full_precision(next) : next;
          }
          return std::pair(h - in, gradients(sum(square(matmul(h, w))), {in})[0]);
        },
        CaptureOptions{.passes = options});
    const auto [difference, gradient] = step(x);
    return std::pair(difference.to_vector(), gradient.to_vector());
  };
  const auto error = [](const std::vector<double>& got, const std::vector<double>& exact) {
    double squares = 0, of_errors = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      squares += exact[i] * exact[i];
      of_errors += (got[i] - exact[i]) * (got[i] - exact[i]);
    }
    return std::sqrt(of_errors / squares);
  };
  const auto exact = change(false, {}), loose = change(false, mixed()), pinned = change(true, mixed());
  EXPECT_EQ(change(true, {}).first, exact.first);
  EXPECT_LT(error(pinned.first, exact.first), 0.005);
  EXPECT_GT(error(loose.first, exact.first), 0.03) << "the sum has the precision of bf16";
  EXPECT_LT(error(pinned.second, exact.second), 0.01);
}

TEST(Precision, AStraightThroughEstimateHasTheValueOfItsCode) {
  const Tensor x = random_tensor({16, 32}, 1), w = random_tensor({32, 32}, 2) * 20.0,
               code = random_tensor({16, 32}, 3);
  auto step = capture(
      [&](const Tensor& in) {
        const Tensor a = matmul(in, w);
        return matmul(a + stop_gradient(code - a), w);
      },
      CaptureOptions{.passes = mixed()});
  const std::vector<double> expected = matmul(code, w).to_vector(), got = step(x).to_vector();
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 3) << "of up to 300";
}

TEST(Precision, EveryPassMayBeLeftOut) {
  const std::vector<Tensor> want = run_network({});
  for (const char* left_out : {"simplify", "cse", "fuse", "dead_code", "fold_constants"}) {
    PassOptions options = mixed();
    options.disabled = {left_out};
    const std::vector<Tensor> got = run_network({.passes = options});
    for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(distance(got[i], want[i]), kBf16Bound) << left_out;
  }
  PassOptions options = mixed();
  options.disabled = {"precision"};
  EXPECT_LT(distance(run_network({.passes = options})[0], want[0]), 1e-6) << "the pass can be switched off";
}

TEST(Precision, KernelsKeepToTheirMemory) {
  for (const Precision precision : {Precision::kMixedBf16, Precision::kMixedF16}) {
    const std::vector<Tensor> want = run_network({.passes = mixed(precision)});
    const Network network(4);
    auto step = capture(
        [&](const Tensor& x, const Tensor& y) {
          return network({x, y});
        },
        CaptureOptions{.passes = mixed(precision), .plan = {.poison = true}});
    const Tensor x = images();
    const Tensor y = labels();
    const std::span<const Tensor> results = step(x, y);
    step.plan().run_checked();  // red zones between buffers, NaN in dead ones
    for (size_t i = 0; i < want.size(); ++i) EXPECT_LT(distance(results[i], want[i]), kBf16Bound);
  }
}

TEST(Precision, StatisticsLossesAndGradientsOfVariablesAreFull) {
  const Network network(4);
  auto graph = trace({{DType::kF32, {6, 11, 11, 4}}, {DType::kI64, {6}}}, network);
  run_passes(*graph, mixed());
  int convolutions = 0;
  for (const auto& node : graph->nodes()) {
    const std::string& name = node->op->name;
    if (name == "channel_moments" || name.starts_with("sparse_softmax") ||
        name == "convolution_weight_gradient") {
      for (const Value* output : node->outputs) EXPECT_EQ(output->spec.dtype, DType::kF32) << name;
    }
    if (name.starts_with("sparse_softmax")) {
      EXPECT_EQ(node->inputs[0]->spec.dtype, DType::kF32);
    }
    if (name == "convolution" || name == "channel_moments" || name == "max_pool") {
      EXPECT_EQ(node->inputs[0]->spec.dtype, DType::kBF16) << name;
    }
    if (name == "convolution") {
      ++convolutions;
      EXPECT_EQ(node->outputs[0]->spec.dtype, DType::kBF16);
      if (node->inputs.size() == 3) {
        EXPECT_EQ(node->inputs[2]->spec.dtype, DType::kF32) << "the bias";
      }
    }
  }
  EXPECT_EQ(convolutions, 2);
  for (const Value* output : graph->outputs()) EXPECT_EQ(output->spec.dtype, DType::kF32);
}

TEST(Precision, WhatFeedsNoProductStaysFull) {
  const std::string text = text_of({{DType::kF32, {64}}}, [](In in) { return sum(exp(in[0]) * in[0]); });
  EXPECT_THAT(text, Not(HasSubstr("bf16")));
  const Tensor w = random_tensor({4, 4}, 1);
  // In a chain of kernels before the first product, only the operand of the product itself is cast.
  const std::string before = text_of({{DType::kF32, {4, 4}}}, [&](In in) {
    return matmul(transpose(exp(in[0]), {1, 0}), w, true);
  });
  EXPECT_THAT(before, HasSubstr(": f32(4, 4)\n"));
}

TEST(Precision, WhatTheUserCastStays) {
  const Tensor w = cast(random_tensor({4, 4}, 1), DType::kF16);
  const std::string text =
      text_of({{DType::kF32, {4, 4}}}, [&](In in) { return matmul(cast(in[0], DType::kF16), w); });
  EXPECT_THAT(text, Not(HasSubstr("bf16")));
  EXPECT_THAT(text, HasSubstr("matmul(%1, %2) {transpose_a=false, transpose_b=false} : f16(4, 4)"));
}

TEST(Precision, LoopsStayFull) {
  const Tensor w = random_tensor({4, 4}, 1);
  const std::string text = text_of({{DType::kF32, {4, 4}}}, [&](In in) {
    return while_loop([](std::span<const Tensor> s) { return s[0] < 3.0; },
                      [&](std::span<const Tensor> s) {
                        return std::vector<Tensor>{s[0] + 1.0, matmul(s[1], w)};
                      },
                      {scalar(0, DType::kI64), matmul(in[0], w)})[1];
  });
  EXPECT_THAT(text, HasSubstr("    %6 = matmul(%2, %5) {transpose_a=false, transpose_b=false} : f32(4, 4)"));
}

TEST(Precision, ActivationsTakeHalfTheBytes) {
  const auto bytes = [](Precision precision) {
    const Step step;
    auto graph = trace({{DType::kF32, {8, 6}}}, step);
    run_passes(*graph, mixed(precision));
    return activation_bytes(*graph);
  };
  EXPECT_EQ(bytes(Precision::kF32), 4u * (8 * 6 + 8 * 5 + 8 * 3));  // x, relu's result, result
  EXPECT_EQ(2 * bytes(Precision::kMixedBf16), bytes(Precision::kF32));
}

TEST(HalfStorage, NeedsADtypeForEachResult) {
  const Tensor inputs[] = {zeros({2, 2}), zeros({2, 2})};
  const OpDef& op = ops::row("matmul");
  Attributes attributes{{"transpose_a", false}, {"transpose_b", false}};
  attributes.set(kStorage, std::vector<DType>{DType::kBF16, DType::kF32});
  EXPECT_ERROR(apply(op, inputs, attributes), ErrorCode::kInvalidArgument,
               "must name the dtypes of 1 results, got 2");
}

}  // namespace
}  // namespace isochron::graph
