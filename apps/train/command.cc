// `isochron train`: the bundled models, trained on the shipped data or on files of the same form.
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>
#include <optional>

#include "isochron/apps/allocation_counter.h"
#include "isochron/apps/commands.h"
#include "isochron/apps/number_options.h"
#include "isochron/core/clock.h"
#include "isochron/core/file.h"
#include "isochron/core/threads.h"
#include "isochron/data/datasets.h"
#include "isochron/nn/layers.h"
#include "isochron/nn/losses.h"
#include "isochron/nn/sequential.h"
#include "isochron/observe/report.h"
#include "isochron/ops/choices.h"
#include "isochron/ops/random.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/trainer.h"

namespace isochron::apps {
namespace {

using nlohmann::ordered_json;
using nn::Activation;

struct Options {
  std::string model;
  std::filesystem::path data;
  int epochs = 0;  // 0: the model's own, as below
  int64_t batch = 0;
  std::string optimizer = "adam";
  std::optional<double> learning_rate;
  uint64_t seed = 0;
  int threads = 0;
  bool deterministic = false;
  bool require_flat = false;
  std::filesystem::path json;
  std::filesystem::path out;
  // Accepted so that asking for them is answered, not ignored.
  std::string precision = "f32";
  std::string device = "cpu";
  int accumulate = 1;
  std::filesystem::path checkpoint;
  bool resume = false;
  std::filesystem::path tensorboard;
};

void require_built(bool built, std::string_view option, std::string_view instead) {
  require(built, ErrorCode::kUnsupported, "train", "{} is not built yet; {}", option, instead);
}

void refuse_what_is_not_built(const Options& options) {
  require_built(options.precision == "f32", "--precision " + options.precision, "f32 is");
  require_built(options.device == "cpu", "--device " + options.device, "cpu is");
  require_built(options.accumulate == 1, "--accumulate", "use a larger --batch");
  require_built(options.checkpoint.empty() && !options.resume, "--checkpoint and --resume",
                "train in one run");
  require_built(options.tensorboard.empty(), "--tensorboard", "--out writes CSV and JSON");
}

optim::Optimizer make_optimizer(const std::string& name, double learning_rate) {
  if (name == "rmsprop") return optim::RmsProp({.learning_rate = learning_rate});
  if (name == "sgd") return optim::Sgd({.learning_rate = learning_rate});
  if (name == "momentum") return optim::Sgd({.learning_rate = learning_rate, .momentum = 0.9});
  return optim::Adam({.learning_rate = learning_rate});
}

struct Defaults {
  int epochs;
  int64_t batch;
};

/// What the models share: options with the defaults filled in, optimizer, recorder, and the end of a run.
class Session {
 public:
  Session(const Options& options, const Defaults& defaults)
      : options_(options),
        epochs_(options.epochs > 0 ? options.epochs : defaults.epochs),
        batch_(options.batch > 0 ? options.batch : defaults.batch),
        optimizer_(make_optimizer(options.optimizer, learning_rate())),
        recorder_({.classes = 2,
                   .heap_allocations = allocations_counted() ? heap_allocations : nullptr,
                   .library_allocations = allocations_counted() ? library_allocations : nullptr}) {
    nn::set_initializer_seed(options.seed);
    random::set_seed(options.seed);
  }

  optim::Optimizer& optimizer() { return optimizer_; }
  int epochs() const { return epochs_; }
  const std::filesystem::path& data() const { return options_.data; }

  template <typename Dataset>
  Dataset batches(const Dataset& rows) const {
    return rows.shuffle(kShuffleRows, {.seed = options_.seed}).batch(batch_).prefetch();
  }

  /// From the learning rate down to nearly none over the run (Loshchilov and Hutter, ICLR 2017).
  train::LearningRateScheduler cosine_decay() {
    return {optimizer_, [this](int epoch, double) {
              return learning_rate() * 0.5 * (1 + std::cos(std::numbers::pi * (epoch - 1) / epochs_));
            }};
  }

  void fit(train::Trainer& trainer, train::Batches data, train::FitOptions fit_options) {
    fmt::print("{} epochs, batch {}, {}, learning rate {:g}\n", epochs_, batch_, options_.optimizer,
               learning_rate());
    std::fflush(stdout);
    fit_options.epochs = epochs_;
    fit_options.recorder = &recorder_;
    history_ = trainer.fit(data, fit_options);
  }

  /// `test`: what the trained model was found to reach. Throws CheckFailed.
  void finish(const ordered_json& test) {
    const observe::RunReport report = observe::make_report(recorder_, "train " + options_.model);
    fmt::print("\n{}", observe::table_text({&report, 1}));
    std::fflush(stdout);
    write(report, test);
    for (const auto& [name, value] : test.items()) {
      require(!value.is_number() || std::isfinite(value.get<double>()), ErrorCode::kNotANumber, "train",
              "the test's {} is {}; try a smaller learning rate", name, value.get<double>());
    }
    if (options_.require_flat && report.time.kind != observe::Flatness::kFlat) {
      throw CheckFailed(fmt::format("the time of a step is not found flat: {}", report.time.reason));
    }
  }

