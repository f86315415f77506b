// 50 train steps against Keras and PyTorch (tests/golden/README.md).
#include <gtest/gtest.h>

#include "isochron/autograd/autograd.h"
#include "isochron/data/formats/npy.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "support/near.h"

namespace isochron {
namespace {

struct GoldenCase {
  std::string library;
  std::string model;
  std::string optimizer;
};
void PrintTo(const GoldenCase& c, std::ostream* out) {
  *out << c.library << " " << c.model << " " << c.optimizer;
}

nn::Sequential make_model(const std::string& name) {
  using nn::Activation;
  if (name == "mlp") {
    return nn::Sequential(nn::Dense(32, Activation::kRelu), nn::Dense(16, Activation::kRelu), nn::Dense(4));
  }
  return nn::Sequential(nn::Conv2D(4, {3, 3}, Activation::kRelu), nn::Conv2D(8, {3, 3}, Activation::kRelu),
                        nn::MaxPool2D({2, 2}), nn::Flatten(), nn::Dense(10));
}

optim::Optimizer make_optimizer(const GoldenCase& c) {
  const bool keras = c.library == "keras";
  if (c.optimizer == "adam") {
    return keras ? optim::Adam() : optim::Adam({.epsilon = 1e-8, .epsilon_after_correction = true});
  }
  return keras ? optim::RmsProp()
               : optim::RmsProp(
                     {.learning_rate = 0.01, .rho = 0.99, .epsilon = 1e-8, .epsilon_outside_root = true});
}

const data::NpzFile& golden_training(const std::string& library) {
  static const std::string folder = std::string(ISOCHRON_SOURCE_DIR) + "/tests/golden/training_";
  static const data::NpzFile keras = data::read_npz(folder + "keras.npz");
  static const data::NpzFile torch = data::read_npz(folder + "torch.npz");
  return library == "keras" ? keras : torch;
}

/// The golden names of a model's parameters, in its order: "dense1.kernel", ...
std::vector<std::string> golden_names(const std::string& model) {
  std::vector<std::string> names;
  for (const std::string layer : {"conv1", "conv2", "dense1", "dense2", "dense3"}) {
    if ((layer[0] == 'c' || layer == "dense2" || layer == "dense3") &&
        (layer[0] == 'c') == (model == "mlp")) {
      continue;
    }
    names.push_back(layer + ".kernel");
    names.push_back(layer + ".bias");
  }
  return names;
}

/// A model with the golden weights, its optimizer and batches, in one dtype.
struct Trainer {
  Trainer(const GoldenCase& c, DType type)
      : file(golden_training(c.library)),
        dtype(type),
        model(make_model(c.model)),
        optimizer(make_optimizer(c)) {
    const Tensor all_x = cast(file.at(c.model + ".x"), dtype);
    const Tensor all_labels = file.at(c.model + ".labels");
    const int64_t batches = all_x.extent(0);
    for (int64_t i = 0; i < batches; ++i) {
      x.push_back(part(all_x, i));
      labels.push_back(part(all_labels, i));
    }
    model.build(x[0].spec());
    const std::vector<std::string> names = golden_names(c.model);
    const std::vector<Variable> parameters = model.parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      parameters[i].assign(cast(file.at(c.model + ".initial." + names.at(i)), dtype));
    }
  }

  static Tensor part(const Tensor& stacked, int64_t index) {
    const Shape shape(stacked.shape().span().subspan(1));
    const std::vector<double> values = stacked.to_vector();
    const auto begin = values.begin() + index * shape.elems();
    return from_vector(shape, {begin, begin + shape.elems()}, stacked.dtype());
  }

  Tensor train(const Tensor& batch_x, const Tensor& batch_labels) {
    const Tensor loss = nn::sparse_softmax_cross_entropy(model(batch_x), batch_labels);
    optimizer.minimize(loss, model.parameters());
    return loss;
  }

  auto captured(bool passes) {
    CaptureOptions options;
    if (!passes) options.passes.disabled = {"all"};
    return capture([this](const Tensor& a, const Tensor& b) { return train(a, b); }, options);
  }

  const data::NpzFile& file;
  DType dtype;
  nn::Sequential model;
  optim::Optimizer optimizer;
  std::vector<Tensor> x;
  std::vector<Tensor> labels;
};

constexpr size_t kGoldenSteps = 50;

class GoldenTraining : public testing::TestWithParam<GoldenCase> {};

void expect_golden_losses(const GoldenCase& c, DType dtype, double rtol) {
  Trainer run(c, dtype);
  auto step = run.captured(true);
  std::vector<double> losses;
  for (size_t i = 0; i < kGoldenSteps; ++i)
    losses.push_back(step(run.x[i % 4], run.labels[i % 4]).item<double>());
  const Tensor expected =
      run.file.at(fmt::format("{}.{}.{}.losses", c.model, c.optimizer, dtype_name(dtype)));
  EXPECT_TRUE(near(from_vector({kGoldenSteps}, losses, DType::kF64), expected, rtol));
  EXPECT_EQ(step.plan_report().updates_copied, 0);
  if (dtype != DType::kF64) return;
  const std::vector<std::string> names = golden_names(c.model);
  const std::vector<Variable> parameters = run.model.parameters();
  ASSERT_EQ(parameters.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_TRUE(near(parameters[i],
                     run.file.at(fmt::format("{}.{}.final.{}", c.model, c.optimizer, names[i])), rtol, 1e-9))
        << names[i];
  }
}

TEST_P(GoldenTraining, LossesAgreeInF64) { expect_golden_losses(GetParam(), DType::kF64, 1e-8); }
TEST_P(GoldenTraining, LossesAgreeInF32) { expect_golden_losses(GetParam(), DType::kF32, 1e-3); }

TEST_P(GoldenTraining, CapturedEqualsEagerBitForBitWithoutPasses) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    Trainer eager(GetParam(), dtype);
    Trainer replayed(GetParam(), dtype);
    auto step = replayed.captured(false);
    for (size_t i = 0; i < kGoldenSteps; ++i) {
      GradientTape tape;
      const double expected = eager.train(eager.x[i % 4], eager.labels[i % 4]).item<double>();
      ASSERT_EQ(step(replayed.x[i % 4], replayed.labels[i % 4]).item<double>(), expected) << "step " << i;
    }
    const std::vector<Variable> a = eager.model.parameters();
    const std::vector<Variable> b = replayed.model.parameters();
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i].tensor().to_vector(), b[i].tensor().to_vector()) << a[i].name();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Golden, GoldenTraining,
    testing::Values(GoldenCase{"keras", "mlp", "adam"}, GoldenCase{"keras", "mlp", "rmsprop"},
                    GoldenCase{"keras", "cnn", "adam"}, GoldenCase{"keras", "cnn", "rmsprop"},
                    GoldenCase{"torch", "mlp", "adam"}, GoldenCase{"torch", "mlp", "rmsprop"},
                    GoldenCase{"torch", "cnn", "adam"}, GoldenCase{"torch", "cnn", "rmsprop"}),
    [](const auto& test) {
      return fmt::format("{}_{}_{}", test.param.library, test.param.model, test.param.optimizer);
    });

}  // namespace
}  // namespace isochron
