// Layers and models compared with PyTorch's (tests/golden/README.md): the weights are imported from PyTorch's
// files, then results, gradients and the losses of 50 training steps are compared.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "isochron/autograd/autograd.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/transformer.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/models/gpt.h"
#include "isochron/nn/models/models.h"
#include "isochron/nn/models/resnet.h"
#include "isochron/nn/weights/weights.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "isochron/optim/optimizers.h"
#include "nn/models/unet.h"
#include "support/near.h"
#include "support/temp_folder.h"

namespace isochron::nn {
namespace {

using Tensors = std::vector<Tensor>;

/// A module for inputs of this dtype, or null for a function.
using Make = std::function<std::unique_ptr<Module>(DType dtype)>;
using Call = std::function<Tensor(Module& module, const Tensors& inputs)>;

struct ModuleCase {
  std::string name;  // in the files
  Make make;
  Call call = [](Module& module, const Tensors& inputs) { return module(inputs[0]); };
  bool training = true;
  Convention convention = Convention::kPyTorch;
};
void PrintTo(const ModuleCase& c, std::ostream* out) { *out << c.name; }

template <typename Layer, typename... Arguments>
Make make(Arguments... arguments) {
  return [=](DType) { return std::make_unique<Layer>(arguments...); };
}

const Call kAllInputs = [](Module& module, const Tensors& inputs) { return module(inputs); };
Call attention_function(bool causal) {
  return [causal](Module&, const Tensors& inputs) {
    return attention(inputs[0], inputs[1], inputs[2],
                     {.causal = causal, .key_mask = inputs.size() == 4 ? inputs[3] : Tensor()});
  };
}
BatchNormOptions batch_norm(double momentum = 0.9, double epsilon = 1e-5) {
  return {.momentum = momentum, .epsilon = epsilon, .unbiased_moving_variance = true};
}
Make golden_embedding(int64_t count, int64_t width) {
  return [=](DType dtype) {
    return std::make_unique<Embedding>(count, width, EmbeddingOptions{.dtype = dtype});
  };
}
TemporalConvolutionOptions temporal(int64_t filters, int64_t window, int64_t blocks) {
  return {.filters = filters, .window = window, .blocks = blocks};
}

const RecurrentLayerOptions kStack{.return_sequences = true, .layers = 2, .bidirectional = true};

const ModuleCase kLayers[] = {
    {"dense", make<Dense>(3)},
    {"conv1d",
     make<Conv1D>(6, Dims{3}, Activation::kNone, ConvOptions{.stride = {2}, .dilation = {2}, .groups = 2})},
    {"conv3d", make<Conv3D>(3, Dims{2, 3, 2})},
    {"depthwise_conv2d",
     make<DepthwiseConv2D>(Dims{3, 3}, Activation::kNone, DepthwiseConvOptions{.multiplier = 2})},
    {"conv1d_transpose",
     make<Conv1DTranspose>(4, Dims{3}, Activation::kNone, ConvTransposeOptions{.stride = {2}})},
    {"conv2d_transpose", make<Conv2DTranspose>(6, Dims{3, 2}, Activation::kNone,
                                               ConvTransposeOptions{.stride = {2, 2}, .groups = 2})},
    {"conv3d_transpose",
     make<Conv3DTranspose>(3, Dims{2, 2, 2}, Activation::kNone, ConvTransposeOptions{.bias = false})},
    {"batch_norm", make<BatchNorm>(batch_norm())},
    {"batch_norm_sequence", make<BatchNorm>(batch_norm(0.7))},
    {"batch_norm_images", make<BatchNorm>(batch_norm(0.9, 1e-3))},
    {.name = "batch_norm_inference", .make = make<BatchNorm>(batch_norm()), .training = false},
    {"layer_norm", make<LayerNorm>()},
    {"layer_norm_gain", make<LayerNorm>(NormOptions{.epsilon = 1e-3, .center = false})},
    {"rms_norm", make<RmsNorm>()},
    {"group_norm", make<GroupNorm>(2)},
    {"group_norm_instance", make<InstanceNorm>(InstanceNormOptions{.affine = true})},
    {"embedding", golden_embedding(5, 3)},
    {"lstm", make<LSTM>(4, kStack)},
    {"gru", make<GRU>(4, kStack)},
    {"lstm_cell", make<LSTMCell>(4)},
    {"gru_cell", make<GRUCell>(4)},
    {"attention", make<MultiHeadAttention>(8, 2)},
    {"attention_causal",
     make<MultiHeadAttention>(8, 2, MultiHeadAttentionOptions{.causal = true, .bias = false})},
    {"attention_masked", make<MultiHeadAttention>(8, 2), kAllInputs},
    {"attention_causal_masked", make<MultiHeadAttention>(8, 2, MultiHeadAttentionOptions{.causal = true}),
     kAllInputs},
    {"attention_grouped",
     make<MultiHeadAttention>(12, 6, MultiHeadAttentionOptions{.causal = true, .key_value_heads = 2})},
    {"cross_attention", make<CrossAttention>(8, 2), kAllInputs},
    {"cross_attention_other_width", make<CrossAttention>(8, 2), kAllInputs},
    {"attention_function", {}, attention_function(false)},
    {"attention_function_causal", {}, attention_function(true)},
    {"attention_function_masked", {}, attention_function(true)},
    {"temporal_block", make<TemporalBlock>(temporal(5, 3, 1), 2, true)},
    {"temporal_block_plain", make<TemporalBlock>(temporal(4, 2, 1), 1, false)},
    {"prelu", make<PRelu>()},
    {"prelu_channels", make<PRelu>(true)},
    {"encoder_layer", make<TransformerEncoderLayer>(8, 2, 12, TransformerOptions{.dropout = 0}), kAllInputs},
    {"encoder_layer_norm_first",
     make<TransformerEncoderLayer>(
         8, 2, 12, TransformerOptions{.dropout = 0, .activation = Activation::kGelu, .norm_first = true})},
    {"decoder_layer", make<TransformerDecoderLayer>(8, 2, 12, TransformerOptions{.dropout = 0}), kAllInputs},
    {"decoder_layer_norm_first",
     make<TransformerDecoderLayer>(8, 2, 12, TransformerOptions{.dropout = 0, .norm_first = true}),
     kAllInputs},
};

ModuleCase keras(std::string name, Make make, Call call = ModuleCase().call) {
  return {std::move(name), std::move(make), std::move(call), false, Convention::kKeras};
}
Make keras_sequential() {
  return [](DType) {
    return std::make_unique<Sequential>(Conv2D(3, {2, 2}, Activation::kRelu), BatchNorm(),
                                        DepthwiseConv2D({2, 2}, Activation::kNone, {.multiplier = 2}),
                                        BatchNorm(),
                                        Conv2DTranspose(2, {3, 3}, Activation::kNone, {.stride = {2, 2}}),
                                        LayerNorm(), Dense(4, Activation::kTanh), Dense(2));
  };
}
const RecurrentLayerOptions kBidirectional{.bidirectional = true};

const ModuleCase kKerasLayers[] = {
    keras("sequential", keras_sequential()),
    keras("depthwise_conv1d",
          make<DepthwiseConv1D>(Dims{3}, Activation::kNone, DepthwiseConvOptions{.multiplier = 2})),
    keras("rms_norm", make<RmsNorm>()),
    keras("group_norm", make<GroupNorm>(2)),
    keras("lstm", make<LSTM>(4)),
    keras("gru", make<GRU>(4)),
    keras("lstm_cell", make<LSTMCell>(4)),
    keras("lstm_bidirectional", make<LSTM>(4, kBidirectional)),
    keras("gru_bidirectional", make<GRU>(4, kBidirectional)),
    keras("attention", make<MultiHeadAttention>(8, 2)),
    keras("attention_no_bias", make<MultiHeadAttention>(8, 2, MultiHeadAttentionOptions{.bias = false})),
    keras("attention_grouped",
          make<MultiHeadAttention>(24, 6, MultiHeadAttentionOptions{.key_value_heads = 3})),
    keras("cross_attention", make<CrossAttention>(8, 2), kAllInputs),
};

struct ModelCase : ModuleCase {
  bool classifies = true;  // by cross-entropy; otherwise the loss is the squared error
  std::function<optim::Optimizer()> optimizer;
};

void PrintTo(const ModelCase& c, std::ostream* out) { *out << c.name; }

optim::Optimizer adam() {
  return optim::Adam({.learning_rate = 3e-3, .epsilon = 1e-8, .epsilon_after_correction = true});
}
optim::Optimizer momentum() {
  return optim::Sgd({.learning_rate = 0.02, .momentum = 0.9, .learning_rate_outside_velocity = true});
}
optim::Optimizer adamw_of_matrices() {
  return optim::AdamW({.learning_rate = 3e-3,
                       .beta_2 = 0.95,
                       .weight_decay = {.rate = 0.1, .applies = [](const Variable& parameter) {
                                          return parameter.shape().rank() >= 2;
                                        }}});
}

template <typename Model, typename... Arguments>
Make from(Model (*function)(Arguments...), std::type_identity_t<std::decay_t<Arguments>>... arguments) {
  return [=](DType) { return std::make_unique<Model>(function(arguments...)); };
}
Make gpt(GptOptions options) {
  return [options](DType dtype) mutable {
    options.dtype = dtype;
    return std::make_unique<Gpt>(options);
  };
}

const ModelCase kModels[] = {
    {{"mlp", from(mlp, {12, 8, 4}, Activation::kRelu)}, true, adam},
    {{"lenet", from(lenet, 3)}, true, adam},
    {{"resnet",
      make<ResNet>(ResNetOptions{.blocks = {1, 1}, .widths = {4, 8}, .classes = 3, .norm = batch_norm()})},
     true,
     momentum},
    {{"resnet_bottleneck", make<ResNet>(ResNetOptions{.blocks = {1, 2},
                                                      .widths = {2, 4},
                                                      .bottleneck = true,
                                                      .small_images = false,
                                                      .classes = 3,
                                                      .norm = batch_norm()})},
     true,
     momentum},
    {{"lstm_forecaster", from(lstm_forecaster, 6, 2, 1)}, false, adam},
    {{"gru_forecaster", from(gru_forecaster, 6, 2, 1)}, false, adam},
    {{"temporal_forecaster", make<TemporalConvolutionForecaster>(temporal(5, 3, 3))}, false, adam},
    {{"gpt", gpt({.vocabulary = 11, .context = 8, .layers = 2, .heads = 2, .width = 16})},
     true,
     adamw_of_matrices},
    {{"gpt_biases", gpt({.vocabulary = 7, .context = 6, .layers = 1, .heads = 2, .width = 8, .bias = true})},
     true,
     adamw_of_matrices},
    {{"unet", make<UNet>(std::vector<int64_t>{4, 8, 12}, 2, 3)}, true, adam},
};

/// What PyTorch recorded of a case.
class Golden {
 public:
  Golden(const std::string& file, std::string name)
      : path_(std::string(ISOCHRON_SOURCE_DIR) + "/tests/golden/" + file + ".safetensors"),
        name_(std::move(name)),
        file_(path_) {}