 private:
  static constexpr int64_t kShuffleRows = 1 << 14;

  double learning_rate() const {
    if (options_.learning_rate) return *options_.learning_rate;
    return options_.optimizer == "sgd" || options_.optimizer == "momentum" ? 0.01 : 0.001;
  }

  void write(const observe::RunReport& report, const ordered_json& test) const {
    ordered_json epochs = ordered_json::array();
    for (const train::EpochRecord& record : history_.epochs) {
      ordered_json line = {{"epoch", record.epoch},
                           {"steps", record.steps},
                           {"seconds", record.seconds},
                           {"step_p50_ns", record.step_p50_ns}};
      for (const auto& [name, value] : record.results) line[name] = value;
      epochs.push_back(std::move(line));
    }
    const ordered_json document = {{"model", options_.model},
                                   {"optimizer", options_.optimizer},
                                   {"learning_rate", learning_rate()},
                                   {"batch", batch_},
                                   {"seed", options_.seed},
                                   {"threads", compute_threads()},
                                   {"epochs", std::move(epochs)},
                                   {"test", test},
                                   {"report", ordered_json::parse(observe::to_json(report, -1))}};
    const std::string text = document.dump(2) + "\n";
    if (!options_.json.empty()) write_file_atomically(options_.json, text);
    if (options_.out.empty()) return;
    write_file_atomically(options_.out / "train.json", text);
    write_file_atomically(options_.out / "history.csv", history_.csv());
    write_file_atomically(options_.out / "windows.csv", observe::to_csv(report));
    fmt::print("train.json, history.csv and windows.csv are in {}\n", options_.out.string());
  }

