#include "isochron/nn/layers/recurrent.h"

#include <gmock/gmock.h>

#include <cmath>

#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/control/scan.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"

namespace isochron::nn {
namespace {

using testing::Each;
using testing::ElementsAre;

void expect_close(const Tensor& a, const Tensor& b, double tolerance = 1e-6) {
  ASSERT_EQ(a.spec(), b.spec());
  const std::vector<double> x = a.to_vector();
  const std::vector<double> y = b.to_vector();
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], tolerance) << i;
}

std::vector<std::string> names_of(Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, variable] : module.named_parameters()) names.push_back(name);
  return names;
}

TEST(LSTM, GivesTheLastOutputOrTheSequence) {
  set_initializer_seed(3);
  LSTM layer(5);
  const Tensor x = random_normal({2, 4, 3});
  const RecurrentResult all = layer.run(x);
  EXPECT_EQ(layer(x).shape(), (Shape{2, 5}));
  EXPECT_EQ(all.sequence.shape(), (Shape{2, 4, 5}));
  expect_close(layer(x), all.last, 0);
  expect_close(squeeze(narrow(all.sequence, 1, 3, 1), {1}), all.last, 0);
  expect_close(all.h[0], all.last, 0);
  EXPECT_EQ(all.c[0].shape(), (Shape{2, 5}));
  EXPECT_EQ(LSTM(5, {.return_sequences = true})(x).shape(), (Shape{2, 4, 5}));
  EXPECT_THAT(names_of(layer), ElementsAre("kernel", "recurrent_kernel", "bias"));
}

TEST(LSTM, ForgetGatesStartOpen) {
  LSTM layer(2);
  layer.build({DType::kF32, {1, 1, 3}});
  EXPECT_THAT(layer.parameters()[2].tensor().to_vector(), ElementsAre(0, 0, 1, 1, 0, 0, 0, 0));
  LSTM closed(2, {.unit_forget_bias = false});
  closed.build({DType::kF32, {1, 1, 3}});
  EXPECT_THAT(closed.parameters()[2].tensor().to_vector(), Each(0));
  LSTM none(2, {.bias = false});
  none.build({DType::kF32, {1, 1, 3}});
  EXPECT_EQ(none.parameters().size(), 2u);
}

TEST(GRU, HasTwoBiases) {
  GRU layer(4);
  layer.build({DType::kF64, {1, 1, 3}});
  EXPECT_EQ(layer.parameters()[0].shape(), (Shape{3, 12}));
  EXPECT_EQ(layer.parameters()[1].shape(), (Shape{4, 12}));
  EXPECT_EQ(layer.parameters()[2].shape(), (Shape{2, 12}));
}

TEST(Recurrent, MergesDirections) {
  const Tensor x = random_normal({2, 5, 3});
  const auto run = [&](MergeMode mode) {
    set_initializer_seed(4);
    GRU layer(3, {.bidirectional = true, .merge = mode});
    return layer.run(x);
  };
  const RecurrentResult both = run(MergeMode::kConcatenate);
  EXPECT_EQ(both.sequence.shape(), (Shape{2, 5, 6}));
  EXPECT_EQ(both.last.shape(), (Shape{2, 6}));
  const std::vector<Tensor> parts = split(both.sequence, 2, -1);
  expect_close(run(MergeMode::kSum).sequence, parts[0] + parts[1]);
  expect_close(run(MergeMode::kAverage).sequence, (parts[0] + parts[1]) * 0.5);
  expect_close(run(MergeMode::kMultiply).last, both.h[0] * both.h[1]);
  // Backward, the first row of the sequence is the last output.
  expect_close(squeeze(narrow(parts[1], 1, 0, 1), {1}), both.h[1], 0);
}

TEST(Recurrent, BackwardIsForwardOnTheFlippedSequence) {
  const Tensor x = random_normal({2, 5, 3});
  set_initializer_seed(5);
  LSTM forward(3, {.return_sequences = true});
  const Tensor flipped = forward(flip(x, {1}));
  set_initializer_seed(5);
  LSTM backward(3, {.return_sequences = true, .reverse = true});
  expect_close(backward(x), flip(flipped, {1}), 0);
}

TEST(Recurrent, StacksNameTheirParametersAndReadEachOther) {
  LSTM layer(3, {.layers = 2, .bidirectional = true});
  const RecurrentResult result = layer.run(random_normal({2, 4, 5}));
  EXPECT_EQ(names_of(layer).size(), 12u);
  EXPECT_EQ(names_of(layer)[3], "layer_0/backward/kernel");
  EXPECT_EQ(layer.parameters()[3].name(), "layer_0/backward/kernel");
  EXPECT_EQ(layer.parameters()[6].shape(), (Shape{6, 12}));
  EXPECT_EQ(result.h.size(), 4u);
  EXPECT_EQ(result.c.size(), 4u);
}

TEST(Recurrent, DropoutActsBetweenLayersInTrainingOnly) {
  set_initializer_seed(6);
  GRU layer(8, {.layers = 2, .dropout = 0.5});
  const Tensor x = random_normal({3, 4, 2});
  const std::vector<double> a = layer(x).to_vector();
  const std::vector<double> b = layer(x).to_vector();
  EXPECT_NE(a, b);
  const TrainingScope scope(false);
  EXPECT_EQ(layer(x).to_vector(), layer(x).to_vector());
  set_initializer_seed(6);
  GRU plain(8, {.layers = 2});
  expect_close(plain(x), layer(x), 0);
}

