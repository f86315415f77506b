#include "isochron/nn/weights/weights.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "isochron/data/formats/npy.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/layers/normalization.h"
#include "isochron/nn/layers/recurrent.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "support/expect_error.h"
#include "support/near.h"
#include "support/temp_folder.h"

namespace isochron::nn {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;
using Named = std::vector<std::pair<std::string, Tensor>>;

std::vector<std::string> names_of(const SafetensorsFile& file) {
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : file.entries()) names.push_back(entry.name);
  return names;
}

std::vector<std::vector<double>> contents(Module& module) {
  std::vector<std::vector<double>> result;
  for (const Variable& v : module.parameters()) result.push_back(v.tensor().to_vector());
  for (const Variable& v : module.buffers()) result.push_back(v.tensor().to_vector());
  return result;
}

/// The model of tests/golden/make_weights_torch.py.
class Net : public Module {
 public:
  Tensor forward(const Tensor& x) override {
    const Tensor features = features_(x);
    return out_(hidden_(reshape(features, {features.extent(0), -1})));
  }
  void members(Members& list) override { list("features", features_)("hidden", hidden_)("out", out_); }

 private:
  Sequential features_{Conv2D(6, {3, 2}, Activation::kRelu),
                       Conv2D(4, {2, 2}, Activation::kNone, {.groups = 2})};
  Dense hidden_{5, Activation::kTanh};
  Dense out_{3, Activation::kNone, {.bias = false}};
};

/// One layer's members under any kind and names.
class Layer : public Module {
 public:
  Layer(std::string kind, const Named& members) : kind_(std::move(kind)) {
    for (const auto& [name, tensor] : members) variables_.emplace_back(name, Variable(tensor, name));
  }
  Tensor forward(const Tensor& x) override { return x; }
  void members(Members& list) override {
    for (const auto& [name, variable] : variables_) {
      if (name.starts_with("moving"))
        list.buffer(name, variable);
      else
        list(name, variable);
    }
  }
  std::string_view kind() const override { return kind_; }

 private:
  std::string kind_;
  NamedVariables variables_;
};

class Weights : public testing::Test {
 protected:
  static constexpr Convention kPyTorch = Convention::kPyTorch;
  /// `theirs` are the tensors of `ours` under PyTorch's names and in its layout: checks both directions.
  void expect_pytorch(const std::string& kind, const Named& ours, const Named& theirs) {
    Layer layer(kind, ours);
    save_weights(layer, path_, {.naming = {.convention = kPyTorch}});
    const SafetensorsFile saved(path_);
    EXPECT_EQ(saved.entries().size(), theirs.size());
    for (const auto& [name, tensor] : theirs) {
      ASSERT_NE(saved.find(name), nullptr) << kind << " " << name;
      EXPECT_TRUE(near(saved.read(name), tensor, 0)) << kind << " " << name;
    }
    Named blank;
    for (const auto& [name, tensor] : ours) blank.emplace_back(name, zeros_like(tensor));
    Layer other(kind, blank);
    write_safetensors(path_, theirs);
    load_weights(other, path_, {.naming = {.convention = kPyTorch}});
    EXPECT_EQ(contents(other), contents(layer)) << kind;
  }

  TempFolder folder_;
  std::filesystem::path path_ = folder_ / "w.safetensors";
  const TensorSpec images_{DType::kF64, {2, 6, 5, 4}};
};

Tensor counted(const Shape& shape) { return reshape(arange(shape.elems(), DType::kF32), shape); }

TEST_F(Weights, SurviveTheRoundTrip) {
  Net net;
  Net other;
  net.build(images_);
  other.build(images_);
  ASSERT_NE(contents(net), contents(other));
  for (const Convention convention : {Convention::kIsochron, Convention::kKeras, kPyTorch}) {
    save_weights(net, path_, {.naming = {.convention = convention}, .metadata = {{"epoch", "3"}}});
    const LoadReport report = load_weights(other, path_, {.naming = {.convention = convention}});
    EXPECT_EQ(report.loaded, 7u);
    EXPECT_EQ(contents(net), contents(other));
    EXPECT_EQ(SafetensorsFile(path_).metadata().at("epoch"), "3");
    for (const Variable& v : other.parameters()) v.assign(zeros_like(v));
  }
}

