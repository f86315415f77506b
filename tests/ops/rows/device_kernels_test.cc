// Rows' kernels for a device, on a simulated one, against the CPU's.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "isochron/autograd/autograd.h"
#include "isochron/backends/common/choices.h"
#include "isochron/backends/device_checks.h"
#include "isochron/core/base/rng.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/graph/capture/variable.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/attention/attention.h"
#include "isochron/ops/convolution/convolution.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/normalization/normalization.h"
#include "isochron/ops/recurrent/recurrent.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/slicing.h"
#include "support/expect_error.h"
#include "support/simulated/results_on.h"
#include "support/simulated/simulated_gpu.h"

namespace isochron {
namespace {

/// All calls in f32 of what is written for devices by hand, and the first and last in other dtypes; of what
/// is generated from element programs, which DeviceElements compares op by op, one call each.
bool selected(const graph::OpDef& op, DType dtype, size_t sample) {
  const bool generated = op.fusion == graph::FusionClass::kElementwise ||
                         op.fusion == graph::FusionClass::kReduction || op.name == "broadcast_to";
  // In 16 bits what multiplies, whose kernels there are written for it.
  const bool multiplies = op.precision.rule == graph::PrecisionRule::kLow && dtype == DType::kBF16;
  if (!generated) return dtype == DType::kF32 || multiplies || sample == 0 || sample + 1 == op.samples.size();
  const bool usual = dtype == DType::kF32 || (!op.dtypes.empty() && op.dtypes.front() == dtype);
  return usual && sample == 0;
}

TEST(DeviceKernels, AgreeWithTheCpu) {
  const SimulatedGpu simulated({}, true);
  int calls = 0;
  for (const ops::DeviceCheck& check : ops::check_device(simulated.gpu, ops::registry(), selected)) {
    calls += check.calls;
    for (const std::string& finding : check.findings) ADD_FAILURE() << check.op << ": " << finding;
  }
  EXPECT_GT(calls, 200);
}

TEST(DeviceKernels, TextsAreCompiledForEveryCapability) {
  std::set<std::pair<int, int>> any, with_tensor_cores;
  for (int text = 0; text < 100; ++text) {
    any.insert(capability_for(fmt::format("text {}", text)));
    with_tensor_cores.insert(capability_for(fmt::format("mma.sync {}", text)));
  }
  EXPECT_EQ(any.size(), 5u);
  EXPECT_TRUE(any.contains({7, 5}));
  any.erase({7, 5});
  EXPECT_EQ(with_tensor_cores, any);
}

TEST(DeviceKernels, RowsLeaveOutWhatNobodyReads) {
  const SimulatedGpu simulated;
  // The gradients of gamma and beta alone, on a device and here.
  const auto gradients_on = [](Device device, const Tensor& x) {
    const int64_t columns = x.extent(1);
    const Variable gamma(ones({columns}), "gamma"), beta(zeros({columns}), "beta");
    for (const Variable* variable : {&gamma, &beta}) variable->move_to(device);
    CaptureOptions options;
    options.plan.device = device;
    auto step = capture(
        [&](const Tensor& rows) {
          const Tensor sources[] = {gamma, beta};
          return gradients(sum(square(layer_norm(rows, gamma, beta) + 1.0)), sources);
        },
        options);
    std::vector<double> all;
    for (const Tensor& of : step(x)) {
      for (const double number : of.to_vector()) all.push_back(number);
    }
    return all;
  };
  for (const int64_t columns : {64, 4096}) {  // with the sums of the columns in shared memory, and without
    std::vector<double> numbers(static_cast<size_t>(6 * columns));
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<double>(i * i));
    const Tensor x = from_vector({6, columns}, numbers);
    const std::vector<double> there = gradients_on(SimulatedGpu::kDevice, x), here = gradients_on({}, x);
    ASSERT_EQ(there.size(), static_cast<size_t>(2 * columns));
    for (size_t i = 0; i < here.size(); ++i) ASSERT_NEAR(there[i], here[i], 1e-3) << columns << " " << i;
  }
}

TEST(DeviceKernels, RecurrentLayersNeverReadPadding) {
  const SimulatedGpu simulated;
  const auto gradients_on = [](Device device, double padding) {
    const auto numbers = [](const Shape& shape) {
      std::vector<double> values(static_cast<size_t>(shape.elems()));
      for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i * i + 1));
      return values;
    };
    std::vector<double> x = numbers({2, 3, 2});
    x[4] = padding;  // the first row's last step
    const Tensor lengths = from_vector({2}, {2, 3}, DType::kI64);
    const Variable kernel(from_vector({2, 8}, numbers({2, 8})), "kernel"),
        recurrent(from_vector({2, 8}, numbers({2, 8})), "recurrent");
    for (const Variable* variable : {&kernel, &recurrent}) variable->move_to(device);
    CaptureOptions options;
    options.plan.device = device;
    auto step = capture(
        [&](const Tensor& in, const Tensor& n) {
          const LstmResult result = lstm(in, kernel, recurrent, {}, {}, {.lengths = n});
          const Tensor sources[] = {in, kernel, recurrent};
          return gradients(sum(square(result.sequence)), sources);
        },
        options);
    std::vector<double> all;
    for (const Tensor& of : step(from_vector({2, 3, 2}, x), lengths)) {
      for (const double number : of.to_vector()) all.push_back(number);
    }
    return all;
  };
  const std::vector<double> got = gradients_on(SimulatedGpu::kDevice, std::nan("")),
                            clean = gradients_on(SimulatedGpu::kDevice, 0), here = gradients_on({}, 0);
  EXPECT_EQ(got, clean);
  for (size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(got[i], here[i], 1e-5) << i;
}

