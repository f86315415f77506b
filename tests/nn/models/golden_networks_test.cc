// Steps with several networks compared with PyTorch's (tests/golden/make_networks_torch.py): a GAN, a DQN
// with a target network, and a model with a head that no loss uses.
#include <gtest/gtest.h>

#include "isochron/autograd/autograd.h"
#include "isochron/data/formats/npy.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/control/update_if.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/along_axis.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/optim/optimizers.h"
#include "support/near.h"

namespace isochron {
namespace {

using nn::Activation;

constexpr int64_t kSteps = 50;
constexpr int64_t kBatches = 4;

const data::NpzFile& golden() {
  static const data::NpzFile file =
      data::read_npz(std::string(ISOCHRON_SOURCE_DIR) + "/tests/golden/networks_torch.npz");
  return file;
}

optim::Adam torch_adam(const optim::StepOptions& step = {}) {
  return optim::Adam(
      {.learning_rate = 0.01, .epsilon = 1e-8, .epsilon_after_correction = true, .step = step});
}

nn::Sequential two_layers(int64_t hidden, Activation activation, int64_t units) {
  return nn::Sequential(nn::Dense(hidden, activation), nn::Dense(units));
}

/// Builds `model` and fills its dense layers, in order, with the initial weights of `layers`.
void fill(nn::Module& model, const std::string& network, const std::vector<std::string>& layers,
          int64_t inputs, DType dtype) {
  if (inputs > 0) model.build({dtype, {1, inputs}});
  const std::vector<Variable> parameters = model.parameters();
  ASSERT_EQ(parameters.size(), 2 * layers.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string name = layers[i / 2] + (i % 2 == 0 ? ".kernel" : ".bias");
    parameters[i].assign(cast(golden().at(network + ".initial." + name), dtype));
  }
}

/// One of the cases in one dtype: what a step does, and which arrays it takes.
class Networks {
 public:
  explicit Networks(DType dtype) : dtype_(dtype) {}
  virtual ~Networks() = default;
  virtual std::vector<std::string> inputs() const = 0;  // names of arrays, by the network
  virtual std::vector<Tensor> step(std::span<const Tensor> batch) = 0;
  /// Final weights: the golden name and the variable.
  virtual std::vector<std::pair<std::string, Variable>> weights() = 0;

  Tensor batch_of(const std::string& name, int64_t index) const {
    const Tensor all = golden().at(name);
    const Shape shape(all.shape().span().subspan(1));
    const std::vector<double> values = all.to_vector();
    const auto begin = values.begin() + index * shape.elems();
    return from_vector(shape, {begin, begin + shape.elems()},
                       is_floating(all.dtype()) ? dtype_ : all.dtype());
  }

 protected:
  static void name_dense(std::vector<std::pair<std::string, Variable>>& list, nn::Module& model,
                         const std::vector<std::string>& layers) {
    const std::vector<Variable> parameters = model.parameters();
    for (size_t i = 0; i < parameters.size(); ++i)
      list.emplace_back(layers[i / 2] + (i % 2 == 0 ? ".kernel" : ".bias"), parameters[i]);
  }

  DType dtype_;
};

class Gan final : public Networks {
 public:
  explicit Gan(DType dtype) : Networks(dtype) {
    fill(generator_, "gan", {"g1", "g2"}, 3, dtype);
    fill(judge_, "gan", {"d1", "d2"}, 2, dtype);
  }
  std::vector<std::string> inputs() const override { return {"gan.real", "gan.noise"}; }
  std::vector<Tensor> step(std::span<const Tensor> batch) override {
    const GradientTape tape(true);  // the images that were made serve both losses
    const Tensor made = generator_(batch[1]);
    const Tensor real = judge_(batch[0]), fake = judge_(stop_gradient(made));
    const Tensor yes = ones(real.shape(), dtype_), no = zeros(real.shape(), dtype_);
    const Tensor judge_loss =
        nn::binary_cross_entropy_from_logits(real, yes) + nn::binary_cross_entropy_from_logits(fake, no);
    judge_optimizer_.minimize(judge_loss, judge_.parameters());
    const Tensor generator_loss = nn::binary_cross_entropy_from_logits(judge_(made), yes);
    generator_optimizer_.minimize(generator_loss, generator_.parameters());
    return {judge_loss, generator_loss};
  }
  std::vector<std::pair<std::string, Variable>> weights() override {
    std::vector<std::pair<std::string, Variable>> list;
    name_dense(list, generator_, {"g1", "g2"});
    name_dense(list, judge_, {"d1", "d2"});
    return list;
  }