TEST(Recurrent, MasksBecomeLengths) {
  const Tensor mask = cast(from_vector({4, 3}, {1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 1}), DType::kBool);
  EXPECT_THAT(mask_lengths(mask).to_vector(), ElementsAre(3, 1, 0, -1));
  GRU layer(2);
  const Tensor x = random_normal({4, 3, 2});
  EXPECT_ERROR(layer.run(x, {.lengths = mask_lengths(mask)}), ErrorCode::kOutOfRange, "length");
  const Tensor padded = narrow(mask, 0, 0, 3);
  const RecurrentResult result = layer.run(narrow(x, 0, 0, 3), {.lengths = mask_lengths(padded)});
  EXPECT_THAT(narrow(result.sequence, 0, 2, 1).to_vector(), Each(0));
  EXPECT_THAT(narrow(result.last, 0, 2, 1).to_vector(), Each(0));
  expect_close(squeeze(narrow(narrow(result.sequence, 0, 1, 1), 1, 0, 1), {1}), narrow(result.last, 0, 1, 1),
               0);
  EXPECT_ERROR(mask_lengths(x), ErrorCode::kDtypeMismatch, "bool");
  EXPECT_ERROR(mask_lengths(squeeze(narrow(mask, 1, 0, 1))), ErrorCode::kShapeMismatch, "(N, T)");
}

TEST(Recurrent, CellsInAScanEqualTheLayer) {
  const Tensor x = random_normal({3, 6, 4});  // rows of time come first in a scan
  set_initializer_seed(7);
  LSTM layer(5, {.return_sequences = true});
  const Tensor expected = layer(x);
  set_initializer_seed(7);
  LSTMCell cell(5);
  const auto loop = [&](const Tensor& input) {
    const Tensor by_time = transpose(input, {1, 0, 2});
    cell.build_for(4, DType::kF32);
    const LstmState zero = cell.initial_state(squeeze(narrow(by_time, 0, 0, 1), {0}));
    const ScanResult result = scan(
        [&](std::span<const Tensor> state, std::span<const Tensor> slices) {
          const LstmState next = cell.step(slices[0], {state[0], state[1]});
          return ScanStep{{next.h, next.c}, {next.h}};
        },
        {zero.h, zero.c}, {by_time});
    return transpose(result.outputs[0], {1, 0, 2});
  };
  expect_close(loop(x), expected, 1e-6);
  auto looped = capture(loop);
  expect_close(looped(x), expected, 1e-6);

  set_initializer_seed(8);
  GRU gru_layer(5);
  const Tensor last = gru_layer(x);
  set_initializer_seed(8);
  GRUCell gru_cell(5);
  Tensor h = gru_cell.initial_state(squeeze(narrow(x, 1, 0, 1), {1}));
  for (int64_t t = 0; t < 6; ++t) h = gru_cell.step(squeeze(narrow(x, 1, t, 1), {1}), h);
  expect_close(h, last, 1e-6);
}

TEST(Recurrent, LearnsToRememberTheFirstStep) {
  set_initializer_seed(9);
  Sequential model(LSTM(16), Dense(1));
  optim::Adam optimizer({.learning_rate = 1e-2});
  auto step = capture([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = mean_squared_error(model(x), y);
    optimizer.minimize(loss, model.parameters());
    return loss;
  });
  random::Generator generator(11);
  const Tensor x = random_normal({64, 12, 2}, 0, 1, DType::kF32, generator);
  const Tensor y = narrow(squeeze(narrow(x, 1, 0, 1), {1}), 1, 0, 1);
  const double first = step(x, y).item<float>();
  double last = first;
  for (int i = 0; i < 200; ++i) last = step(x, y).item<float>();
  EXPECT_LT(last, 0.1 * first);
}

TEST(Recurrent, RejectsWrongCalls) {
  EXPECT_ERROR(LSTM(0), ErrorCode::kInvalidArgument, "[lstm] units");
  EXPECT_ERROR(GRU(2, {.layers = 0}), ErrorCode::kInvalidArgument, "[gru] units and layers");
  EXPECT_ERROR(GRU(2, {.dropout = 1}), ErrorCode::kInvalidArgument, "dropout");
  EXPECT_ERROR(LSTM(2, {.bidirectional = true, .reverse = true}), ErrorCode::kInvalidArgument, "reverse");
  EXPECT_ERROR(LSTM(2)(ones({2, 3})), ErrorCode::kShapeMismatch, "3 axes");
  EXPECT_ERROR(LSTM(2)(ones({2, 3, 4}, DType::kI32)), ErrorCode::kDtypeMismatch, "floating");
  const Tensor x = ones({2, 3, 4});
  const Tensor state = ones({2, 2});
  EXPECT_ERROR(LSTM(2).run(x, {.h = {state}}), ErrorCode::kInvalidArgument, "neither");
  EXPECT_ERROR(LSTM(2).run(x, {.h = {state, state}, .c = {state, state}}), ErrorCode::kInvalidArgument,
               "2 initial states for 1");
  EXPECT_ERROR(GRU(2).run(x, {.c = {state}}), ErrorCode::kInvalidArgument, "no cell state");
  LSTM built(2);
  built(x);
  EXPECT_ERROR(built(ones({2, 3, 5})), ErrorCode::kShapeMismatch, "the kernel");
  EXPECT_ERROR(LSTMCell(0), ErrorCode::kInvalidArgument, "units");
  EXPECT_ERROR(GRUCell(2)(ones({2, 3, 4})), ErrorCode::kShapeMismatch, "2 axes");
}

}  // namespace
}  // namespace isochron::nn