  const Options& options_;
  int epochs_;
  int64_t batch_;
  optim::Optimizer optimizer_;
  observe::Recorder recorder_;
  train::History history_;
};

ordered_json as_json(const train::Results& results) {
  ordered_json object;
  for (const auto& [name, value] : results) object[name] = value;
  return object;
}

void train_digits(const Options& options) {
  Session session(options, {.epochs = 40, .batch = 32});
  const data::Digits digits = data::load_digits(session.data());
  fmt::print("digits: {} images of 8 x 8 to train on, {} to test on\n", digits.train.images.extent(0),
             digits.test.images.extent(0));
  const nn::ConvOptions same{.padding = Padding::same()};
  nn::Sequential model(nn::Conv2D(32, {3, 3}, Activation::kRelu, same),
                       nn::Conv2D(64, {3, 3}, Activation::kRelu, same), nn::MaxPool2D({2, 2}), nn::Flatten(),
                       nn::Dropout(0.25), nn::Dense(128, Activation::kRelu), nn::Dropout(0.5), nn::Dense(10));
  const auto loss = [](const Tensor& logits, const Tensor& labels) {
    return nn::sparse_softmax_cross_entropy(logits, labels);
  };
  train::Trainer trainer(model, loss, session.optimizer(),
                         {train::metric("accuracy", nn::SparseCategoricalAccuracy())});
  auto batches = session.batches(data::from_tensor_slices(digits.train.images, digits.train.labels));
  auto test = data::from_tensor_slices(digits.test.images, digits.test.labels)
                  .batch(batches.signatures()[0][0].shape[0]);
  train::LearningRateScheduler decay = session.cosine_decay();
  session.fit(trainer, batches, {.callbacks = {&decay}});
  const train::Results results = trainer.evaluate(test);
  fmt::print("test: {}\n", results.str());
  session.finish(as_json(results));
}

void train_co2(const Options& options) {
  Session session(options, {.epochs = 100, .batch = 64});
  const data::Co2 co2 = data::load_co2(session.data());
  fmt::print("co2: {} windows of {} weeks to train on, {} from 1990 on to test on\n",
             co2.train.inputs.extent(0), co2.train.inputs.extent(1), co2.test.inputs.extent(0));
  nn::Sequential model(nn::Dense(64, Activation::kRelu), nn::Dense(32, Activation::kRelu), nn::Dense(1));
  train::Trainer trainer(model, nn::mean_squared_error, session.optimizer());
  auto batches = session.batches(data::from_tensor_slices(co2.train.inputs, co2.train.targets));
  auto test = data::from_tensor_slices(co2.test.inputs, co2.test.targets).batch(256);
  session.fit(trainer, batches, {});
  const data::ForecastError error = co2.error(co2.test, trainer.predict(test));
  const auto line = [](std::string_view name, const data::ForecastError& e) {
    fmt::print("  {:<22} {:.3f} ppm RMSE  {:.3f} ppm MAE\n", name, e.rmse_ppm, e.mae_ppm);
  };
  fmt::print("test, one week ahead:\n");
  line("this model", error);
  line("same as last week", co2.same_as_last_week);
  line("last year plus trend", co2.seasonal_with_trend);
  session.finish({{"rmse_ppm", error.rmse_ppm},
                  {"mae_ppm", error.mae_ppm},
                  {"same_as_last_week_rmse_ppm", co2.same_as_last_week.rmse_ppm},
                  {"seasonal_rmse_ppm", co2.seasonal_with_trend.rmse_ppm}});
}

/// The model of the document on slow GPU epochs, with its line an epoch.
void train_regress(const Options& options) {
  require(options.data.empty(), ErrorCode::kInvalidArgument, "train",
          "regress draws its own data; --data belongs to digits and co2");
  Session session(options, {.epochs = 10, .batch = 32});
  const Tensor x = random_normal({1000, 100});
  const Tensor y = random_normal({1000, 1});
  fmt::print("regress: 1000 rows of 100 standard normal numbers, targets as well\n");
  nn::Sequential model(nn::Dense(10, Activation::kRelu), nn::Dense(1));
  train::Trainer trainer(model, nn::mean_squared_error, session.optimizer());
  auto batches = session.batches(data::from_tensor_slices(x, y));
  int64_t began_ns = 0;
  train::LambdaCallback lines({.on_epoch_begin = [&](train::RunState&) { began_ns = now_ns(); },
                               .on_epoch_end =
                                   [&](train::RunState& run, const train::Results&) {
                                     fmt::print("Epoch {}, Time: {:.4f} seconds\n", run.epoch,
                                                static_cast<double>(now_ns() - began_ns) * 1e-9);
                                   }});
  session.fit(trainer, batches, {.callbacks = {&lines}, .progress = nullptr});
  auto all = data::from_tensor_slices(x, y).batch(1000);
  const train::Results results = trainer.evaluate(all);
  fmt::print("all rows: {}\n", results.str());
  session.finish(as_json(results));
}

struct Model {
  std::string name;
  std::string what;
  void (*train)(const Options&);
};

const std::vector<Model>& known_models() {
  static const std::vector<Model> list = {
      {"digits", "a small convolutional network on handwritten digits", train_digits},
      {"co2", "a forecaster of weekly CO2, one week ahead", train_co2},
      {"regress", "a 100-10-1 network on random numbers", train_regress}};
  return list;
}

void run(const Options& options) {
  std::string names;
  for (const Model& model : known_models()) {
    if (model.name != options.model) {
      names += (names.empty() ? "" : ", ") + model.name;
      continue;
    }
    refuse_what_is_not_built(options);
    if (options.threads > 0) set_compute_threads(options.threads);
    ops::set_deterministic(options.deterministic);
    require_folder_of(options.json);
    make_folder(options.out);
    return model.train(options);
  }
  fail(ErrorCode::kInvalidArgument, "train", "no model '{}'; models are {}", options.model, names);
}

}  // namespace

void add_train(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("train", "train a bundled model");
  std::string models = "one of";
  for (const Model& model : known_models()) models += fmt::format("\n  {}: {}", model.name, model.what);
  command->add_option("model", options->model, models)->required();
  command->add_option("--data", options->data, "CSV of the form of the shipped data (digits, co2)");
  command->add_option("--epochs", options->epochs, "default: the model's own")
      ->check(whole_number(1, INT32_MAX));
  command->add_option("--batch", options->batch, "rows a step; default: the model's own")
      ->check(whole_number(1));
  command->add_option("--optimizer", options->optimizer, "adam, rmsprop, sgd or momentum")
      ->check(CLI::IsMember({"adam", "rmsprop", "sgd", "momentum"}))
      ->capture_default_str();
  command->add_option("--learning-rate", options->learning_rate, "default: 0.001, 0.01 for sgd and momentum")
      ->check(positive_number());
  command->add_option("--seed", options->seed, "of weights, order and dropout")
      ->check(whole_number(0))
      ->capture_default_str();
  command->add_option("--threads", options->threads, "compute threads")->check(whole_number(1, INT32_MAX));
  command->add_flag("--deterministic", options->deterministic,
                    "choose kernels by rule, not by timing: equal runs give equal bits");
  command->add_flag("--require-flat", options->require_flat,
                    "exit with 1 unless the time of a step is found flat over the run");
  command->add_option("--json", options->json, "file for settings, epochs, test results and report");
  command->add_option("--out", options->out, "folder for train.json, history.csv and windows.csv");
  command->add_option("--precision", options->precision, "f32")
      ->check(CLI::IsMember({"f32", "mixed_bf16", "mixed_f16"}))
      ->capture_default_str();
  command->add_option("--device", options->device, "cpu")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_option("--accumulate", options->accumulate, "not built yet")->check(whole_number(1));
  command->add_option("--checkpoint", options->checkpoint, "not built yet");
  command->add_flag("--resume", options->resume, "not built yet");
  command->add_option("--tensorboard", options->tensorboard, "not built yet");
  command->callback([options] { run(*options); });
}

}  // namespace isochron::apps