 private:
  nn::Sequential generator_ = two_layers(8, Activation::kTanh, 2);
  nn::Sequential judge_ = two_layers(8, Activation::kRelu, 1);
  optim::Adam judge_optimizer_ = torch_adam();
  optim::Adam generator_optimizer_ = torch_adam({.allow_untrained = true});
};

class Dqn final : public Networks {
 public:
  Dqn(DType dtype, bool hard)
      : Networks(dtype), hard_(hard), done_steps_(zeros({}, DType::kF64), "steps", false) {
    fill(online_, "dqn", {"q1", "q2"}, 4, dtype);
    fill(target_, "dqn", {"q1", "q2"}, 4, dtype);
  }
  std::vector<std::string> inputs() const override {
    return {"dqn.state", "dqn.next", "dqn.reward", "dqn.done", "dqn.action"};
  }
  std::vector<Tensor> step(std::span<const Tensor> batch) override {
    const GradientTape tape;
    const Tensor best = max(target_(batch[1]), {-1});
    const Tensor wanted = stop_gradient(batch[2] + best * (1.0 - batch[3]) * 0.9);
    const Tensor taken = take_along_axis(online_(batch[0]), reshape(batch[4], {8, 1}), 1);
    const Tensor loss = mean(square(reshape(taken, {8}) - wanted));
    optimizer_.minimize(loss, online_.parameters());
    follow();
    return {loss};
  }
  std::vector<std::pair<std::string, Variable>> weights() override {
    std::vector<std::pair<std::string, Variable>> list;
    name_dense(list, online_, {"q1", "q2"});
    return list;
  }

 private:
  /// The target network takes over the weights of the online network: all of them every 7th step, or 5 % in
  /// each step.
  void follow() {
    const std::vector<Variable> from = online_.parameters(), to = target_.parameters();
    if (!hard_) {
      for (size_t i = 0; i < to.size(); ++i) to[i].assign(to[i] + (from[i] - to[i]) * 0.05);
      return;
    }
    const Tensor steps = done_steps_ + 1.0;
    const Tensor due = equal(fmod(steps, scalar(7, DType::kF64)), scalar(0, DType::kF64));
    done_steps_.assign(steps);
    const std::vector<Tensor> present(to.begin(), to.end());
    const std::vector<Tensor> next = update_if(
        due, present, [&](std::span<const Tensor>) { return std::vector<Tensor>(from.begin(), from.end()); });
    for (size_t i = 0; i < to.size(); ++i) to[i].assign(next[i]);
  }

  bool hard_;
  nn::Sequential online_ = two_layers(16, Activation::kRelu, 3);
  nn::Sequential target_ = two_layers(16, Activation::kRelu, 3);
  optim::Adam optimizer_ = torch_adam();
  Variable done_steps_;
};

/// A body and three heads, one of which stays unused.
class HeadedModel final : public nn::Module {
 public:
  Tensor forward(const Tensor& x) override { return body_(x); }
  void members(nn::Members& list) override {
    list("body", body_)("classes", classes_)("number", number_)("unused", unused_);
  }
  nn::Dense body_{12, Activation::kTanh}, classes_{3}, number_{1}, unused_{2};
};

class Heads final : public Networks {
 public:
  explicit Heads(DType dtype) : Networks(dtype) {
    model_.build({dtype, {1, 6}});
    for (nn::Dense* head : {&model_.classes_, &model_.number_, &model_.unused_})
      head->build({dtype, {1, 12}});
    fill(model_, "heads", kLayers, 0, dtype);
  }
  std::vector<std::string> inputs() const override { return {"heads.x", "heads.labels", "heads.number"}; }
  std::vector<Tensor> step(std::span<const Tensor> batch) override {
    const GradientTape tape;
    const Tensor shared = model_(batch[0]);
    const Tensor loss = nn::sparse_softmax_cross_entropy(model_.classes_(shared), batch[1]) +
                        nn::mean_squared_error(model_.number_(shared), batch[2]) * 0.5;
    optimizer_.minimize(loss, model_.parameters());
    return {loss};
  }
  std::vector<std::pair<std::string, Variable>> weights() override {
    std::vector<std::pair<std::string, Variable>> list;
    name_dense(list, model_, kLayers);
    return list;
  }

