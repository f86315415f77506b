#include "isochron/apps/bench/cases.h"

#include <array>
#include <cmath>

#include "isochron/apps/bench/unet.h"
#include "isochron/apps/device_wait.h"
#include "isochron/core/base/rng.h"
#include "isochron/data/element/element_buffer.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/models/gpt.h"
#include "isochron/nn/models/models.h"
#include "isochron/nn/models/resnet.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/loop/batch_functions.h"

namespace isochron::apps {
namespace {

constexpr uint64_t kSeed = 1;

Tensor normal_numbers(const Shape& shape, Rng& rng) {
  Tensor result = empty({DType::kF32, shape});
  for (float& value : result.span<float>()) value = static_cast<float>(rng.normal());
  return result;
}

Tensor random_labels(const Shape& shape, uint64_t classes, Rng& rng) {
  Tensor result = empty({DType::kI64, shape});
  for (int64_t& value : result.span<int64_t>()) value = static_cast<int64_t>(rng.below(classes));
  return result;
}

CaptureOptions capture_options(std::string name, const CaseOptions& options) {
  return {.name = std::move(name),
          .passes = {.precision = options.precision},
          .plan = {.device = options.device, .concurrent = options.concurrent}};
}

optim::StepOptions among(const CaseOptions& options) { return {.group = options.group}; }

nn::Sequential tiny_model() { return nn::Sequential(nn::Dense(10, nn::Activation::kRelu), nn::Dense(1)); }

/// A model trained on a few batches in turn.
class TrainCase final : public CaseRun {
 public:
  TrainCase(std::unique_ptr<nn::Module> model, optim::Optimizer optimizer, train::Loss loss,
            const DrawBatch& draw, const CaseOptions& options)
      : model_(std::move(model)),
        optimizer_(std::move(optimizer)),
        wait_(options.device),
        step_([this, loss](const Tensor& a, const Tensor& b) { return train(loss, a, b); },
              capture_options("train_step", options)) {
    Rng rng(kSeed);
    for (int i = 0; i < (options.device.is_cpu() ? kBatches : kDeviceBatches); ++i) {
      const auto [x, y] = draw(rng);
      batches_.emplace_back(to_device(x, options.device), to_device(y, options.device));
    }
    step();
    step_.seal();
  }
  void step() override {
    const auto& [x, y] = batches_[next_];
    next_ = (next_ + 1) % batches_.size();
    step_(x, y);
    wait_();
  }
  CapturedFunction* captured() override { return &step_; }

 private:
  Tensor train(const train::Loss& loss_function, const Tensor& x, const Tensor& y) {
    const Tensor loss = loss_function((*model_)(x), y);
    optimizer_.minimize(loss, model_->parameters());
    return loss;
  }

  static constexpr int kBatches = 8, kDeviceBatches = 4;  // the number of recordings that a device keeps