TEST_F(Weights, AreNamedByPath) {
  Net net;
  net.build(images_);
  save_weights(net, path_);
  EXPECT_THAT(names_of(SafetensorsFile(path_)),
              ElementsAre("features/conv2d/kernel", "features/conv2d/bias", "features/conv2d_1/kernel",
                          "features/conv2d_1/bias", "hidden/kernel", "hidden/bias", "out/kernel"));
  save_weights(net, path_, {.naming = {.convention = kPyTorch}});
  EXPECT_THAT(names_of(SafetensorsFile(path_)),
              ElementsAre("features.0.weight", "features.0.bias", "features.2.weight", "features.2.bias",
                          "hidden.weight", "hidden.bias", "out.weight"));
  const SafetensorsFile file(path_);
  ASSERT_NE(file.find("features.2.weight"), nullptr);
  EXPECT_EQ(file.find("features.2.weight")->spec.shape, (Shape{4, 3, 2, 2}));
}

TEST_F(Weights, KindsThatAreOneInKerasAreNumberedTogether) {
  Sequential net(GroupNorm(2), InstanceNorm({.affine = true}));
  net.build({DType::kF32, {1, 2, 2, 4}});
  const WeightNaming keras{.convention = Convention::kKeras};
  save_weights(net, path_, {.naming = keras});
  EXPECT_THAT(names_of(SafetensorsFile(path_)),
              ElementsAre("group_normalization/gamma", "group_normalization/beta",
                          "group_normalization_1/gamma", "group_normalization_1/beta"));
  EXPECT_EQ(load_weights(net, path_, {.naming = keras}).loaded, 4u);
}

// As Keras 3.15 names [LSTM, Bidirectional(LSTM), Bidirectional(GRU), Bidirectional(LSTM)].
TEST_F(Weights, BidirectionalLayersAreWrappersInKeras) {
  const RecurrentLayerOptions sequence{.return_sequences = true};
  const RecurrentLayerOptions both{.return_sequences = true, .bidirectional = true, .bias = false};
  Sequential net(LSTM(2, sequence), LSTM(2, both), GRU(2, both), LSTM(2, both));
  net.build({DType::kF32, {1, 3, 2}});
  const WeightNaming keras{.convention = Convention::kKeras};
  save_weights(net, path_, {.naming = keras});
  std::vector<std::string> kernels = names_of(SafetensorsFile(path_));
  std::erase_if(kernels, [](const std::string& name) { return !name.ends_with("cell/kernel"); });
  EXPECT_THAT(kernels, ElementsAre("lstm/lstm_cell/kernel", "bidirectional/forward_lstm_1/lstm_cell/kernel",
                                   "bidirectional/backward_lstm_1/lstm_cell/kernel",
                                   "bidirectional_1/forward_gru/gru_cell/kernel",
                                   "bidirectional_1/backward_gru/gru_cell/kernel",
                                   "bidirectional_2/forward_lstm_2/lstm_cell/kernel",
                                   "bidirectional_2/backward_lstm_2/lstm_cell/kernel"));
  EXPECT_EQ(load_weights(net, path_, {.naming = keras}).loaded, 15u);
}

TEST_F(Weights, GoThroughPyTorchAndComputeTheSame) {
  const std::string golden = ISOCHRON_SOURCE_DIR "/tests/golden/";
  const data::NpzFile expected = data::read_npz(golden + "weights_torch.npz");
  const WeightNaming naming{.convention = kPyTorch,
                            .rename = [](const std::string& name) { return "net." + name; }};
  Net net;
  net.build(images_);
  const LoadReport report =
      load_weights(net, golden + "weights_torch.safetensors", {.naming = naming, .strict = false});
  EXPECT_EQ(report.loaded, 7u);
  EXPECT_THAT(report.missing, ElementsAre());
  EXPECT_EQ(report.unexpected.size(), 10u) << "the samples of dtypes and shapes";
  EXPECT_TRUE(near(net(expected.at("x")), expected.at("y"), 1e-12, 1e-13));

  // Back into one file, which make_weights_torch.py --check reads (see tests/golden/README.md).
  const SafetensorsFile theirs(golden + "weights_torch.safetensors");
  save_weights(net, path_, {.naming = naming});
  const SafetensorsFile ours(path_);
  Named all;
  for (const SafetensorsEntry& entry : theirs.entries()) {
    const bool weight = entry.name.starts_with("net.");
    all.emplace_back(entry.name, (weight ? ours : theirs).read(entry.name));
    EXPECT_EQ(all.back().second.to_vector(), theirs.read(entry.name).to_vector()) << entry.name;
  }
  const char* kept = std::getenv("ISOCHRON_KEEP_WEIGHTS");
  write_safetensors(kept ? std::filesystem::path(kept) / "weights.safetensors" : path_, all, ours.metadata());
}

