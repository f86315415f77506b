// A recommendation model whose tables are updated by rows, compared with PyTorch's losses with SparseAdam,
// SGD and Adagrad on sparse gradients (tests/golden/make_dlrm_torch.py).
#include <gtest/gtest.h>

#include <map>

#include "isochron/data/formats/npy.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/embedding.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "isochron/optim/optimizers.h"
#include "support/near.h"

namespace isochron::nn {
namespace {

constexpr int kDlrmSteps = 40;
constexpr int64_t kWidth = 8, kPadding = 3;
const optim::StepOptions kShared{.allow_untrained = true};  // two optimizers share the model

const data::NpzFile& golden_dlrm() {
  static const data::NpzFile file =
      data::read_npz(std::string(ISOCHRON_SOURCE_DIR) + "/tests/golden/dlrm_torch.npz");
  return file;
}

/// Fills the created parameters with PyTorch's initial values.
Initializer from_file(const std::string& name) {
  return [values = golden_dlrm().at("initial." + name).to_vector()](const Shape&, Rng&) { return values; };
}

struct Batch {
  Tensor dense, user, item, kind, tags, words, offsets, weights, labels;
};

Batch batch_at(int step) {
  const auto part = [step](const char* name) {
    return contiguous(squeeze(narrow(golden_dlrm().at(std::string("batches.") + name), 0, step, 1), {0}));
  };
  return {part("dense"), part("user"),    part("item"),    part("kind"),  part("tags"),
          part("words"), part("offsets"), part("weights"), part("labels")};
}

class Dlrm : public Module {
 public:
  Tensor forward(const Tensor&) override {
    fail(ErrorCode::kUnsupported, "dlrm", "takes a batch of several tensors; call loss");
  }
  Tensor loss(const Batch& batch) {
    const Scope scope = enter();
    const Tensor bottom = bottom_(batch.dense);
    const std::vector<Tensor> vectors = {bottom,
                                         user_(batch.user),
                                         item_(batch.item),
                                         kind_(batch.kind),
                                         tags_(batch.tags),
                                         words_(batch.words, batch.offsets, batch.weights)};
    std::vector<Tensor> features = {bottom};
    for (size_t i = 0; i < vectors.size(); ++i) {
      for (size_t k = i + 1; k < vectors.size(); ++k)
        features.push_back(sum(vectors[i] * vectors[k], {1}, true));
    }
    const Tensor logits = out_(top_(concatenate(features, 1)));
    return mean(softplus(logits) - batch.labels * logits);
  }
  void members(Members& list) override {
    list("user", user_)("item", item_)("kind", kind_)("tags", tags_)("words", words_);
    list("bottom", bottom_)("top", top_)("out", out_);
  }
  std::map<std::string, Variable> tables() {
    return {{"user", user_.table()},
            {"item", item_.table()},
            {"kind", kind_.table()},
            {"tags", tags_.table()},
            {"words", words_.table()}};
  }
  std::vector<Variable> dense_parameters() {
    std::vector<Variable> all;
    for (Dense* layer : {&bottom_, &top_, &out_}) {
      for (const Variable& parameter : layer->parameters()) all.push_back(parameter);
    }
    return all;
  }

 private:
  static Embedding table(const char* name, int64_t rows) {
    return {rows, kWidth, {.initializer = from_file(name), .dtype = DType::kF64, .sparse = true}};
  }
  static EmbeddingBag bags(const char* name, int64_t rows, BagMode mode, std::optional<int64_t> padding) {
    return {rows,
            kWidth,
            {.mode = mode,
             .initializer = from_file(name),
             .dtype = DType::kF64,
             .padding_idx = padding,
             .sparse = true}};
  }
  static Dense dense(const std::string& name, int64_t units, Activation activation) {
    return Dense(
        units, activation,
        {.kernel_initializer = from_file(name + ".kernel"), .bias_initializer = from_file(name + ".bias")});
  }

  Embedding user_ = table("user", 200), item_ = table("item", 300), kind_ = table("kind", 7);
  EmbeddingBag tags_ = bags("tags", 120, BagMode::kMean, kPadding);
  EmbeddingBag words_ = bags("words", 90, BagMode::kSum, {});
  Dense bottom_ = dense("bottom", kWidth, Activation::kRelu), top_ = dense("top", 12, Activation::kRelu),
        out_ = dense("out", 1, Activation::kNone);
};

/// Trains with one optimizer for the tables and one for the rest, and compares.
void expect_golden_dlrm(const std::string& key, optim::Optimizer for_tables, optim::Optimizer for_dense) {
  Dlrm model;
  model.loss(batch_at(0));
  std::vector<Variable> tables;
  for (const auto& [name, table] : model.tables()) tables.push_back(table);
  auto step = capture([&](const Tensor& dense, const Tensor& user, const Tensor& item, const Tensor& kind,
                          const Tensor& tags, const Tensor& words, const Tensor& offsets,
                          const Tensor& weights, const Tensor& labels) {
    const Tensor loss = model.loss({dense, user, item, kind, tags, words, offsets, weights, labels});
    for_tables.minimize(loss, tables);
    for_dense.minimize(loss, model.dense_parameters());
    return loss;
  });
  const std::vector<double> losses = golden_dlrm().at(key + ".losses").to_vector();
  for (int i = 0; i < kDlrmSteps; ++i) {
    const Batch b = batch_at(i);
    const Tensor loss =
        step(b.dense, b.user, b.item, b.kind, b.tags, b.words, b.offsets, b.weights, b.labels);
    EXPECT_NEAR(loss.item<double>(), losses[static_cast<size_t>(i)], 1e-9) << key << ", step " << i;
  }
  for (const auto& [name, table] : model.tables())
    EXPECT_TRUE(near(table.tensor(), golden_dlrm().at(key + ".final." + name), 1e-8, 1e-9)) << name;
}

TEST(Dlrm, TrainsAsPyTorchsSparseAdam) {
  expect_golden_dlrm(
      "sparse_adam", optim::Adam({.learning_rate = 0.01, .epsilon = 1e-8, .step = kShared}),
      optim::Adam(
          {.learning_rate = 0.01, .epsilon = 1e-8, .epsilon_after_correction = true, .step = kShared}));
}
TEST(Dlrm, TrainsAsPyTorchsSparseSgd) {
  const optim::SgdOptions options{.learning_rate = 0.5, .step = kShared};
  expect_golden_dlrm("sgd", optim::Sgd(options), optim::Sgd(options));
}
TEST(Dlrm, TrainsAsPyTorchsSparseAdagrad) {
  const optim::AdagradOptions options{.learning_rate = 0.05,
                                      .initial_square_sum = 0,
                                      .epsilon = 1e-10,
                                      .epsilon_outside_root = true,
                                      .step = kShared};
  expect_golden_dlrm("adagrad", optim::Adagrad(options), optim::Adagrad(options));
}

}  // namespace
}  // namespace isochron::nn