  std::unique_ptr<nn::Module> model_;
  optim::Optimizer optimizer_;
  std::vector<std::pair<Tensor, Tensor>> batches_;
  size_t next_ = 0;
  DeviceWait wait_;
  Captured<std::function<Tensor(const Tensor&, const Tensor&)>> step_;
};

template <typename Model>
std::unique_ptr<CaseRun> train_model(Model model, optim::Optimizer optimizer, train::Loss loss,
                                     const DrawBatch& draw, const CaseOptions& options) {
  return apps::train_case(std::make_unique<Model>(std::move(model)), std::move(optimizer), std::move(loss),
                          draw, options);
}

std::unique_ptr<CaseRun> make_tiny(const CaseOptions& options) {
  const DrawBatch draw = [](Rng& rng) {
    return std::pair{normal_numbers({32, 100}, rng), normal_numbers({32, 1}, rng)};
  };
  return train_model(tiny_model(), optim::Adam({.step = among(options)}), nn::mean_squared_error, draw,
                     options);
}

std::unique_ptr<CaseRun> make_mlp(const CaseOptions& options) {
  const DrawBatch draw = [](Rng& rng) {
    return std::pair{normal_numbers({128, 784}, rng), random_labels({128}, 10, rng)};
  };
  return train_model(nn::mlp({512, 512, 10}), optim::Adam({.step = among(options)}),
                     nn::sparse_softmax_cross_entropy, draw, options);
}

std::unique_ptr<CaseRun> make_cnn(const CaseOptions& options) {
  const DrawBatch draw = [](Rng& rng) {
    return std::pair{normal_numbers({64, 28, 28, 1}, rng), random_labels({64}, 10, rng)};
  };
  nn::Sequential model(nn::Conv2D(32, {3, 3}, nn::Activation::kRelu),
                       nn::Conv2D(64, {3, 3}, nn::Activation::kRelu), nn::MaxPool2D({2, 2}), nn::Flatten(),
                       nn::Dense(128, nn::Activation::kRelu), nn::Dense(10));
  return train_model(std::move(model), optim::RmsProp({.step = among(options)}),
                     nn::sparse_softmax_cross_entropy, draw, options);
}

std::unique_ptr<CaseRun> make_resnet20(const CaseOptions& options) {
  const DrawBatch draw = [](Rng& rng) {
    return std::pair{normal_numbers({32, 32, 32, 3}, rng), random_labels({32}, 10, rng)};
  };
  return train_model(nn::resnet20(),
                     optim::Sgd({.learning_rate = 0.01, .momentum = 0.9, .step = among(options)}),
                     nn::sparse_softmax_cross_entropy, draw, options);
}

std::unique_ptr<CaseRun> make_unet(const CaseOptions& options) {
  const DrawBatch draw = [](Rng& rng) {
    return std::pair{normal_numbers({8, 64, 64, 3}, rng), normal_numbers({8, 64, 64, 1}, rng)};
  };
  return train_model(UNet({32, 64, 128}, 8, 1), optim::Adam({.step = among(options)}), nn::mean_squared_error,
                     draw, options);
}

std::unique_ptr<CaseRun> make_gpt(const CaseOptions& options) {
  constexpr int64_t kVocabulary = 65;
  const DrawBatch draw = [](Rng& rng) {
    return std::pair{random_labels({12, 64}, kVocabulary, rng), random_labels({12, 64}, kVocabulary, rng)};
  };
  const auto matrices = [](const Variable& parameter) { return parameter.shape().rank() >= 2; };
  return train_model(
      nn::Gpt({.vocabulary = kVocabulary, .context = 64, .layers = 4, .heads = 4, .width = 128}),
      optim::AdamW(
          {.beta_2 = 0.99, .weight_decay = {.rate = 0.1, .applies = matrices}, .step = among(options)}),
      nn::sparse_softmax_cross_entropy, draw, options);
}

std::unique_ptr<CaseRun> make_lstm(const CaseOptions& options) {
  const DrawBatch draw = [](Rng& rng) {
    return std::pair{normal_numbers({64, 48, 8}, rng), normal_numbers({64, 1}, rng)};
  };
  return train_model(nn::lstm_forecaster(), optim::Adam({.step = among(options)}), nn::mean_squared_error,
                     draw, options);
}

/// One epoch of `tiny` on 1,000 rows through the input pipeline.
class EpochCase final : public CaseRun {
 public:
  explicit EpochCase(const CaseOptions& options)
      : batches_(make_batches()),
        model_(tiny_model()),
        optimizer_({.step = among(options)}),
        wait_(options.device),
        step_(make_step(options)) {
    Rng rng(kSeed);
    x_ = normal_numbers({kBatch, 100}, rng);
    y_ = normal_numbers({kBatch, 1}, rng);
    for (const Signature& signature : batches_.signatures()) step_.prepare(signature);
    step_.seal();
  }
  void step() override {
    for (const auto& [x, y] : batches_) step_(x, y);
    wait_();
  }
  /// Calls the step again with a full batch that lives as long as the case, because an epoch ends with a
  /// smaller batch.
  CapturedFunction* captured() override {
    step_(x_, y_);
    wait_();
    return &step_;
  }