TEST_F(Weights, HavePyTorchsNamesAndLayoutsByKind) {
  const Tensor bias = counted({2});
  expect_pytorch("dense", {{"kernel", counted({3, 2})}, {"bias", bias}},
                 {{"weight", transpose(counted({3, 2}))}, {"bias", bias}});
  expect_pytorch("conv1d", {{"kernel", counted({3, 4, 2})}},
                 {{"weight", transpose(counted({3, 4, 2}), {2, 1, 0})}});
  expect_pytorch("conv2d", {{"kernel", counted({3, 5, 4, 2})}},
                 {{"weight", transpose(counted({3, 5, 4, 2}), {3, 2, 0, 1})}});
  expect_pytorch("conv3d", {{"kernel", counted({3, 5, 6, 4, 2})}},
                 {{"weight", transpose(counted({3, 5, 6, 4, 2}), {4, 3, 0, 1, 2})}});
  expect_pytorch("embedding", {{"embeddings", counted({7, 2})}}, {{"weight", counted({7, 2})}});
  expect_pytorch("layer_norm", {{"gamma", counted({2})}, {"beta", ones({2})}},
                 {{"weight", counted({2})}, {"bias", ones({2})}});
  expect_pytorch("batch_norm",
                 {{"gamma", full({2}, 1)},
                  {"beta", full({2}, 2)},
                  {"moving_mean", full({2}, 3)},
                  {"moving_variance", full({2}, 4)}},
                 {{"weight", full({2}, 1)},
                  {"bias", full({2}, 2)},
                  {"running_mean", full({2}, 3)},
                  {"running_var", full({2}, 4)}});
  expect_pytorch("of my own", {{"scale", counted({2, 3})}}, {{"scale", counted({2, 3})}});
}

TEST_F(Weights, RecurrentGatesAndBiasesAreConverted) {
  // One input, one unit: a kernel's elements are its gates.
  expect_pytorch("lstm",
                 {{"kernel", from_vector({1, 4}, {1, 2, 3, 4})},
                  {"recurrent_kernel", from_vector({1, 4}, {5, 6, 7, 8})},
                  {"bias", from_vector({4}, {9, 10, 11, 12})}},
                 {{"weight_ih_l0", from_vector({4, 1}, {1, 2, 3, 4})},
                  {"weight_hh_l0", from_vector({4, 1}, {5, 6, 7, 8})},
                  {"bias_ih_l0", from_vector({4}, {9, 10, 11, 12})},
                  {"bias_hh_l0", zeros({4})}});
  // Ours update, reset, new; theirs reset, update, new. Two units show that blocks move, not elements.
  expect_pytorch("gru",
                 {{"kernel", from_vector({1, 6}, {1, 2, 3, 4, 5, 6})},
                  {"recurrent_kernel", counted({2, 6})},
                  {"bias", from_vector({2, 6}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})}},
                 {{"weight_ih_l0", from_vector({6, 1}, {3, 4, 1, 2, 5, 6})},
                  {"weight_hh_l0", from_vector({6, 2}, {2, 8, 3, 9, 0, 6, 1, 7, 4, 10, 5, 11})},
                  {"bias_ih_l0", from_vector({6}, {3, 4, 1, 2, 5, 6})},
                  {"bias_hh_l0", from_vector({6}, {9, 10, 7, 8, 11, 12})}});
}