TEST(DeviceKernels, NeedNoLibrary) {
  const SimulatedGpu simulated({}, true, false);
  const auto checks =
      ops::check_device(simulated.gpu, ops::registry(), [](const graph::OpDef& op, DType dtype, size_t) {
        if (dtype == DType::kF32 || dtype == DType::kBF16) return false;  // AgreeWithTheCpu has these
        return op.name == "matmul" || op.name.starts_with("convolution") || op.name.starts_with("attention");
      });
  for (const ops::DeviceCheck& check : checks) EXPECT_THAT(check.findings, testing::IsEmpty()) << check.op;
  EXPECT_EQ(simulated.products.specs.size() + simulated.convolutions.specs.size() +
                simulated.attention.specs.size(),
            0u);
}

TEST(DeviceKernels, ProductsOfWholeBatchesAreOneCallOfTheLibrary) {
  SimulatedGpu simulated;
  CaptureOptions options;
  options.plan.device = SimulatedGpu::kDevice;
  const auto spec_of = [&](const Shape& a, const Shape& b, bool transpose_a, bool transpose_b) {
    simulated.products.specs.clear();
    auto product = capture(
        [&](const Tensor& x, const Tensor& y) { return matmul(x, y, transpose_a, transpose_b); }, options);
    product(ones(a), ones(b));
    return simulated.products.specs;
  };
  // Rows are the library's columns, so b comes first.
  auto specs = spec_of({2, 3, 4, 5}, {2, 3, 5, 6}, false, false);
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_THAT(std::vector<int64_t>({specs[0].m, specs[0].n, specs[0].k, specs[0].count}),
              testing::ElementsAre(6, 4, 5, 6));
  EXPECT_THAT(std::vector<int64_t>({specs[0].a_lead, specs[0].b_lead, specs[0].c_lead}),
              testing::ElementsAre(6, 5, 6));
  EXPECT_THAT(std::vector<int64_t>({specs[0].a_step, specs[0].b_step, specs[0].c_step}),
              testing::ElementsAre(30, 20, 24));
  specs = spec_of({7, 4, 5}, {6, 5}, false, true);  // one product of 28 rows
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_TRUE(specs[0].transpose_a);
  EXPECT_FALSE(specs[0].transpose_b);
  EXPECT_THAT(std::vector<int64_t>({specs[0].m, specs[0].n, specs[0].count, specs[0].a_lead}),
              testing::ElementsAre(6, 28, 1, 5));
  EXPECT_EQ(spec_of({2, 1, 4, 5}, {1, 3, 5, 6}, false, false).size(), 0u)
      << "no one stride leads through them";
  EXPECT_EQ(spec_of({4, 0}, {0, 6}, false, false).size(), 0u);
}

