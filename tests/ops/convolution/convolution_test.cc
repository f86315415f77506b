#include "isochron/ops/convolution/convolution.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "isochron/autograd/autograd.h"
#include "isochron/backends/common/choices.h"
#include "isochron/core/base/rng.h"
#include "isochron/core/process/threads.h"
#include "isochron/data/formats/npy.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/ops/convolution/pooling.h"
#include "isochron/ops/convolution/window.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron {
namespace {

using graph::Attributes;
using testing::Contains;
using testing::Pair;

struct ConvolutionCase {
  const char* name;
  ConvolutionOptions options;
};

std::vector<ConvolutionCase> golden_cases() {
  const Padding same = Padding::same();
  const Padding valid = Padding::valid();
  return {{"valid", {}},
          {"same", {.padding = same}},
          {"same_even_kernel", {.padding = same}},
          {"valid_stride2", {.stride = {2, 2}, .padding = valid}},
          {"same_stride2", {.stride = {2, 2}, .padding = same}},
          {"valid_dilation2", {.padding = valid, .dilation = {2, 2}}},
          {"same_dilation2", {.padding = same, .dilation = {2, 2}}},
          {"same_groups2", {.padding = same, .groups = 2}},
          {"depthwise_stride2", {.stride = {2, 2}, .padding = same, .groups = 4}},
          {"pointwise", {}},
          {"oblong", {.stride = {3, 1}, .padding = same, .dilation = {1, 2}}},
          {"one_channel", {}}};
}

void expect_golden(DType dtype, double tolerance) {
  const data::NpzFile golden = data::read_npz(ISOCHRON_SOURCE_DIR "/tests/golden/ops_torch.npz");
  for (const ConvolutionCase& c : golden_cases()) {
    SCOPED_TRACE(c.name);
    const auto at = [&](const char* what) {
      return cast(golden.at(fmt::format("conv2d.{}.{}", c.name, what)), dtype);
    };
    const Tensor x = at("x");
    const Tensor kernel = at("kernel");
    const Tensor bias = at("bias");
    GradientTape tape;
    const Tensor y = conv2d(x, kernel, bias, c.options);
    const Tensor targets[] = {y};
    const Tensor sources[] = {x, kernel, bias};
    const Tensor seeds[] = {at("dy")};
    const std::vector<Tensor> gradients = tape.gradient(targets, sources, seeds);
    EXPECT_TRUE(near(y, at("y"), tolerance, tolerance));
    EXPECT_TRUE(near(gradients[0], at("dx"), tolerance, tolerance));
    EXPECT_TRUE(near(gradients[1], at("dkernel"), tolerance, tolerance));
    EXPECT_TRUE(near(gradients[2], at("dbias"), tolerance, tolerance));
  }
}

TEST(Convolution, MatchesPyTorchInF64) { expect_golden(DType::kF64, 1e-12); }
TEST(Convolution, MatchesPyTorchInF32) { expect_golden(DType::kF32, 2e-5); }

Tensor random_tensor(const Shape& shape, DType dtype, uint64_t seed) {
  std::vector<double> values(static_cast<size_t>(shape.elems()));
  Rng rng(seed);
  for (double& value : values) value = rng.uniform() * 2 - 1;
  return from_vector(shape, values, dtype);
}

/// A convolution large enough for the library, in all three passes.
struct Call {
  const char* op;
  std::vector<Shape> inputs;
  Attributes attributes;
};

std::vector<Call> large_calls(const Shape& x, const Shape& kernel, const Shape& y, const Dims& padding,
                              const Dims& stride, int64_t groups) {
  const Attributes window{{"stride", stride},
                          {"padding", padding},
                          {"dilation", ops::ones_if_empty({}, stride.rank())},
                          {"groups", groups}};
  Attributes input = window;
  input.set("input_shape", static_cast<Dims>(x));
  Attributes weight = window;
  weight.set("kernel_shape", static_cast<Dims>(kernel));
  weight.set("bias", true);
  return {{"convolution", {x, kernel, {kernel.back()}}, window},
          {"convolution_input_gradient", {y, kernel}, input},
          {"convolution_weight_gradient", {x, y}, weight}};
}

std::vector<Call> all_large_calls() {
  std::vector<Call> calls =
      large_calls({4, 12, 11, 1}, {3, 3, 1, 32}, {4, 10, 9, 32}, {0, 0, 0, 0}, {1, 1}, 1);
  for (const auto& more :
       {large_calls({3, 13, 12, 32}, {3, 3, 32, 24}, {3, 13, 12, 24}, {1, 1, 1, 1}, {1, 1}, 1),
        large_calls({2, 14, 15, 19}, {3, 3, 19, 21}, {2, 7, 8, 21}, {0, 1, 1, 1}, {2, 2}, 1),
        large_calls({4, 16, 16, 32}, {3, 3, 1, 32}, {4, 16, 16, 32}, {1, 1, 1, 1}, {1, 1}, 32),
        large_calls({2, 60, 24}, {5, 24, 32}, {2, 30, 32}, {2, 1}, {2}, 1),
        large_calls({4, 200, 19}, {3, 1, 38}, {4, 200, 38}, {1, 1}, {1}, 19),
        large_calls({1, 6, 9, 8, 17}, {3, 3, 3, 17, 32}, {1, 6, 9, 8, 32}, {1, 1, 1, 1, 1, 1}, {1, 1, 1}, 1),
        large_calls({2, 6, 9, 8, 6}, {3, 2, 3, 3, 10}, {2, 3, 4, 8, 10}, {0, 1, 0, 0, 1, 1}, {2, 2, 1}, 2),
        large_calls({1, 9, 8, 8, 20}, {3, 3, 3, 1, 20}, {1, 9, 8, 8, 20}, {1, 1, 1, 1, 1, 1}, {1, 1, 1},
                    20)}) {
    calls.insert(calls.end(), more.begin(), more.end());
  }
  return calls;
}

std::vector<Tensor> run(const Call& call, DType dtype, int threads) {
  const graph::OpDef& op = ops::row(call.op);
  std::vector<Tensor> inputs;
  std::vector<TensorSpec> specs;
  std::vector<std::byte*> addresses;
  for (const Shape& shape : call.inputs) {
    inputs.push_back(random_tensor(shape, dtype, 10 + inputs.size()));
    specs.push_back(inputs.back().spec());
    addresses.push_back(inputs.back().raw());
  }
  const std::vector<TensorSpec> outputs = graph::infer_outputs(op, specs, call.attributes);
  const std::unique_ptr<graph::Kernel> kernel =
      graph::prepare_kernel({op, specs, outputs, call.attributes, threads});
  std::vector<Tensor> results;
  std::vector<std::byte*> result_addresses;
  for (const TensorSpec& spec : outputs) {
    results.push_back(full(spec.shape, NAN, spec.dtype));
    result_addresses.push_back(results.back().raw());
  }
  const Ref<Storage> workspace = allocate_buffer(std::max<size_t>(kernel->workspace_bytes(), 1));
  const graph::KernelArgs args{addresses.data(), result_addresses.data(), workspace->data()};
  kernel->bind(args);
  kernel->run(args);
  return results;
}

TEST(Convolution, EveryLibraryWayAgreesWithThePlainLoops) {
  for (const Call& call : all_large_calls()) {
    const std::vector<Tensor> expected = run(call, DType::kF64, 1);
    const std::map<std::string, std::string> before = ops::recorded_choices();
    run(call, DType::kF32, 1);
    for (const auto& [key, chosen] : ops::recorded_choices()) {
      if (before.contains(key)) continue;
      for (const char* way : {"nhwc", "blocked", "own_winograd", "onednn_winograd", "depthwise"}) {
        SCOPED_TRACE(key + " " + way);
        ops::restore_choices({{key, way}});
        const std::vector<Tensor> results = run(call, DType::kF32, 1);
        for (size_t i = 0; i < results.size(); ++i) EXPECT_TRUE(near(results[i], expected[i], 1e-5, 3e-4));
      }
    }
    const std::vector<Tensor> threaded = run(call, DType::kF32, compute_threads());
    for (size_t i = 0; i < threaded.size(); ++i) EXPECT_TRUE(near(threaded[i], expected[i], 1e-5, 3e-4));
  }
}

TEST(Convolution, ThreadsDoNotChangeOurOwnSums) {
  for (const Call& call : all_large_calls()) {
    const std::vector<Tensor> alone = run(call, DType::kF64, 1);
    const std::vector<Tensor> threaded = run(call, DType::kF64, compute_threads());
    for (size_t i = 0; i < alone.size(); ++i) EXPECT_EQ(alone[i].to_vector(), threaded[i].to_vector());
  }
}

TEST(Convolution, TimesACallOnceAndRecordsTheChoice) {
  const Call call = large_calls({2, 9, 9, 16}, {3, 3, 16, 48}, {2, 7, 7, 48}, {0, 0, 0, 0}, {1, 1}, 1)[0];
  const size_t before = ops::recorded_choices().size();
  const std::vector<Tensor> first = run(call, DType::kF32, 1);
  EXPECT_EQ(ops::recorded_choices().size(), before + 1);
  const std::vector<Tensor> second = run(call, DType::kF32, 1);
  EXPECT_EQ(ops::recorded_choices().size(), before + 1);
  EXPECT_EQ(first[0].to_vector(), second[0].to_vector());
}

TEST(Convolution, DeterministicChoosesByRuleAndRecordsNothing) {
  const Call call = large_calls({2, 8, 9, 16}, {3, 3, 16, 48}, {2, 6, 7, 48}, {0, 0, 0, 0}, {1, 1}, 1)[0];
  const std::map<std::string, std::string> before = ops::recorded_choices();
  std::vector<Tensor> first;
  {
    const ops::Deterministic by_rule;
    first = run(call, DType::kF32, 1);
  }
  EXPECT_EQ(ops::recorded_choices(), before);
  EXPECT_TRUE(near(first[0], run(call, DType::kF64, 1)[0], 1e-5, 1e-4));
}

TEST(Convolution, CapturedTrainStepKeepsToItsMemory) {
  const auto loss_and_gradients = [](const Tensor& x, const Tensor& k1, const Tensor& b1, const Tensor& k2) {
    const Tensor h = relu(conv2d(x, k1, b1));
    const Tensor y = max_pool2d(relu(conv2d(h, k2)), {2, 2});
    const Tensor loss = sum(square(y));
    const Tensor targets[] = {loss};
    const Tensor sources[] = {k1, b1, k2};
    std::vector<Tensor> results = gradients(targets, sources);
    results.push_back(loss);
    return results;
  };
  CaptureOptions options;
  options.plan.poison = true;
  auto step = capture(loss_and_gradients, options);
  const auto arguments = [](DType dtype) {
    return std::array{random_tensor({8, 12, 12, 1}, dtype, 1), random_tensor({3, 3, 1, 32}, dtype, 2),
                      random_tensor({32}, dtype, 3), random_tensor({3, 3, 32, 32}, dtype, 4)};
  };
  const auto run_step = [&](DType dtype) {
    const auto a = arguments(dtype);
    std::vector<Tensor> results;
    for (const Tensor& result : step(a[0], a[1], a[2], a[3]))
      results.push_back(graph::copy(cast(result, DType::kF64)));
    return results;
  };
  const std::vector<Tensor> expected = run_step(DType::kF64);
  const std::vector<Tensor> results = run_step(DType::kF32);
  for (size_t i = 0; i < results.size(); ++i) {
    double largest = 0;
    for (const double value : expected[i].to_vector()) largest = std::max(largest, std::abs(value));
    EXPECT_TRUE(near(results[i], expected[i], 1e-4, 1e-5 * largest)) << i;
  }
}

TEST(Convolution, RejectsAKernelForOtherChannels) {
  EXPECT_ERROR(conv2d(zeros({1, 5, 5, 3}), zeros({3, 3, 4, 2})), ErrorCode::kShapeMismatch,
               "the kernel (3, 3, 4, 2) takes 4 channels, the image (1, 5, 5, 3) has 3");
}

TEST(Convolution, CausalOutputsSeeNothingLater) {
  const Tensor kernel = from_vector({2, 1, 1}, {1, 10});
  const ConvolutionOptions causal{.padding = Padding::causal()};
  EXPECT_EQ(conv1d(from_vector({1, 4, 1}, {1, 2, 3, 4}), kernel, causal).to_vector(),
            (std::vector<double>{10, 21, 32, 43}));
  EXPECT_ERROR(conv2d(zeros({1, 4, 4, 1}), zeros({2, 2, 1, 1}), {.padding = Padding::causal()}),
               ErrorCode::kInvalidArgument, "along one axis");
}

TEST(Convolution, RejectsOtherNumbersOfAxes) {
  EXPECT_ERROR(conv1d(zeros({1, 4, 4, 1}), zeros({2, 2, 1, 1})), ErrorCode::kShapeMismatch,
               "[conv1d] images are (N, W, C), got (1, 4, 4, 1)");
  EXPECT_ERROR(conv3d(zeros({1, 4, 4, 4, 1}), zeros({2, 2, 1, 1})), ErrorCode::kShapeMismatch, "has 5 axes");
  EXPECT_ERROR(conv1d(zeros({1, 4, 1}), zeros({2, 1, 1}), {.stride = {1, 1}}), ErrorCode::kInvalidArgument,
               "one per spatial axis");
}

TEST(ConvolutionTranspose, SamePaddingMultipliesTheExtents) {
  // As Keras: the gradient of a `same` convolution of the larger image.
  const Tensor x = random_tensor({2, 3, 4, 2}, DType::kF64, 1);
  const Tensor kernel = random_tensor({3, 2, 5, 2}, DType::kF64, 2);
  const Tensor y = conv2d_transpose(x, kernel, {.stride = {2, 3}, .padding = Padding::same()});
  ASSERT_EQ(y.shape(), (Shape{2, 6, 12, 5}));
  const Tensor z = random_tensor({2, 6, 12, 5}, DType::kF64, 3);
  GradientTape tape;
  const Tensor forward = conv2d(z, kernel, {.stride = {2, 3}, .padding = Padding::same()});
  EXPECT_TRUE(near(y, tape.gradient({&forward, 1}, {&z, 1}, {&x, 1})[0], 1e-12, 1e-12));
  const Tensor odd =
      conv2d_transpose(x, kernel, {.stride = {2, 3}, .padding = Padding::same(), .output_size = {5, 10}});
  EXPECT_EQ(odd.shape(), (Shape{2, 5, 10, 5}));
}

TEST(ConvolutionTranspose, RejectsWrongSizes) {
  const Tensor x = zeros({1, 4, 4, 2});
  const Tensor kernel = zeros({3, 3, 5, 2});
  EXPECT_ERROR(conv2d_transpose(x, kernel, {.stride = {2, 2}, .output_padding = {2, 0}}),
               ErrorCode::kInvalidArgument, "smaller than the stride");
  EXPECT_ERROR(conv2d_transpose(x, kernel, {.stride = {2, 2}, .output_size = {12, 12}}),
               ErrorCode::kShapeMismatch, "no convolution of (1, 12, 12, 5)");
  EXPECT_ERROR(conv2d_transpose(x, kernel, {.output_padding = {0, 0}, .output_size = {6, 6}}),
               ErrorCode::kInvalidArgument, "give output_size alone");
  EXPECT_ERROR(conv2d_transpose(x, kernel, {.padding = Padding::explicitly(4, 4, 4, 4)}),
               ErrorCode::kShapeMismatch, "fix the padding");
  EXPECT_ERROR(conv1d_transpose(zeros({1, 4, 2}), zeros({3, 5, 2}), {.padding = Padding::causal()}),
               ErrorCode::kInvalidArgument, "no causal padding");
  EXPECT_ERROR(conv2d_transpose(x, kernel, zeros({2})), ErrorCode::kShapeMismatch, "the bias must be (5)");
  EXPECT_ERROR(conv2d_transpose(x, zeros({3, 3, 5, 3})), ErrorCode::kShapeMismatch, "takes 3 channels");
  EXPECT_ERROR(conv2d_transpose(x, kernel, {.stride = {0, 9}}), ErrorCode::kInvalidArgument, "of at least 1");
}

TEST(Convolution, RejectsAWindowLargerThanTheImage) {
  EXPECT_ERROR(conv2d(zeros({1, 2, 5, 3}), zeros({3, 3, 3, 2})), ErrorCode::kShapeMismatch,
               "Padding::same()");
}

}  // namespace
}  // namespace isochron