TEST_F(Weights, RulesHoldForAnyNumber) {
  const auto kernels = [](const std::string& first, const std::string& other) {
    return Named{{first, from_vector({1, 4}, {1, 2, 3, 4})}, {other, from_vector({1, 4}, {5, 6, 7, 8})}};
  };
  const auto turned = [&](const std::string& first, const std::string& other) {
    return Named{{first, from_vector({4, 1}, {1, 2, 3, 4})}, {other, from_vector({4, 1}, {5, 6, 7, 8})}};
  };
  expect_pytorch("lstm", kernels("layer_0/kernel", "layer_12/recurrent_kernel"),
                 turned("weight_ih_l0", "weight_hh_l12"));
  expect_pytorch("lstm", kernels("layer_3/forward/kernel", "layer_3/backward/kernel"),
                 turned("weight_ih_l3", "weight_ih_l3_reverse"));
  // Not a number, so no rule applies and the name stays the same.
  expect_pytorch("lstm", {{"layer_x/kernel", ones({1, 4})}}, {{"layer_x/kernel", ones({1, 4})}});
}

const WeightRule& joining_rule() {
  static const WeightRule join{
      "pair",
      {"a", "b"},
      {"ab"},
      [](const Module&, const std::vector<Tensor>& ours) { return std::vector{concatenate(ours)}; },
      [](const Module&, const std::vector<Tensor>& parts) { return split(parts[0], 2); },
      [](const std::vector<Tensor>& ours) { return ours[0].elems() == ours[1].elems(); }};
  return join;
}

TEST_F(Weights, ARuleMayJoinTensors) {
  const WeightNaming naming{.rules = {joining_rule()}};
  const auto saved_names = [&](const Named& members) {
    Layer pair("pair", members);
    save_weights(pair, path_, {.naming = naming});
    Named blank;
    for (const auto& [name, tensor] : members) blank.emplace_back(name, zeros_like(tensor));
    Layer other("pair", blank);
    EXPECT_EQ(load_weights(other, path_, {.naming = naming}).loaded, members.size());
    EXPECT_EQ(contents(other), contents(pair));
    return names_of(SafetensorsFile(path_));
  };
  EXPECT_THAT(saved_names({{"a", counted({2})}, {"b", full({2}, 7)}}), ElementsAre("ab"));
  EXPECT_THAT(saved_names({{"a", counted({2})}}), ElementsAre("a")) << "half of what the rule is for";
  EXPECT_THAT(saved_names({{"a", counted({2})}, {"b", counted({3})}}), ElementsAre("a", "b"))
      << "does not apply";
}

TEST_F(Weights, ARuleLosesNothingWherePartOfItIsShared) {
  class Pair : public Module {
   public:
    Pair(Variable a, Variable b) : a_(std::move(a)), b_(std::move(b)) {}
    Tensor forward(const Tensor& x) override { return x; }
    void members(Members& list) override { list("a", a_)("b", b_); }
    std::string_view kind() const override { return "pair"; }

   private:
    Variable a_, b_;
  };
  class Pairs : public Module {
   public:
    Tensor forward(const Tensor& x) override { return x; }
    void members(Members& list) override { list("one", one_)("two", two_)("three", three_); }

   private:
    Variable a_{ones({2}), "a"}, b_{zeros({2}), "b"};
    Pair one_{a_, b_}, two_{a_, Variable(full({2}, 7), "c")}, three_{a_, b_};
  } pairs;
  const WeightNaming naming{.rules = {joining_rule()}};
  save_weights(pairs, path_, {.naming = naming});
  EXPECT_THAT(names_of(SafetensorsFile(path_)), ElementsAre("one/ab", "two/b"));
  EXPECT_EQ(load_weights(pairs, path_, {.naming = naming}).loaded, 3u);
}

TEST_F(Weights, AClassUnderALayersKindIsToldApart) {
  Layer impostor("multi_head_attention", {{"output/kernel", ones({4, 4})}});
  EXPECT_ERROR(save_weights(impostor, path_, {.naming = {.convention = Convention::kKeras}}),
               ErrorCode::kInvalidArgument, "give its class a kind() of its own");
}