/// Its one product, and what it made on the device against what it makes here.
template <typename F>
cuda::ProductSpec only_product(SimulatedGpu& simulated, F function, const std::vector<Tensor>& arguments,
                               Precision precision = Precision::kF32) {
  simulated.products.specs.clear();
  CaptureOptions options;
  options.passes.precision = precision;
  const auto call = [&](const CaptureOptions& with) {
    CapturedFunction captured([&](std::span<const Tensor> in) { return std::vector<Tensor>{function(in)}; },
                              with);
    std::vector<const Tensor*> pointers;
    for (const Tensor& argument : arguments) pointers.push_back(&argument);
    return captured.call(pointers)[0].to_vector();
  };
  const std::vector<double> here = call(options);
  options.plan.device = SimulatedGpu::kDevice;
  EXPECT_THAT(call(options), testing::Pointwise(testing::DoubleNear(1e-5), here));
  EXPECT_EQ(simulated.products.specs.size(), 1u);
  return simulated.products.specs.empty() ? cuda::ProductSpec{} : simulated.products.specs.back();
}

TEST(DeviceKernels, TheLibraryAddsAndTakesTheLargerOf0) {
  using Arguments = std::span<const Tensor>;
  SimulatedGpu simulated;
  const Tensor a = from_vector({3, 2}, {1, -2, 3, -4, 5, -6});
  const Tensor b = from_vector({2, 4}, {1, 2, -3, 4, -5, 6, 7, -8});
  const Tensor bias = from_vector({4}, {0.5, -1, 2, 100});
  const Tensor matrix = matmul(a, b * 0.5);
  cuda::ProductSpec spec =
      only_product(simulated, [](Arguments in) { return relu(matmul(in[0], in[1]) + in[2]); }, {a, b, bias});
  EXPECT_TRUE(spec.add_bias && spec.relu && !spec.add_matrix);
  spec = only_product(simulated, [](Arguments in) { return in[2] + matmul(in[0], in[1]); }, {a, b, matrix});
  EXPECT_TRUE(!spec.add_bias && !spec.relu && spec.add_matrix);
  spec = only_product(simulated, [](Arguments in) { return relu(in[2] + matmul(in[0], in[1]) + in[3]); },
                      {a, b, bias, matrix});
  EXPECT_TRUE(spec.add_bias && spec.relu && spec.add_matrix);
}

TEST(DeviceKernels, AWayThatLosesNanIsLeftOut) {
  SimulatedGpu simulated;
  const auto layer = [&](int64_t rows) {
    CaptureOptions options;
    options.plan.device = SimulatedGpu::kDevice;
    auto relu_of = capture([](const Tensor& x, const Tensor& y) { return relu(matmul(x, y)); }, options);
    const std::vector<double> result = relu_of(full({rows, 3}, std::nan("")), ones({3, 2})).to_vector();
    EXPECT_THAT(result, testing::Each(testing::IsNan())) << rows;
    return simulated.products.specs;
  };
  EXPECT_TRUE(layer(2).back().relu);
  simulated.products.losing_nan = {0};
  EXPECT_TRUE(layer(3).back().relu) << "the other one";
  simulated.products.losing_nan = {0, 512};
  EXPECT_FALSE(layer(4).back().relu) << "two kernels";
}

TEST(DeviceKernels, WhatIsAddedUpIsAddedWhereItLies) {
  SimulatedGpu simulated;
  CaptureOptions options;
  options.plan.device = SimulatedGpu::kDevice;
  Variable sums(zeros({64, 64}), "sums");
  sums.move_to(SimulatedGpu::kDevice);
  auto step = capture(
      [&](const Tensor& x) {
        sums.assign(sums.tensor() + matmul(x, x));
        return sum(x);
      },
      options);
  const Tensor x = ones({64, 64});
  for (int i = 0; i < 3; ++i) step(x);
  EXPECT_THAT(sums.tensor().to_vector(), testing::Each(3 * 64));
  EXPECT_TRUE(simulated.products.specs.back().add_matrix);
  EXPECT_LT(step.plan_report().arena_bytes, 64 * 64 * sizeof(float)) << "no room for another";
}

TEST(DeviceKernels, WaysThatFailAreLeftOut) {
  SimulatedGpu simulated;
  simulated.products.failing = {0};
  CaptureOptions options;
  options.plan.device = SimulatedGpu::kDevice;
  const auto square = [](const Tensor& x) { return matmul(x, x); };
  EXPECT_EQ(capture(square, options)(ones({7, 7})).to_vector(), std::vector<double>(49, 7))
      << "the other one";
  simulated.products.failing = {0, 512};
  EXPECT_EQ(capture(square, options)(ones({6, 6})).to_vector(), std::vector<double>(36, 6))
      << "a kernel of its own";
  simulated.convolutions.none_for_batch = 3;
  const auto convolve = [](const Tensor& x, const Tensor& kernel) { return conv2d(x, kernel); };
  EXPECT_EQ(capture(convolve, options)(ones({3, 2, 2, 1}), ones({1, 1, 1, 2})).to_vector(),
            std::vector<double>(24, 1));
}

