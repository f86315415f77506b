// The two kinds of training that the loops and tables of `long-run` share: a convolutional network on the
// shipped digits, and a GRU on weekly CO2.
#pragma once

#include <functional>
#include <memory>

#include "isochron/data/pipeline/dataset.h"
#include "isochron/nn/module/module.h"
#include "isochron/optim/optimizer.h"
#include "isochron/train/loop/batch_plan.h"

namespace isochron::apps {

constexpr int64_t kLongRunBatch = 32;

/// A model with its loss and its input, whose rows have the tensors "x" and "y". Each loop has its own.
struct ImageOrSeries {
  std::unique_ptr<nn::Module> model;
  std::function<Tensor(const Tensor& prediction, const Tensor& target)> loss;
  data::Dataset rows;

  Tensor loss_of(const data::Element& batch) const { return loss((*model)(batch["x"]), batch["y"]); }
  /// The pipeline that the documents recommend: rows -> map -> shuffle -> batch -> prefetch, with buffers as
  /// large as memory allows.
  data::Dataset batches(int64_t batch = kLongRunBatch) const {
    return rows.shuffle(1000).batch(batch, {.drop_remainder = true}).repeat().prefetch(data::kAutotune);
  }
};

ImageOrSeries images();
ImageOrSeries series();

/// A function to capture: one step of `optimizer` on a batch.
train::BatchPlan::Function training(const ImageOrSeries& problem, optim::Optimizer& optimizer);

}  // namespace isochron::apps
