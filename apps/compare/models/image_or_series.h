// The two kinds of training of `long-run`: the shipped digits through a convolution, weekly CO2 through a
// GRU. Its loops and tables are based on them.
#pragma once

#include <functional>
#include <memory>

#include "isochron/data/pipeline/dataset.h"
#include "isochron/nn/module/module.h"
#include "isochron/optim/optimizer.h"
#include "isochron/train/loop/batch_plan.h"

namespace isochron::apps {

constexpr int64_t kLongRunBatch = 32;

/// A model with its loss and its input, rows named "x" and "y"; each loop has its own.
struct ImageOrSeries {
  std::unique_ptr<nn::Module> model;
  std::function<Tensor(const Tensor& prediction, const Tensor& target)> loss;
  data::Dataset rows;

  Tensor loss_of(const data::Element& batch) const { return loss((*model)(batch["x"]), batch["y"]); }
  /// The documents' cure: rows -> map -> shuffle -> batch -> prefetch, buffers as large as memory allows.
  data::Dataset batches(int64_t batch = kLongRunBatch) const {
    return rows.shuffle(1000).batch(batch, {.drop_remainder = true}).repeat().prefetch(data::kAutotune);
  }
};

ImageOrSeries images();
ImageOrSeries series();

/// One step of `optimizer` on a batch, to be captured.
train::BatchPlan::Function training(const ImageOrSeries& problem, optim::Optimizer& optimizer);

}  // namespace isochron::apps