  bool has(const std::string& key) const { return file_.find(name_ + "." + key) != nullptr; }
  /// Floats in `dtype`.
  Tensor read(const std::string& key, DType dtype) const {
    const Tensor tensor = file_.read(name_ + "." + key);
    return is_floating(tensor.dtype()) ? cast(tensor, dtype) : tensor;
  }
  Tensors inputs(DType dtype) const {
    Tensors result;
    while (has(fmt::format("input.{}", result.size()))) {
      result.push_back(read(fmt::format("input.{}", result.size()), dtype));
    }
    return result;
  }
  /// A built module filled with the tensors under `part`: "initial", "gradient" or "after". Tensors of the
  /// module that `part` lacks, such as buffers among gradients, keep their values.
  std::unique_ptr<Module> module(const ModuleCase& c, const std::string& part, DType dtype) const {
    std::unique_ptr<Module> module = c.make(dtype);
    const graph::EagerScope eager;
    c.call(*module, inputs(dtype));  // builds
    const WeightNaming naming{.convention = c.convention, .rename = [&](const std::string& name) {
                                return fmt::format("{}.{}.{}", name_, part, name);
                              }};
    const LoadReport report = load_weights(*module, path_, {.naming = naming, .strict = false});
    const size_t wanted = part == "after"      ? module->buffers().size()
                          : part == "gradient" ? module->parameters().size()
                                               : module->parameters().size() + module->buffers().size();
    EXPECT_EQ(report.loaded, wanted) << name_ << " " << part << ": missing "
                                     << fmt::format("{}", fmt::join(report.missing, ", "));
    // And none of theirs is left.
    for (const SafetensorsEntry& entry : file_.entries()) {
      if (!entry.name.starts_with(fmt::format("{}.{}.", name_, part))) continue;
      EXPECT_EQ(std::count(report.unexpected.begin(), report.unexpected.end(), entry.name), 0) << entry.name;
    }
    return module;
  }