TEST_F(Weights, BothBiasesOfPyTorchsLstmCount) {
  Layer lstm("lstm", {{"bias", zeros({4})}});
  write_safetensors(path_, Named{{"bias_ih_l0", counted({4})}, {"bias_hh_l0", full({4}, 10)}});
  load_weights(lstm, path_, {.naming = {.convention = kPyTorch}});
  EXPECT_THAT(contents(lstm)[0], ElementsAre(10, 11, 12, 13));
  write_safetensors(path_, Named{{"bias_ih_l0", zeros({4})}});
  const LoadReport report = load_weights(lstm, path_, {.naming = {.convention = kPyTorch}, .strict = false});
  EXPECT_EQ(report.loaded, 0u) << "half of a bias is none";
  EXPECT_THAT(report.missing, ElementsAre("bias_hh_l0"));
  EXPECT_THAT(contents(lstm)[0], ElementsAre(10, 11, 12, 13));
}

TEST_F(Weights, CountersOfPyTorchAreReadOver) {
  Layer norm("batch_norm", {{"gamma", zeros({1})}});
  write_safetensors(path_, Named{{"weight", ones({1})}, {"num_batches_tracked", scalar(7, DType::kI64)}});
  EXPECT_EQ(load_weights(norm, path_, {.naming = {.convention = kPyTorch}}).loaded, 1u);
}

TEST_F(Weights, WhatIsOursAloneIsLeftOut) {
  Layer layer("dense", {{"kernel", zeros({2, 3})}, {"input_history", zeros({16})}});
  save_weights(layer, path_, {.naming = {.convention = kPyTorch}});
  EXPECT_THAT(names_of(SafetensorsFile(path_)), ElementsAre("weight"));
  write_safetensors(path_, Named{{"weight", ones({3, 2})}});
  EXPECT_EQ(load_weights(layer, path_, {.naming = {.convention = kPyTorch}}).loaded, 1u);
  EXPECT_THAT(contents(layer)[1], testing::Each(0));
  save_weights(layer, path_);
  EXPECT_EQ(SafetensorsFile(path_).entries().size(), 2u) << "but kept for ourselves";
}

TEST_F(Weights, WhatARunMayHaveIsReadWhereBothHaveIt) {
  Layer with("dense", {{"kernel", zeros({2, 3})}, {"input_history", ones({16})}});
  Layer without("dense", {{"kernel", ones({2, 3})}});
  save_weights(with, path_);
  EXPECT_EQ(load_weights(without, path_).loaded, 1u);
  EXPECT_THAT(contents(without)[0], testing::Each(0));
  Layer again("dense", {{"kernel", ones({2, 3})}, {"input_history", zeros({16})}});
  EXPECT_EQ(load_weights(again, path_).loaded, 2u);
  EXPECT_THAT(contents(again)[1], testing::Each(1));
  save_weights(without, path_);
  EXPECT_EQ(load_weights(with, path_).loaded, 1u);
  EXPECT_THAT(contents(with)[1], testing::Each(1));
}

TEST_F(Weights, OwnRulesGoFirst) {
  const WeightNaming naming{.convention = kPyTorch, .rules = {renamed("dense", "kernel", "w")}};
  Layer dense("dense", {{"kernel", counted({2, 3})}});
  save_weights(dense, path_, {.naming = naming});
  EXPECT_EQ(SafetensorsFile(path_).find("w")->spec.shape, (Shape{2, 3}));
}

TEST_F(Weights, AllThatDoesNotFitIsListedAtOnceAndNothingIsLoaded) {
  Sequential net(Dense(3), Dense(2));
  net.build({DType::kF32, {1, 4}});
  const auto before = contents(net);
  write_safetensors(path_, Named{{"dense/kernel", ones({4, 3})},
                                 {"dense/bias", ones({3}, DType::kI32)},
                                 {"dense_1/kernel", ones({5, 2})},
                                 {"more", ones({1})}});
  for (const char* text :
       {"missing in the file (1): dense_1/bias", "unexpected in the file (1): more", "mismatched (2)",
        "dense/bias: the file has i32(3), the model needs f32(3)",
        "dense_1/kernel: the file has f32(5, 2), the model needs f32(3, 2)", "nothing was loaded"}) {
    EXPECT_ERROR(load_weights(net, path_), ErrorCode::kShapeMismatch, text);
  }
  EXPECT_ERROR(load_weights(net, path_, {.skip_mismatched = true}), ErrorCode::kOutOfRange, "more");
  EXPECT_EQ(contents(net), before);

  const LoadReport report = load_weights(net, path_, {.strict = false, .skip_mismatched = true});
  EXPECT_EQ(report.loaded, 1u);
  EXPECT_THAT(report.missing, ElementsAre("dense_1/bias"));
  EXPECT_THAT(report.unexpected, ElementsAre("more"));
  EXPECT_EQ(report.mismatched.size(), 2u);
  EXPECT_EQ(contents(net)[0], std::vector<double>(12, 1));
  EXPECT_EQ(contents(net)[1], before[1]);
}

