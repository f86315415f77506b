#include "isochron/backends/cpu/convolution/winograd.h"

#include <gtest/gtest.h>

#include "isochron/core/base/rng.h"
#include "isochron/core/process/threads.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/ops/rows/registry.h"

namespace isochron::ops {
namespace {

WindowAxis axis(int64_t input, int64_t before, int64_t after) {
  return {input, 3, 1, 1, before, after, input + before + after - 2};
}

ConvolutionShape shape_of(int64_t batch, int64_t channels, int64_t outputs, const WindowAxis& height,
                          const WindowAxis& width) {
  ConvolutionShape s;
  s.batch = batch;
  s.channels = channels;
  s.outputs = outputs;
  s.height = height;
  s.width = width;
  return s;
}

/// Whole tiles, odd tiles, images smaller than a tile, uneven padding, channels that fill no vector, many
/// blocks.
std::vector<ConvolutionShape> shapes() {
  return {shape_of(2, 16, 16, axis(8, 1, 1), axis(8, 1, 1)),
          shape_of(3, 8, 40, axis(9, 0, 0), axis(7, 1, 1)),
          shape_of(1, 20, 9, axis(3, 0, 0), axis(3, 2, 1)),
          shape_of(2, 33, 17, axis(6, 2, 2), axis(11, 0, 2)),
          shape_of(40, 16, 24, axis(13, 1, 1), axis(12, 1, 1)),
          shape_of(1, 130, 70, axis(5, 1, 1), axis(6, 1, 1))};
}

std::vector<float> random_numbers(int64_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> result(static_cast<size_t>(count));
  for (float& value : result) value = static_cast<float>(rng.normal());
  return result;
}

struct Result {
  std::vector<float> main, bias;
  friend bool operator==(const Result&, const Result&) = default;
};

class Problem {
 public:
  Problem(const ConvolutionShape& s, ConvolutionPass pass) : s_(s), pass_(pass) {
    const int64_t y = s.batch * s.height.output * s.width.output * s.outputs;
    const int64_t x = s.batch * s.height.input * s.width.input * s.channels;
    const int64_t kernel = 9 * s.channels * s.outputs;
    first_ = random_numbers(pass == ConvolutionPass::kInputGradient ? y : x, 1);
    second_ = random_numbers(pass == ConvolutionPass::kWeightGradient ? y : kernel, 2);
    bias_ = random_numbers(s.outputs, 3);
    elems_ = pass == ConvolutionPass::kForward ? y : pass == ConvolutionPass::kInputGradient ? x : kernel;
  }

  Result winograd(int threads) const {
    const auto kernel = make_winograd(pass_, s_, pass_ != ConvolutionPass::kInputGradient, threads);
    Result result{std::vector<float>(static_cast<size_t>(elems_)),
                  std::vector<float>(static_cast<size_t>(s_.outputs))};
    const Ref<Storage> workspace = allocate_buffer(kernel->workspace_bytes());
    std::byte* in[] = {bytes(first_), bytes(second_), bytes(bias_)};
    std::byte* out[] = {bytes(result.main), bytes(result.bias)};
    const graph::KernelArgs args{in, out, workspace->data()};
    kernel->bind(args);
    kernel->run(args);
    if (pass_ != ConvolutionPass::kWeightGradient) result.bias.clear();
    return result;
  }

  /// By the row's reference, in f64.
  std::vector<std::vector<double>> reference() const {
    static const char* const names[] = {"convolution", "convolution_input_gradient",
                                        "convolution_weight_gradient"};
    const graph::OpDef& op = row(names[static_cast<int>(pass_)]);
    const Dims x{s_.batch, s_.height.input, s_.width.input, s_.channels};
    const Dims y{s_.batch, s_.height.output, s_.width.output, s_.outputs};
    const Dims kernel{3, 3, s_.channels, s_.outputs};
    graph::Attributes attributes{
        {"stride", Dims{1, 1}},
        {"padding", Dims{s_.height.before, s_.height.after, s_.width.before, s_.width.after}},
        {"dilation", Dims{1, 1}},
        {"groups", int64_t{1}}};
    std::vector<TensorSpec> specs;
    std::vector<std::vector<double>> inputs;
    const auto give = [&](const Dims& shape, const std::vector<float>& values) {
      specs.push_back({DType::kF64, Shape(shape)});
      inputs.emplace_back(values.begin(), values.end());
    };
    if (pass_ == ConvolutionPass::kForward) {
      give(x, first_), give(kernel, second_), give({s_.outputs}, bias_);
    } else if (pass_ == ConvolutionPass::kInputGradient) {
      give(y, first_), give(kernel, second_);
      attributes.set("input_shape", x);
    } else {
      give(x, first_), give(y, second_);
      attributes.set("kernel_shape", kernel);
      attributes.set("bias", true);
    }
    const std::vector<TensorSpec> outputs = graph::infer_outputs(op, specs, attributes);
    return op.reference({op, specs, attributes}, outputs, inputs);
  }

 private:
  static std::byte* bytes(const std::vector<float>& values) {
    return reinterpret_cast<std::byte*>(const_cast<float*>(values.data()));
  }
  ConvolutionShape s_;
  ConvolutionPass pass_;
  std::vector<float> first_, second_, bias_;
  int64_t elems_;
};

void expect_close(const std::vector<float>& got, const std::vector<double>& expected) {
  double largest = 0;
  double error = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    error = std::max(error, std::abs(static_cast<double>(got[i]) - expected[i]));
  }
  EXPECT_LE(error, 3e-5 * largest);
}

TEST(Winograd, ComputesTheConvolutionAndItsGradients) {
  for (const ConvolutionShape& s : shapes()) {
    for (const auto pass :
         {ConvolutionPass::kForward, ConvolutionPass::kInputGradient, ConvolutionPass::kWeightGradient}) {
      SCOPED_TRACE(fmt::format("{}x{}x{} {} -> {}, pass {}", s.batch, s.height.input, s.width.input,
                               s.channels, s.outputs, static_cast<int>(pass)));
      const Problem problem(s, pass);
      const std::vector<std::vector<double>> expected = problem.reference();
      for (const int threads : {1, compute_threads()}) {
        const Result result = problem.winograd(threads);
        expect_close(result.main, expected[0]);
        if (!result.bias.empty()) expect_close(result.bias, expected[1]);
        EXPECT_EQ(result, problem.winograd(threads));
      }
    }
  }
}

TEST(Winograd, ForwardAndInputGradientDontDependOnThreads) {
  for (const auto pass : {ConvolutionPass::kForward, ConvolutionPass::kInputGradient}) {
    const Problem problem(shapes()[4], pass);
    EXPECT_EQ(problem.winograd(1), problem.winograd(compute_threads()));
  }
}

TEST(Winograd, LeavesOtherConvolutionsToOthers) {
  const ConvolutionShape good = shapes()[0];
  ConvolutionShape strided = good;
  strided.height.stride = 2;
  ConvolutionShape dilated = good;
  dilated.width.dilation = 2;
  ConvolutionShape wide = good;
  wide.width.window = 5;
  ConvolutionShape grouped = good;
  grouped.groups = 2;
  ConvolutionShape thin = good;
  thin.channels = 3;
  for (const ConvolutionShape& s : {strided, dilated, wide, grouped, thin}) {
    EXPECT_EQ(make_winograd(ConvolutionPass::kForward, s, false, 1), nullptr);
  }
}

}  // namespace
}  // namespace isochron::ops