 private:
  std::string path_;
  std::string name_;
  SafetensorsFile file_;
};

/// The house's tolerance in f32, relative to the largest element: what a sum of its terms may lose.
void expect_near(const Tensor& actual, const Tensor& expected, const std::string& what) {
  double largest = 1;
  for (const double e : expected.to_vector()) largest = std::max(largest, std::abs(e));
  const bool exact = actual.dtype() == DType::kF64;
  EXPECT_TRUE(near(actual, expected, exact ? 1e-11 : 1.3e-6, (exact ? 1e-12 : 1e-5) * largest)) << what;
}

/// Results, and gradients of sum(y dy) with respect to everything that can be differentiated, eager or
/// captured.
void expect_module(const ModuleCase& c, const std::string& file, DType dtype, bool captured) {
  const TrainingScope scope(c.training);
  const Golden golden(file, c.name);
  const Tensors inputs = golden.inputs(dtype);
  const Tensor dy = golden.read("dy", dtype);
  const std::unique_ptr<Module> module =
      c.make ? golden.module(c, "initial", dtype) : std::make_unique<Flatten>();
  const std::vector<Variable> parameters = module->parameters();
  const auto compute = [&](const Tensors& given) {
    GradientTape tape;
    const Tensor y = c.call(*module, given);
    Tensors sources;
    for (const Tensor& input : given) {
      if (is_floating(input.dtype())) sources.push_back(input);
    }
    sources.insert(sources.end(), parameters.begin(), parameters.end());
    Tensors all{y};
    for (const Tensor& gradient : tape.gradient(std::vector{y}, sources, std::vector{dy}))
      all.push_back(gradient);
    return all;
  };
  auto step = capture([&] { return compute(inputs); });
  Tensors all;
  if (captured) {
    const std::span<const Tensor> replayed = step();
    all.assign(replayed.begin(), replayed.end());
  } else {
    all = compute(inputs);
  }
  expect_near(all[0], golden.read("y", DType::kF64), "y");
  size_t next = 1;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_floating(inputs[i].dtype())) continue;
    expect_near(all[next++], golden.read(fmt::format("gradient_of_input.{}", i), DType::kF64),
                fmt::format("gradient of input {}", i));
  }
  if (!c.make) return;
  const std::vector<Variable> gradients = golden.module(c, "gradient", DType::kF64)->parameters();
  ASSERT_EQ(all.size(), next + gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    expect_near(all[next + i], gradients[i], "gradient of " + parameters[i].name());
  }
  const std::vector<Variable> after = golden.module(c, "after", DType::kF64)->buffers();
  for (size_t i = 0; i < after.size(); ++i)
    expect_near(module->buffers()[i], after[i], module->buffers()[i].name());
}