TEST(DeviceKernels, WorkspaceIsThatOfTheWayThatWasChosen) {
  SimulatedGpu simulated;
  simulated.products.failing = {512};
  CaptureOptions options;
  options.plan.device = SimulatedGpu::kDevice;
  auto square = capture([](const Tensor& x) { return matmul(x, x); }, options);
  square(ones({7, 7}));
  for (const graph::PlannedBuffer& buffer : square.plan_report().buffers) {
    EXPECT_NE(buffer.kind, graph::BufferKind::kWorkspace)
        << buffer.size_bytes << " bytes of " << buffer.owner;
  }
}

TEST(DeviceKernels, AttentionIn16BitsIsACallOfTheLibrary) {
  SimulatedGpu simulated;
  CaptureOptions options;
  options.plan.device = SimulatedGpu::kDevice;
  const auto asked = [&](Precision precision, const Shape& packed, bool causal, bool masked = false) {
    simulated.attention.specs.clear();
    options.passes.precision = precision;
    capture(
        [&](const Tensor& x, const Tensor& w) {
          AttentionOptions of{.causal = causal};
          const Tensor of_keys = sum(x, {2, 3});
          if (masked) of.key_mask = equal(of_keys, of_keys);
          GradientTape tape;
          tape.watch(w);
          return tape.gradient(sum(square(packed_attention(matmul(x, w), 2, 1, of))), w);
        },
        options)(ones(packed), ones({packed[3], packed[3]}));
    return simulated.attention.specs;
  };
  const auto specs = asked(Precision::kMixedBf16, {3, 5, 4, 8}, true);
  ASSERT_EQ(specs.size(), 2u);
  using Pass = cuda::AttentionSpec::Pass;
  EXPECT_EQ(specs[0].pass, Pass::kForward);
  EXPECT_EQ(specs[1].pass, Pass::kGradient);
  EXPECT_THAT(std::vector<int64_t>({specs[1].batch, specs[1].queries, specs[1].keys, specs[1].heads,
                                    specs[1].key_heads, specs[1].width}),
              testing::ElementsAre(3, 5, 5, 2, 1, 8));
  EXPECT_THAT(std::vector<int64_t>({specs[1].query_step, specs[1].key_step}), testing::Each(4 * 8));
  EXPECT_EQ(specs[0].dtype, DType::kBF16);
  EXPECT_TRUE(specs[0].causal);
  EXPECT_EQ(asked(Precision::kF32, {3, 5, 4, 8}, false).size(), 0u) << "scores and factors stay f32";
  EXPECT_EQ(asked(Precision::kMixedBf16, {3, 5, 4, 6}, false).size(), 0u) << "heads of 12 bytes";
  EXPECT_EQ(asked(Precision::kMixedBf16, {3, 5, 4, 8}, true, true).size(), 0u) << "masked keys";
}

TEST(DeviceKernels, AttentionThatTheLibraryTakesInPartsIsTheSame) {
  const auto checked = [](int64_t most_samples) {
    SimulatedGpu simulated({}, true);
    simulated.attention.most_samples = most_samples;
    const auto findings =
        ops::check_device(simulated.gpu, ops::registry(), [](const graph::OpDef& op, DType dtype, size_t) {
          return op.name.starts_with("attention") && dtype == DType::kBF16;
        });
    for (const ops::DeviceCheck& check : findings)
      EXPECT_THAT(check.findings, testing::IsEmpty()) << check.op << " by parts of " << most_samples;
    return std::ranges::count(simulated.attention.specs, 1, &cuda::AttentionSpec::batch);
  };
  const auto whole = checked(2);
  EXPECT_GT(checked(1), whole) << "samples in two, one after the other";
}

