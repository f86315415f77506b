// A third backend, unknown to the library: whole training steps run on it by the definitions of their ops and
// give the results of the kernels.
#include "support/reference_backend.h"

#include <gmock/gmock.h>

#include <cmath>

#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/convolution_layers.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/layers/normalization.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

const ReferenceBackend kDefinitions;

CaptureOptions on(const graph::Backend* backend) {
  CaptureOptions options;
  options.plan.backend = backend;
  return options;
}

/// Losses of the first steps of a small network: convolution, pooling, norm, dense layers, Adam.
std::vector<double> losses(const CaptureOptions& options) {
  random::set_seed(7);
  auto model = nn::Sequential(nn::Conv2D(4, {3, 3}, nn::Activation::kRelu), nn::MaxPool2D({2, 2}),
                              nn::Flatten(), nn::LayerNorm(), nn::Dense(3));
  optim::Adam optimizer({.learning_rate = 1e-2});
  auto step = capture(
      [&](const Tensor& x, const Tensor& labels) {
        const Tensor loss = nn::sparse_softmax_cross_entropy(model(x), labels);
        optimizer.minimize(loss, model.parameters());
        return loss;
      },
      options);
  const Tensor x = random_normal({4, 8, 8, 2});
  const Tensor labels = from_vector({4}, {0, 2, 1, 2}, DType::kI64);
  std::vector<double> all;
  for (int i = 0; i < 4; ++i) all.push_back(step(x, labels).item<double>());
  return all;
}

TEST(ReferenceBackend, TrainsAsTheKernelsDo) {
  const std::vector<double> expected = losses(on(nullptr)), got = losses(on(&kDefinitions));
  EXPECT_LT(expected.back(), 0.9 * expected.front()) << "something is learnt";
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 2e-5 * (1 + expected[i]));
}

TEST(ReferenceBackend, StoresIn16BitsThroughCopies) {
  const graph::OpDef& op = ops::row("matmul");
  const Tensor a = cast(random_normal({3, 4}), DType::kBF16), b = cast(random_normal({4, 2}), DType::kBF16);
  const TensorSpec inputs[] = {a.spec(), b.spec()};
  const TensorSpec output{DType::kBF16, {3, 2}};
  const graph::Attributes attributes{
      {"transpose_a", false}, {"transpose_b", false}, {graph::kStorage, std::vector<DType>{DType::kBF16}}};
  graph::KernelRequest request{op, inputs, {&output, 1}, attributes};
  request.backend = &kDefinitions;
  const std::unique_ptr<graph::Kernel> kernel = graph::prepare_kernel(request);
  const Tensor result = zeros(output.shape, output.dtype);
  std::vector<std::byte> workspace(kernel->workspace_bytes());
  EXPECT_GT(workspace.size(), 0u) << "the copies in f32";
  std::byte* in[] = {a.raw(), b.raw()};
  std::byte* out[] = {result.raw()};
  const graph::KernelArgs args{in, out, workspace.data()};
  kernel->bind(args);
  kernel->run(args);
  const std::vector<double> expected = matmul(cast(a, DType::kF32), cast(b, DType::kF32)).to_vector();
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(result.to_vector()[i], expected[i], 0x1p-8 * std::abs(expected[i]) + 1e-6);
}

/// The definitions, plus the CPU's kernels for ops with sub-graphs, whose sub-graphs run by the definitions.
class WithBranches final : public graph::Backend {
 public:
  std::string_view name() const override { return "the definitions with branches"; }
  bool runs(const graph::OpDef& op) const override { return op.name == "cond" || kDefinitions.runs(op); }
  bool runs_half_storage(const graph::OpDef&) const override { return false; }
  std::unique_ptr<graph::Kernel> make_kernel(const graph::KernelRequest& request) const override {
    made.push_back(request.op.name);
    if (request.op.name == "cond") return graph::backend_of(DeviceKind::kCpu).make_kernel(request);
    return kDefinitions.make_kernel(request);
  }
  mutable std::vector<std::string> made;
};

TEST(ReferenceBackend, RunsTheGraphsWithinKernelsToo) {
  const WithBranches backend;
  auto step = capture(
      [](const Tensor& x) {
        return cond(
            sum(x) > 0.0, [&] { return exp(x); }, [&] { return tanh(x); });
      },
      on(&backend));
  EXPECT_NEAR(step(ones({1})).item<double>(), std::exp(1.0), 1e-6);
  EXPECT_NEAR(step(full({1}, -1)).item<double>(), std::tanh(-1.0), 1e-6);
  EXPECT_THAT(backend.made, testing::IsSupersetOf({"cond", "exp", "tanh"}));
}

/// The definitions of all but one op.
class WithoutFused final : public graph::Backend {
 public:
  std::string_view name() const override { return "the definitions but for fused"; }
  bool runs(const graph::OpDef& op) const override { return op.name != "fused" && kDefinitions.runs(op); }
  bool runs_half_storage(const graph::OpDef&) const override { return false; }
  std::unique_ptr<graph::Kernel> make_kernel(const graph::KernelRequest& request) const override {
    return request.op.name == "fused" ? nullptr : kDefinitions.make_kernel(request);
  }
};

TEST(ReferenceBackend, NothingIsFusedForOneThatCantRunIt) {
  const WithoutFused backend;
  auto step = capture([](const Tensor& x) { return sum(exp(x) * 2.0 + x); }, on(&backend));
  EXPECT_NEAR(step(ones({2})).item<double>(), 2 * (2 * std::exp(1.0) + 1), 1e-5);
}

TEST(ReferenceBackend, NamesAllOpsThatItCantRun) {
  auto step = capture(
      [](const Tensor& x) {
        return cond(
            sum(x) > 0.0, [&] { return x * 2.0; }, [&] { return x; });
      },
      on(&kDefinitions));
  EXPECT_ERROR(step(ones({2})), ErrorCode::kUnsupported, "there is no kernel for the definitions of: cond");
}

}  // namespace
}  // namespace isochron