  static data::TupleDataset<2> make_batches() {
    Rng rng(kSeed);
    const Tensor x = normal_numbers({1000, 100}, rng);
    const Tensor y = normal_numbers({1000, 1}, rng);
    return data::from_tensor_slices(x, y).shuffle(1000).batch(kBatch).prefetch();
  }

 private:
  static constexpr int64_t kBatch = 32;

  using Function = std::function<Tensor(const Tensor&, const Tensor&)>;
  Captured<Function> make_step(const CaseOptions& options) {
    return Captured<Function>(
        [this](const Tensor& x, const Tensor& y) {
          const Tensor loss = nn::mean_squared_error(model_(x), y);
          optimizer_.minimize(loss, model_.parameters());
          return loss;
        },
        capture_options("train_step", options));
  }

  data::TupleDataset<2> batches_;
  nn::Sequential model_;
  optim::Adam optimizer_;
  DeviceWait wait_;
  Tensor x_;
  Tensor y_;
  Captured<Function> step_;
};

/// Only the input pipeline of EpochCase.
class DataCase final : public CaseRun {
 public:
  DataCase() : batches_(EpochCase::make_batches()) {}
  void step() override {
    for (const auto& [x, y] : batches_) rows_ += x.extent(0);
  }

 private:
  data::TupleDataset<2> batches_;
  int64_t rows_ = 0;
};

/// 10,000 rows of 100 floats through map, shuffle(1000), batch(32) and prefetch; the time is per row.
class PipelineCase final : public CaseRun {
 public:
  static constexpr int64_t kRows = 10'000, kWidth = 100;

  PipelineCase()
      : batches_(
            rows().map_into({"0"}, {{DType::kF32, {kWidth}}}, twice).shuffle(1000).batch(32).prefetch()) {}
  void step() override {
    for (const data::Element& batch : batches_) rows_ += batch[0].extent(0);
  }
  double units() const override { return kRows; }

  static data::Dataset rows() {
    Rng rng(kSeed);
    return data::Dataset(data::Element{{"0", normal_numbers({kRows, kWidth}, rng)}});
  }

 private:
  static void twice(const data::Element& input, data::ElementBuffer& output, const data::Position&) {
    const std::span<const float> from = input[0].span<float>();
    std::transform(from.begin(), from.end(), reinterpret_cast<float*>(output.room(0)),
                   [](float x) { return 2 * x; });
  }

  data::Dataset batches_;
  int64_t rows_ = 0;
};

/// The same rows one by one through a map that returns its argument, on the calling thread. The time is per
/// row.
class MapCase final : public CaseRun {
 public:
  MapCase() : rows_(PipelineCase::rows().map([](data::Element element) { return element; })) {}
  void step() override {
    for (const data::Element& row : rows_) elems_ += row[0].elems();
  }
  double units() const override { return PipelineCase::kRows; }

 private:
  data::Dataset rows_;
  int64_t elems_ = 0;
};

constexpr int64_t kLoopIterations = 1000;
constexpr double kLoopStart = 1.1;

/// x = fmod(2 x, 7) as an in-graph loop; the time is per iteration.
class WhileCase final : public CaseRun {
 public:
  WhileCase() : step_(&WhileCase::loop, {.name = "while"}) { step_(x_, n_); }
  void step() override { step_(x_, n_); }
  CapturedFunction* captured() override { return &step_; }
  double units() const override { return kLoopIterations; }