TEST(DeviceKernels, ASumByManyBlocksIsTheSameAgain) {
  const SimulatedGpu simulated;
  CaptureOptions options;
  options.plan.device = SimulatedGpu::kDevice;
  auto total = capture([](const Tensor& x) { return sum(x); }, options);
  for (const int64_t number : {1, 2, 3})
    EXPECT_EQ(total(ones({40'000}) * number).to_vector(), std::vector<double>{40'000.0 * number});
}

TEST(DeviceKernels, MomentsOfManyBlocksKeepSmallDeviationsFromALargeMean) {
  const SimulatedGpu simulated;
  CaptureOptions options;
  options.plan.device = SimulatedGpu::kDevice;
  Rng rng(4);
  std::vector<double> numbers(3'000 * 3);
  for (double& number : numbers) number = 1'000 + rng.uniform();
  const Tensor x = from_vector({30, 100, 3}, numbers);
  auto moments = capture(
      [](const Tensor& in) {
        const Moments of = channel_moments(in);
        return concatenate(std::vector{of.mean, of.variance}, 0);
      },
      options);
  const std::vector<double> want = concatenate(std::vector{channel_moments(cast(x, DType::kF64)).mean,
                                                           channel_moments(cast(x, DType::kF64)).variance},
                                               0)
                                       .to_vector();
  for (int time = 0; time < 2; ++time) {
    const std::vector<double> got = moments(x).to_vector();
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], i < 3 ? 1e-3 : 1e-5) << i;
  }
}

/// Of all samples of the recurrent rows that some dtypes have.
void expect_recurrent_layers_agree(const SimulatedGpu& simulated) {
  const auto checks =
      ops::check_device(simulated.gpu, ops::registry(), [](const graph::OpDef& op, DType dtype, size_t) {
        const bool recurrent = op.name.starts_with("lstm") || op.name.starts_with("gru");
        return recurrent && (dtype == DType::kF32 || dtype == DType::kBF16);
      });
  for (const ops::DeviceCheck& check : checks) EXPECT_THAT(check.findings, testing::IsEmpty()) << check.op;
}

TEST(DeviceKernels, RecurrentLayersGoStepByStepWhereTheirKernelIsTooLargeForABlock) {
  cuda::SimulatedDevice device;
  device.properties.shared_bytes_per_block = 256;
  expect_recurrent_layers_agree(SimulatedGpu(device, true));
}

TEST(DeviceKernels, ABlockTakesSomeRowsOfARecurrentLayer) {
  cuda::SimulatedDevice device;
  device.properties.multiprocessors = 1;
  expect_recurrent_layers_agree(SimulatedGpu(device, true));
}

TEST(DeviceKernels, ARecurrentLayerIsAProductAndALaunchWhereItsKernelFitsInABlock) {
  const auto products_of = [](int64_t units) {
    SimulatedGpu simulated;
    CaptureOptions options;
    options.plan.device = SimulatedGpu::kDevice;
    capture([](const Tensor& x, const Tensor& kernel, const Tensor& recurrent_kernel,
               const Tensor& bias) { return lstm(x, kernel, recurrent_kernel, bias).sequence; },
            options)(ones({2, 5, 3}), ones({3, 4 * units}), ones({units, 4 * units}), ones({4 * units}));
    return simulated.products.specs.size();
  };
  EXPECT_EQ(products_of(4), 1u) << "the input's";
  EXPECT_EQ(products_of(60), 2u) << "and a step's";
}

TEST(DeviceKernels, AGradientOfWeightsWithUnevenPaddingIsOfPaddedImages) {
  SimulatedGpu simulated;
  const auto gradient_of = [](const Tensor& x, const Tensor& kernel) {
    GradientTape tape;
    tape.watch(kernel);
    return tape.gradient(sum(square(conv2d(x, kernel, {.stride = {2, 2}, .padding = Padding::same()}))),
                         kernel);
  };
  Rng rng(1);
  std::vector<double> numbers(2 * 6 * 6 * 2);
  for (double& number : numbers) number = rng.uniform();
  const Tensor x = from_vector({2, 6, 6, 2}, numbers), kernel = ones({3, 3, 2, 3});
  CaptureOptions options;
  options.plan.device = SimulatedGpu::kDevice;
  EXPECT_THAT(capture(gradient_of, options)(x, kernel).to_vector(),
              testing::Pointwise(testing::DoubleNear(1e-3), gradient_of(x, kernel).to_vector()));
  const cuda::ConvolutionSpec& spec = simulated.convolutions.specs.back();
  EXPECT_EQ(spec.pass, cuda::ConvolutionSpec::Pass::kWeightGradient);
  EXPECT_EQ(spec.axis[0], (cuda::ConvolutionSpec::Axis{.input = 7, .window = 3, .stride = 2, .output = 3}));
}

TEST(DeviceKernels, AttentionOverSeveralTiles) {
  using Arguments = std::span<const Tensor>;
  struct Case {
    int64_t queries, keys, width;
    bool causal, masked;
  };
  for (const Case& of : {Case{70, 37, 34, true, false}, Case{37, 70, 5, true, true},
                         Case{40, 65, 32, false, true}, Case{64, 64, 32, true, false}}) {
    const auto gradients = [&](Arguments in) {
      AttentionOptions options{.causal = of.causal};
      if (of.masked) options.key_mask = sum(in[1], {2, 3}) > 0.0;
      GradientTape tape;
      for (const Tensor& tensor : in) tape.watch(tensor);
      const Tensor y = attention(in[0], in[1], in[2], options);
      std::vector<Tensor> results = tape.gradient(sum(square(y)), std::vector{in[0], in[1], in[2]});
      results.push_back(y);
      return results;
    };
    const std::vector<Tensor> heads = {waves({2, of.queries, 4, of.width}, 1.7),
                                       waves({2, of.keys, 2, of.width}, 2.3),
                                       waves({2, of.keys, 2, of.width}, 0.9)};
    const auto expected = results_of(gradients, heads);
    for (const int multiprocessors : {1, 132}) {  // many tiles for it, and few
      const auto results = results_of(gradients, heads, multiprocessors);
      for (size_t i = 0; i < results.size(); ++i) {
        EXPECT_THAT(results[i], testing::Pointwise(testing::DoubleNear(2e-5), expected[i]))
            << "result " << i << " of " << of.queries << " queries on " << multiprocessors;
      }
    }
  }
}

TEST(DeviceKernels, ScatterAddSumsInTheOrderOfItsIndices) {
  using Arguments = std::span<const Tensor>;
  struct Case {
    Shape updates;
    int64_t axis, extent;
    DType dtype;
    int64_t distinct;  // indices
  };
  for (const Case& of : {Case{{5000, 3}, 0, 7, DType::kI64, 7},       // more than a block lists at a time
                         Case{{5000, 130}, 0, 7, DType::kI32, 1},     // all point to one row
                         Case{{3000}, 0, 900, DType::kI64, 900},      // rows of one element
                         Case{{2, 1030, 300}, 1, 3, DType::kI32, 3},  // rows of more elements than threads
                         Case{{70, 5, 2}, 1, 4, DType::kI64, 4},      // many small tables
                         Case{{9, 64}, 0, 3000, DType::kI64, 9},      // most rows stay 0
                         Case{{0, 64}, 0, 30, DType::kI64, 1}}) {
    const int64_t count = of.updates[static_cast<int>(of.axis)];
    std::vector<double> positions;
    for (int64_t i = 0; i < count; ++i)
      positions.push_back(static_cast<double>(of.extent - 1 - i * i * 31 % of.distinct));
    const Tensor indices = from_vector({count}, positions, of.dtype), updates = waves(of.updates, 1.3);
    const auto sums = [&](Arguments in) {
      return std::vector<Tensor>{scatter_add(in[0], in[1], of.extent, of.axis)};
    };
    // As f32 they are added up one after the other.
    const int64_t inner =
        updates.elems() == 0 ? 1 : of.updates.elems() / of.updates[0] / (of.axis ? count : 1);
    const int64_t outer = of.axis ? of.updates[0] : 1;
    const std::vector<double> all = updates.to_vector();
    std::vector<float> expected(results_of(sums, {updates, indices})[0].size());
    for (int64_t o = 0; o < outer && !all.empty(); ++o) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t row = o * of.extent + static_cast<int64_t>(positions[static_cast<size_t>(i)]);
        for (int64_t c = 0; c < inner; ++c)
          expected[static_cast<size_t>(row * inner + c)] +=
              static_cast<float>(all[static_cast<size_t>((o * count + i) * inner + c)]);
      }
    }
    for (const int multiprocessors : {1, 132})
      EXPECT_EQ(results_of(sums, {updates, indices}, multiprocessors)[0],
                std::vector<double>(expected.begin(), expected.end()))
          << of.updates.str() << " on " << multiprocessors;
  }
}

