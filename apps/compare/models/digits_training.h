// The training that the loops and tables of `every-epoch` share: a classifier of the shipped digits with a
// softmax and categorical cross-entropy. Its batches have the tensors "images" and "labels".
#pragma once

#include <filesystem>

#include "isochron/core/files/run_folder.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/data/sources/datasets.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/loop/trainer.h"

namespace isochron::apps {

constexpr int64_t kDigitsBatch = 32;
constexpr int64_t kDigitsSteps = 44;  // one pass over 1,437 images

/// Each loop has its own training.
struct DigitsTraining {
  /// One epoch is `passes` passes over the images.
  explicit DigitsTraining(int64_t passes) : batches(make_batches(passes)) {}

  data::Dataset batches;
  nn::Sequential model{nn::Flatten(), nn::Dense(64, nn::Activation::kRelu),
                       nn::Dense(10, nn::Activation::kSoftmax)};
  optim::Adam optimizer;

  static data::Dataset make_batches(int64_t passes) {
    const data::LabelledImages digits = data::load_digits().train;
    return data::Dataset({{"images", digits.images}, {"labels", one_hot(digits.labels, 10)}})
        .shuffle(1000)
        .batch(kDigitsBatch, {.drop_remainder = true})
        .repeat(passes)
        .prefetch();
  }
  Tensor loss_of(const data::Element& batch) {
    return nn::categorical_cross_entropy(model(batch["images"]), batch["labels"]);
  }
  train::Trainer trainer() {
    return train::Trainer(
        model, [](const Tensor& p, const Tensor& t) { return nn::categorical_cross_entropy(p, t); },
        optimizer);
  }
};

/// A folder that is removed at the end. Can report the total size of its files, except those still being
/// written.
class TemporaryFolder {
 public:
  TemporaryFolder() : run_(std::filesystem::temp_directory_path()) {}
  const std::filesystem::path& path() const { return run_.path(); }
  int64_t bytes() const {
    int64_t total = 0;
    std::error_code gone;  // a file that is being replaced
    for (std::filesystem::recursive_directory_iterator at(path(), gone), end; at != end; at.increment(gone)) {
      if (at->path().filename().string().starts_with('.')) at.disable_recursion_pending();
      const uintmax_t size = at->file_size(gone);
      if (!gone) total += static_cast<int64_t>(size);
    }
    return total;
  }

 private:
  RunFolder run_;
};

}  // namespace isochron::apps