void expect_module(const ModuleCase& c, const std::string& file) {
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    for (const bool captured : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", dtype_name(dtype), captured ? "captured" : "eager"));
      expect_module(c, file, dtype, captured);
    }
  }
}

/// What is saved under the other framework's names is what that wrote; PyTorch's is kept for
/// make_models_torch.py
/// --check.
void expect_saved_the_same(const ModuleCase& c, const std::string& file) {
  if (!c.make) return;
  const TempFolder folder;
  const char* kept = c.convention == Convention::kPyTorch ? std::getenv("ISOCHRON_KEEP_WEIGHTS") : nullptr;
  const std::filesystem::path path =
      (kept ? std::filesystem::path(kept) : folder.path()) / (c.name + ".safetensors");
  const Golden golden(file, c.name);
  const TrainingScope scope(false);
  save_weights(*golden.module(c, "initial", DType::kF64), path, {.naming = {.convention = c.convention}});
  const SafetensorsFile saved(path);
  for (const SafetensorsEntry& entry : saved.entries()) {
    ASSERT_TRUE(golden.has("initial." + entry.name)) << entry.name;
    const Tensor theirs = golden.read("initial." + entry.name, DType::kF64);
    EXPECT_EQ(saved.read(entry.name).shape(), theirs.shape()) << entry.name;
    // The two biases that are added come back as their sum and zeros.
    if (entry.name.find("bias_ih") != std::string::npos || entry.name.find("bias_hh") != std::string::npos)
      continue;
    EXPECT_TRUE(near(saved.read(entry.name), theirs, 0)) << entry.name;
  }
}