TEST(DeviceKernels, ScatterAddSaysWhichIndexIsOutside) {
  for (const double wrong : {7.0, -1.0}) {
    std::vector<double> positions(1500, 3.0);
    positions[1200] = wrong;
    const auto sums = [](std::span<const Tensor> in) {
      return std::vector<Tensor>{scatter_add(in[0], in[1], 7)};
    };
    EXPECT_ERROR(results_of(sums, {ones({1500, 40}), from_vector({1500}, positions, DType::kI64)}, 132),
                 ErrorCode::kDeviceLost, fmt::format("scatter_add: index {} is outside [0, 7)", wrong));
  }
}

TEST(DeviceKernels, LayerNormGradientsSumManyRows) {
  // A block's columns one a thread, more, and more than it has room for.
  for (const Shape& shape : {Shape{768, 128}, Shape{301, 300}, Shape{9, 2100}}) {
    const auto gradients = [](std::span<const Tensor> in) {
      GradientTape tape;
      for (const Tensor& tensor : in) tape.watch(tensor);
      return tape.gradient(sum(square(layer_norm(in[0], in[1], in[2]))), std::vector{in[0], in[1], in[2]});
    };
    const std::vector<Tensor> inputs = {waves(shape, 1.7), waves({shape[1]}, 0.3), waves({shape[1]}, 2.1)};
    const auto expected = results_of(gradients, inputs);
    for (const int multiprocessors : {1, 132}) {
      const auto results = results_of(gradients, inputs, multiprocessors);
      for (size_t i = 0; i < results.size(); ++i) {
        EXPECT_THAT(results[i], testing::Pointwise(testing::DoubleNear(2e-3), expected[i]))
            << "result " << i << " of " << shape.str() << " on " << multiprocessors;
      }
    }
  }
}

