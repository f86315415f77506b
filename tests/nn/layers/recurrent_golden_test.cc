// Recurrent layers and their gradients against PyTorch's (tests/golden/README.md): stacks, both directions,
// packed sequences.
#include <gtest/gtest.h>

#include <cmath>

#include "isochron/autograd/autograd.h"
#include "isochron/data/formats/npy.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/recurrent.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::nn {
namespace {

class RecurrentGolden : public testing::TestWithParam<std::string> {
 protected:
  bool is_lstm() const { return GetParam().starts_with("lstm"); }
  const Tensor& array(const std::string& name) const { return arrays_.at(GetParam() + "." + name); }
  bool has(const std::string& name) const { return arrays_.contains(GetParam() + "." + name); }

  void expect_near(const Tensor& got, const std::string& name) const {
    const std::vector<double> want = array(name).to_vector();
    const std::vector<double> values = got.to_vector();
    ASSERT_EQ(values.size(), want.size()) << name;
    for (size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(values[i], want[i], 1e-12 + 1e-11 * std::abs(want[i])) << name << ", element " << i;
    }
  }

  std::unique_ptr<Recurrent> make_layer() const {
    RecurrentLayerOptions options{.return_sequences = true};
    if (GetParam().find("stack") != std::string::npos) {
      options.layers = 2;
      options.bidirectional = true;
    }
    std::unique_ptr<Recurrent> layer;
    if (is_lstm()) {
      layer = std::make_unique<LSTM>(array("h").extent(-1), options);
    } else {
      layer = std::make_unique<GRU>(array("h").extent(-1), options);
    }
    layer->build(array("x").spec());
    for (const auto& [name, variable] : layer->named_parameters()) variable.assign(array(name));
    return layer;
  }

  static std::vector<Tensor> states_of(const Tensor& stacked) {
    std::vector<Tensor> states;
    for (const Tensor& state : split(stacked, stacked.extent(0))) states.push_back(squeeze(state, {0}));
    return states;
  }

  /// Everything that the file holds for the case, by the layer: results, then gradients.
  std::vector<Tensor> compute(Recurrent& layer, const Tensor& x, const Tensor& h0, const Tensor& c0) const {
    GradientTape tape;
    RecurrentInputs inputs;
    inputs.h = states_of(h0);
    if (is_lstm()) inputs.c = states_of(c0);
    if (has("lengths")) inputs.lengths = array("lengths");
    const RecurrentResult result = layer.run(x, inputs);
    std::vector<Tensor> targets{result.sequence, stack(result.h)};
    std::vector<Tensor> seeds{array("dy"), array("dh")};
    std::vector<Tensor> sources{x, h0};
    if (is_lstm()) {
      targets.push_back(stack(result.c));
      seeds.push_back(array("dc"));
      sources.push_back(c0);
    }
    for (const Variable& parameter : layer.parameters()) sources.push_back(parameter);
    std::vector<Tensor> all = targets;
    for (const Tensor& gradient : tape.gradient(targets, sources, seeds)) all.push_back(gradient);
    return all;
  }

  void expect_all(Recurrent& layer, std::span<const Tensor> got) const {
    std::vector<std::string> names{"y", "h"};
    if (is_lstm()) names.push_back("c");
    names.insert(names.end(), {"dx", "dh0"});
    if (is_lstm()) names.push_back("dc0");
    for (const auto& [name, variable] : layer.named_parameters()) names.push_back("d" + name);
    ASSERT_EQ(got.size(), names.size());
    for (size_t i = 0; i < names.size(); ++i) expect_near(got[i], names[i]);
  }

  data::NpzFile arrays_ = data::read_npz(ISOCHRON_SOURCE_DIR "/tests/golden/recurrent_torch.npz");
};

TEST_P(RecurrentGolden, EagerAgreesWithPyTorch) {
  const std::unique_ptr<Recurrent> layer = make_layer();
  const Tensor c0 = is_lstm() ? array("c0") : array("h0");
  expect_all(*layer, compute(*layer, array("x"), array("h0"), c0));
}

TEST_P(RecurrentGolden, CapturedAgreesWithPyTorch) {
  const std::unique_ptr<Recurrent> layer = make_layer();
  const Tensor c0 = is_lstm() ? array("c0") : array("h0");
  auto step =
      capture([&](const Tensor& x, const Tensor& h, const Tensor& c) { return compute(*layer, x, h, c); });
  expect_all(*layer, step(array("x"), array("h0"), c0));
}

INSTANTIATE_TEST_SUITE_P(PyTorch, RecurrentGolden,
                         testing::Values("lstm", "lstm_lengths", "lstm_stack", "lstm_stack_lengths", "gru",
                                         "gru_lengths", "gru_stack", "gru_stack_lengths"),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace isochron::nn