 private:
  static Tensor loop(const Tensor& x, const Tensor& n) {
    return while_loop([&](std::span<const Tensor> s) { return s[0] < n; },
                      [](std::span<const Tensor> s) {
                        return std::vector<Tensor>{s[0] + 1.0, fmod(s[1] * 2.0, 7.0)};
                      },
                      {scalar(0, DType::kI64), x})[1];
  }
  Tensor x_ = full({}, kLoopStart, DType::kF64);
  Tensor n_ = full({}, static_cast<double>(kLoopIterations), DType::kI64);
  Captured<Tensor (*)(const Tensor&, const Tensor&)> step_;
};

/// The same eagerly; the time is per op.
class EagerCase final : public CaseRun {
 public:
  void step() override {
    Tensor x = full({}, kLoopStart, DType::kF64);
    for (int64_t i = 0; i < kLoopIterations; ++i) x = fmod(x * 2.0, 7.0);
    require(std::isfinite(x.item<double>()), ErrorCode::kNotANumber, "bench", "the loop gave {}", x.str());
  }
  double units() const override { return 2 * kLoopIterations; }
};

template <typename T>
std::unique_ptr<CaseRun> make(const CaseOptions&) {
  return std::make_unique<T>();
}
std::unique_ptr<CaseRun> make_epoch(const CaseOptions& options) {
  return std::make_unique<EpochCase>(options);
}

}  // namespace

std::unique_ptr<CaseRun> train_case(std::unique_ptr<nn::Module> model, optim::Optimizer optimizer,
                                    train::Loss loss, const DrawBatch& draw, const CaseOptions& options) {
  return std::make_unique<TrainCase>(std::move(model), std::move(optimizer), std::move(loss), draw, options);
}

const std::vector<BenchCase>& bench_cases() {
  static const std::vector<BenchCase> list = {
      {"tiny", "100-10-1, batch 32, Adam, mean squared error; time per train step", make_tiny},
      {"mlp", "784-512-512-10, batch 128, Adam; time per train step", make_mlp},
      {"cnn", "28x28x1, two convolutions, two dense layers, batch 64, RMSprop; time per train step", make_cnn,
       "f32", true, Uses::kConvolutions},
      {"resnet20", "CIFAR ResNet-20 with batch norm, 32x32x3, batch 32, momentum 0.9; time per train step",
       make_resnet20, "f32", true, Uses::kConvolutions},
      {"unet", "U-Net of widths 32, 64, 128 with group norm, 64x64x3, batch 8, Adam; time per train step",
       make_unet, "f32", true, Uses::kConvolutions},
      {"lstm",
       "64 sequences of 48 steps of 8, LSTM 64, dense 1, Adam, mean squared error; time per train step",
       make_lstm},
      {"gpt", "4 blocks of 4 heads, width 128, 12 sequences of 64 of 65 tokens, AdamW; time per train step",
       make_gpt, "f32", true, Uses::kAttention},
      {"epoch", "tiny on 1,000 rows: shuffle(1000).batch(32).prefetch(); time per epoch of 32 steps",
       make_epoch},
      {"data", "that pipeline alone; time per epoch", make<DataCase>, "f32", false},
      {"pipeline", "10,000 rows of 100 floats: map(2 x).shuffle(1000).batch(32).prefetch(); time per row",
       make<PipelineCase>, "f32", false},
      {"map", "those rows one by one through map(x), on one thread; time per row", make<MapCase>, "f32",
       false},
      {"growing_graph", "x = fmod(2 x, 7) as an in-graph while; time per iteration", make<WhileCase>, "f64",
       false},
      {"eager", "the same op by op; time per op", make<EagerCase>, "f64", false},
  };
  return list;
}

const BenchCase& bench_case(const std::string& name) {
  std::string names;
  for (const BenchCase& entry : bench_cases()) {
    if (entry.name == name) return entry;
    names += (names.empty() ? "" : ", ") + entry.name;
  }
  fail(ErrorCode::kInvalidArgument, "bench", "no case '{}'; cases are {}", name, names);
}

}  // namespace isochron::apps