class GoldenLayers : public testing::TestWithParam<ModuleCase> {};
TEST_P(GoldenLayers, ResultsAndGradientsAgree) { expect_module(GetParam(), "layers_torch"); }
TEST_P(GoldenLayers, WeightsAreSavedAsPyTorchDoes) { expect_saved_the_same(GetParam(), "layers_torch"); }
INSTANTIATE_TEST_SUITE_P(PyTorch, GoldenLayers, testing::ValuesIn(kLayers),
                         [](const auto& row) { return row.param.name; });

class KerasLayers : public testing::TestWithParam<ModuleCase> {};
TEST_P(KerasLayers, ResultsAgree) {
  const ModuleCase& c = GetParam();
  const TrainingScope inference(false);
  const Golden golden("layers_keras", c.name);
  const std::unique_ptr<Module> layer = golden.module(c, "initial", DType::kF64);
  expect_near(c.call(*layer, golden.inputs(DType::kF64)), golden.read("y", DType::kF64), "y");
}
TEST_P(KerasLayers, WeightsAreSavedAsKerasDoes) { expect_saved_the_same(GetParam(), "layers_keras"); }
INSTANTIATE_TEST_SUITE_P(Keras, KerasLayers, testing::ValuesIn(kKerasLayers),
                         [](const auto& row) { return row.param.name; });

class GoldenModels : public testing::TestWithParam<ModelCase> {
 protected:
  std::string file() const { return "model_" + GetParam().name + "_torch"; }

  void expect_losses(DType dtype, double tolerance) const {
    const ModelCase& c = GetParam();
    const Golden golden(file(), c.name);
    const std::unique_ptr<Module> model = golden.module(c, "initial", dtype);
    optim::Optimizer optimizer = c.optimizer();
    auto step = capture([&](const Tensor& x, const Tensor& target) {
      const Tensor y = (*model)(x);
      const Tensor loss =
          c.classifies ? sparse_softmax_cross_entropy(y, target) : mean_squared_error(y, target);
      optimizer.minimize(loss, model->parameters());
      return loss;
    });
    const Tensor all_x = golden.read("train.x", dtype);
    const Tensor all_targets = golden.read("train.target", dtype);
    const int64_t batches = all_x.extent(0);
    const Tensor losses = golden.read("losses." + std::string(dtype_name(dtype)), DType::kF64);
    std::vector<double> got;
    for (int64_t i = 0; i < losses.elems(); ++i) {
      const auto batch = [&](const Tensor& all) { return squeeze(narrow(all, 0, i % batches, 1), {0}); };
      got.push_back(step(batch(all_x), batch(all_targets)).item<double>());
    }
    EXPECT_EQ(losses.elems(), 50);
    EXPECT_TRUE(near(from_vector(losses.shape(), got, DType::kF64), losses, tolerance));
    EXPECT_EQ(step.plan_count(), 1u);
  }
};
TEST_P(GoldenModels, ResultsAndGradientsAgree) { expect_module(GetParam(), file()); }
TEST_P(GoldenModels, WeightsAreSavedAsPyTorchDoes) { expect_saved_the_same(GetParam(), file()); }
TEST_P(GoldenModels, LossesOfFiftyStepsAgreeInF64) { expect_losses(DType::kF64, 1e-9); }
TEST_P(GoldenModels, LossesOfFiftyStepsAgreeInF32) { expect_losses(DType::kF32, 1e-4); }
INSTANTIATE_TEST_SUITE_P(PyTorch, GoldenModels, testing::ValuesIn(kModels),
                         [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace isochron::nn