TEST(DeviceKernels, RecurrentLayersIn16BitsMultiply16Bits) {
  SimulatedGpu simulated;
  CaptureOptions options;
  options.plan.device = SimulatedGpu::kDevice;
  options.passes.precision = Precision::kMixedBf16;
  capture(
      [](const Tensor& x, const Tensor& kernel, const Tensor& recurrent_kernel, const Tensor& bias) {
        GradientTape tape;
        tape.watch(kernel);
        tape.watch(recurrent_kernel);
        const Tensor sequence = lstm(x, kernel, recurrent_kernel, bias).sequence;
        return tape.gradient(sum(matmul(sequence, recurrent_kernel)), std::vector{kernel, recurrent_kernel});
      },
      options)(ones({2, 5, 3}), ones({3, 16}), ones({4, 16}), ones({16}));
  EXPECT_GE(simulated.products.specs.size(), 6u);
  for (const cuda::ProductSpec& spec : simulated.products.specs) EXPECT_EQ(spec.factors, DType::kBF16);
}

TEST(DeviceKernels, Tf32IsAskedForAlone) {
  SimulatedGpu simulated;
  const auto step = [](const Tensor& x, const Tensor& kernel) { return sum(conv2d(matmul(x, x), kernel)); };
  for (const bool tf32 : {false, true}) {
    CaptureOptions options;
    options.plan.device = SimulatedGpu::kDevice;
    options.passes.precision = tf32 ? Precision::kTf32 : Precision::kF32;
    capture(step, options)(ones({1, 5, 3, 3}), ones({2, 2, 3, 4}));
    EXPECT_EQ(simulated.products.specs.back().tf32, tf32);
    EXPECT_EQ(simulated.convolutions.specs.back().tf32, tf32);
  }
  CaptureOptions here;
  here.passes.precision = Precision::kTf32;
  EXPECT_ERROR(capture(step, here), ErrorCode::kUnsupported, "tf32 needs a CUDA device");
}

TEST(DeviceKernels, TheFastestProductIsRemembered) {
  SimulatedGpu simulated;
  ops::forget_choices();
  CaptureOptions options;
  options.plan.device = SimulatedGpu::kDevice;
  auto product = capture([](const Tensor& x) { return matmul(x, x); }, options);
  product(ones({9, 9}));
  EXPECT_THAT(ops::recorded_choices(),
              testing::Contains(testing::Pair(testing::HasSubstr("Simulated Device by cublasLt 130000"),
                                              testing::StartsWith("simulated "))));
  ops::forget_choices();
}

}  // namespace
}  // namespace isochron