 private:
  static inline const std::vector<std::string> kLayers = {"body", "classes", "number", "unused"};
  HeadedModel model_;
  optim::AdamW optimizer_{
      {.learning_rate = 0.01, .weight_decay = {.rate = 0.1}, .step = {.allow_unused = true}}};
};

std::unique_ptr<Networks> make_network(const std::string& name, DType dtype) {
  if (name == "gan") return std::make_unique<Gan>(dtype);
  if (name == "heads") return std::make_unique<Heads>(dtype);
  return std::make_unique<Dqn>(dtype, name == "dqn_hard");
}

/// Losses of all steps, one after the other.
std::vector<double> losses_of(Networks& networks, bool captured, const graph::PassOptions& passes = {}) {
  const std::vector<std::string> names = networks.inputs();
  CapturedFunction step([&](std::span<const Tensor> batch) { return networks.step(batch); },
                        {.passes = passes});
  std::vector<double> losses;
  for (int64_t i = 0; i < kSteps; ++i) {
    std::vector<Tensor> batch;
    std::vector<const Tensor*> arguments;
    for (const std::string& name : names) batch.push_back(networks.batch_of(name, i % kBatches));
    for (const Tensor& tensor : batch) arguments.push_back(&tensor);
    std::vector<Tensor> found;
    if (captured) {
      const std::span<const Tensor> results = step.call(arguments);
      found.assign(results.begin(), results.end());
    } else {
      found = networks.step(batch);
    }
    for (const Tensor& loss : found) losses.push_back(loss.item<double>());
  }
  EXPECT_EQ(step.traces().size(), captured ? 1u : 0u);
  return losses;
}

class GoldenNetworks : public testing::TestWithParam<const char*> {};

void expect_golden(const std::string& name, DType dtype, bool captured, double rtol) {
  const std::unique_ptr<Networks> networks = make_network(name, dtype);
  const std::vector<double> losses = losses_of(*networks, captured);
  const Tensor expected = golden().at(fmt::format("{}.{}.losses", name, dtype_name(dtype)));
  EXPECT_TRUE(near(from_vector(expected.shape(), losses, DType::kF64), expected, rtol));
  if (dtype != DType::kF64) return;
  for (const auto& [weight, variable] : networks->weights()) {
    EXPECT_TRUE(near(variable, golden().at(fmt::format("{}.final.{}", name, weight)), rtol, 1e-9)) << weight;
  }
}

TEST_P(GoldenNetworks, CapturedLossesAgreeInF64) { expect_golden(GetParam(), DType::kF64, true, 1e-8); }
TEST_P(GoldenNetworks, CapturedLossesAgreeInF32) { expect_golden(GetParam(), DType::kF32, true, 1e-4); }
TEST_P(GoldenNetworks, EagerLossesAgreeInF64) { expect_golden(GetParam(), DType::kF64, false, 1e-8); }

TEST_P(GoldenNetworks, CapturedEqualsEagerBitForBitWithoutPasses) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const std::unique_ptr<Networks> eager = make_network(GetParam(), dtype),
                                    captured = make_network(GetParam(), dtype);
    EXPECT_EQ(losses_of(*captured, true, {.disabled = {"all"}}), losses_of(*eager, false));
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, GoldenNetworks, testing::Values("gan", "dqn_hard", "dqn_soft", "heads"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace isochron