TEST_F(Weights, ATruncatedFileLoadsNothing) {
  Sequential net(Dense(3));
  net.build({DType::kF32, {1, 4}});
  const auto before = contents(net);
  save_weights(net, path_);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 1);
  EXPECT_ERROR(load_weights(net, path_), ErrorCode::kBadFormat, "truncated?");
  EXPECT_EQ(contents(net), before);
}

TEST_F(Weights, FloatingDtypesAreConverted) {
  Layer model("m", {{"a", zeros({2})}, {"b", zeros({2}, DType::kF64)}, {"c", zeros({2}, DType::kF16)}});
  const std::vector<double> values = {0.5, -3};
  write_safetensors(path_, Named{{"a", from_vector({2}, values, DType::kBF16)},
                                 {"b", from_vector({2}, values, DType::kF16)},
                                 {"c", from_vector({2}, values, DType::kF64)}});
  load_weights(model, path_);
  EXPECT_THAT(contents(model), ElementsAre(values, values, values));
}

TEST_F(Weights, ReachCapturedSteps) {
  Sequential net(Dense(1, Activation::kNone, {.bias = false}));
  auto step = capture([&](const Tensor& x) { return net(x); });
  step(ones({1, 2}));
  write_safetensors(path_, Named{{"dense/kernel", full({2, 1}, 4)}});
  load_weights(net, path_);
  EXPECT_EQ(step(ones({1, 2})).item<float>(), 8);
  EXPECT_EQ(step.plan_count(), 1u);
}

TEST_F(Weights, SharedOnesAreSavedOnce) {
  const Variable tied(ones({2}), "tied");
  class Twice : public Module {
   public:
    explicit Twice(const Variable& v) : v_(v) {}
    Tensor forward(const Tensor& x) override { return x; }
    void members(Members& list) override { list("first", v_)("second", v_); }

   private:
    Variable v_;
  } twice(tied);
  save_weights(twice, path_);
  EXPECT_THAT(names_of(SafetensorsFile(path_)), ElementsAre("first"));
  write_safetensors(path_, Named{{"first", full({2}, 3)}, {"second", full({2}, 3)}});
  EXPECT_EQ(load_weights(twice, path_).loaded, 1u) << "the other name is read over";
  EXPECT_EQ(tied.tensor().to_vector(), (std::vector<double>{3, 3}));
}

TEST_F(Weights, WrongCallsAreErrors) {
  Net net;
  EXPECT_ERROR(save_weights(net, path_), ErrorCode::kInvalidArgument, "no parameters yet");
  EXPECT_ERROR(load_weights(net, path_), ErrorCode::kInvalidArgument, "build(spec");
  net.build(images_);
  EXPECT_ERROR(load_weights(net, folder_ / "none"), ErrorCode::kIo, "none");
  const WeightNaming all_one{.rename = [](const std::string&) { return "one"; }};
  EXPECT_ERROR(save_weights(net, path_, {.naming = all_one}), ErrorCode::kInvalidArgument, "name 'one'");
  write_safetensors(folder_ / "one", Named{{"one", ones({1})}});
  EXPECT_ERROR(load_weights(net, folder_ / "one", {.naming = all_one}), ErrorCode::kInvalidArgument,
               "name 'one'");
  auto step = capture([&](const Tensor& x) {
    save_weights(net, path_);
    return x;
  });
  EXPECT_ERROR(step(ones({1})), ErrorCode::kCaptureViolation, "between steps");
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace isochron::nn
