// A character-level language model: a small GPT trained on the project's own sources or on any text.
#include <array>
#include <cmath>
#include <memory>

#include "isochron/apps/train/families.h"
#include "isochron/apps/train/session.h"
#include "isochron/core/files/program_folder.h"
#include "isochron/core/text/count_text.h"
#include "isochron/data/formats/text.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/models/gpt.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::apps {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kContext = 64;
constexpr int64_t kTrainWindows = 1 << 16, kValidationWindows = 480;

/// The installed headers next to the command; or else the source and document folders from which it was
/// built; or else the headers at the configured installation path.
std::vector<fs::path> own_text() {
  std::vector<fs::path> places;
  std::error_code ignored;
  const fs::path beside = beside_program(ISOCHRON_HEADER_FOLDER) / "isochron";
  if (fs::is_directory(beside, ignored)) return {beside};
  for (const char* folder : {"core", "memory", "graph", "ops", "autograd", "optim", "nn", "data", "observe",
                             "train", "apps", "examples", "docs"}) {
    const fs::path path = fs::path(ISOCHRON_SOURCE_TREE) / folder;
    if (fs::is_directory(path, ignored)) places.push_back(path);
  }
  if (!places.empty()) return places;
  const fs::path installed = ISOCHRON_INSTALLED_HEADERS;
  require(fs::is_directory(installed, ignored), ErrorCode::kIo, "train",
          "the project's own text was not found in {} or {}; name a file or folder of text with --data",
          ISOCHRON_SOURCE_TREE, installed.string());
  return {installed};
}

data::Text load_text(const fs::path& path) {
  if (!path.empty()) return data::read_text({&path, 1});
  return data::read_text(own_text(), {.extensions = {".h", ".cc", ".md"}});
}

/// Adapts `functions`, which take (tokens, next tokens), to batches of the windows' start positions. The text
/// is in memory only once, and each step gathers its windows from it.
train::BatchFunctions on_windows(train::BatchFunctions functions, const data::Text& text, Device device) {
  const auto gathered = [](train::BatchFunction function, const Tensor& tokens) {
    return [function = std::move(function), tokens](const data::Element& batch) {
      const Tensor places = reshape(batch[0], {batch[0].extent(0), 1}) + constant(arange(kContext));
      const auto window = [&](const Tensor& at) { return cast(gather(tokens, at), DType::kI64); };
      return function(data::Element{{"tokens", window(places)}, {"next", window(places + 1)}});
    };
  };
  functions.train = gathered(std::move(functions.train), to_device(text.train, device));
  functions.evaluate = gathered(std::move(functions.evaluate), to_device(text.validation, device));
  functions.predict = {};
  return functions;
}

/// The mean negative log-likelihood of the validation text by character frequencies in the training text: of
/// single characters (order 1) or given the previous character (order 2). One is added to each count so that
/// none is 0.
double frequency_loss(const data::Text& text, int order) {
  const size_t size = text.vocabulary.size();
  std::vector<double> counts(order == 2 ? size * size : size, 1.0);
  std::vector<double> totals(order == 2 ? size : 1, static_cast<double>(size));
  const std::span<const uint8_t> train = text.train.span<uint8_t>();
  const auto row = [&](std::span<const uint8_t> tokens, size_t i) -> size_t {
    return order == 2 ? tokens[i - 1] : 0;
  };
  for (size_t i = 1; i < train.size(); ++i) {
    counts[row(train, i) * size + train[i]] += 1;
    totals[row(train, i)] += 1;
  }
  const std::span<const uint8_t> validation = text.validation.span<uint8_t>();
  double sum = 0;
  for (size_t i = 1; i < validation.size(); ++i) {
    const size_t before = row(validation, i);
    sum -= std::log(counts[before * size + validation[i]] / totals[before]);
  }
  return sum / static_cast<double>(validation.size() - 1);
}

std::string sample_of(nn::Gpt& model, const data::Text& text, uint64_t seed) {
  const bool lines = text.vocabulary.find('\n') != std::string::npos;
  const std::vector<int64_t> prompt = text.encode(lines ? "\n" : text.vocabulary.substr(0, 1));
  return text.decode(nn::generate(model, prompt, {.count = 500, .temperature = 0.8, .seed = seed}));
}

void train_gpt(const TrainOptions& options) {
  TrainSession session(options, {.epochs = 12,
                                 .batch = 12,
                                 .steps_per_epoch = 250,
                                 .optimizer = "adamw",
                                 .learning_rate = 2e-3,
                                 .warmup_share = 0.04});
  const data::Text text = load_text(session.data());
  session.trains_on({text.train, text.validation});
  fmt::print("text: {} characters of {} for training, {} for validation, {} distinct characters\n",
             text.train.elems(), count_text(text.files, "file"), text.validation.elems(),
             text.vocabulary.size());
  for (const Tensor& part : {text.train, text.validation}) {
    require(part.elems() > kContext, ErrorCode::kBadFormat,
            session.data().empty() ? "train" : session.data().string(),
            "{} characters are too few to train on windows of {} and to test on a tenth of them; provide "
            "more text",
            text.train.elems() + text.validation.elems(), kContext + 1);
  }
  const Tensor starts = data::random_starts(text.train, kContext + 1, kTrainWindows, session.seed());
  const Tensor held_out = data::even_starts(text.validation, kContext + 1, kValidationWindows);
  nn::Gpt model({.vocabulary = static_cast<int64_t>(text.vocabulary.size()), .context = kContext});
  auto batches = session.batches(data::from_tensor_slices(starts));
  auto validation = data::from_tensor_slices(held_out).batch(session.batch());
  train::Trainer trainer = session.trainer(
      on_windows(train::supervised(model, nn::sparse_softmax_cross_entropy, session.optimizer()), text,
                 options.device),
      batches);
  session.fit(trainer, batches, {.validation_data = validation});
  const double loss = trainer.evaluate(validation)["loss"];
  const double alone = frequency_loss(text, 1), pairs = frequency_loss(text, 2);
  session.finish(
      {.title = "A small GPT on text",
       .task =
           fmt::format("{} windows of {} characters from the ends of the files", held_out.elems(), kContext),
       .result = fmt::format("Its loss is {:.2f} bits per character; predicting from the frequencies of "
                             "pairs of characters gives {:.2f}.",
                             loss / std::log(2.0), pairs / std::log(2.0)),
       .measures = {"nats per character"},
       .compared = {{"this model", {loss}},
                    {"frequencies of pairs", {pairs}},
                    {"frequencies of characters", {alone}}},
       .test = {{"loss", loss}, {"pair_frequencies_loss", pairs}, {"frequencies_loss", alone}},
       .sample = sample_of(model, text, session.seed())});
}

}  // namespace

std::vector<TrainableModel> text_models() {
  return {{"gpt", "a small GPT on the project's own text, or any other; prints a sample that it wrote",
           train_gpt}};
}

}  // namespace isochron::apps
