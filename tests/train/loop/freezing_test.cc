// Layers that are frozen and unfrozen during a fit.
#include <gtest/gtest.h>

#include "isochron/data/pipeline/dataset.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/random/random.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/loop/trainer.h"

namespace isochron::train {
namespace {

TEST(Freezing, ACallbackMayFreezeALayerForAnEpoch) {
  nn::Sequential model(nn::Dense(4), nn::Dense(2));
  optim::Sgd sgd({.learning_rate = 0.1});
  Trainer trainer(supervised(model, nn::mean_squared_error, sgd));
  struct Freezes final : Callback {
    void on_epoch_end(RunState&, const Results&) override {
      kernels.push_back((*model)[0].parameters()[0].tensor().to_vector());
      (*model)[0].set_trainable(kernels.size() != 2);  // for the third epoch
    }
    nn::Sequential* model = nullptr;
    std::vector<std::vector<double>> kernels;
  } freezes;
  freezes.model = &model;
  data::Dataset batches =
      data::from_tensor_slices({{"x", random_normal({8, 3})}, {"y", random_normal({8, 2})}}).batch(4);
  trainer.fit(batches, {.epochs = 4, .callbacks = {&freezes}, .progress = nullptr});
  ASSERT_EQ(freezes.kernels.size(), 4u);
  EXPECT_NE(freezes.kernels[0], freezes.kernels[1]);
  EXPECT_EQ(freezes.kernels[1], freezes.kernels[2]);
  EXPECT_NE(freezes.kernels[2], freezes.kernels[3]);
}

}  // namespace
}  // namespace isochron::train
