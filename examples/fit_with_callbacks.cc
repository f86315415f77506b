// The fit loop with callbacks: a learning rate that falls, training that ends when the validation no longer
// improves, and a custom function at the end of every epoch.
#include <fmt/format.h>

#include "isochron/isochron.h"

using namespace isochron;

int main() {
  // Learn y = sin(3 x) on [-1, 1].
  const Tensor x = random_uniform({1200, 1}, -1, 1);
  const Tensor y = sin(x * 3.0);
  auto rows = data::from_tensor_slices(x, y);
  auto training = rows.take(1000).shuffle(1000).batch(10).prefetch();
  auto validation = rows.skip(1000).batch(200);

  nn::Sequential model(nn::Dense(32, nn::Activation::kTanh), nn::Dense(32, nn::Activation::kTanh),
                       nn::Dense(1));
  optim::Adam optimizer({.learning_rate = 1e-2});
  train::Trainer trainer(model, nn::mean_squared_error, optimizer,
                         {train::metric("mae", nn::MeanAbsoluteError())});

  // The learning rate is a slot of the captured step, so changing it needs no new capture.
  train::LearningRateScheduler schedule(
      optimizer, [](int epoch, double rate) { return epoch > 10 ? rate * 0.9 : rate; });
  // Restores the parameters of the best epoch at the end.
  train::EarlyStopping stopping({.monitor = "val_loss", .patience = 5, .restore_best = &model});
  int small_errors = 0;
  train::LambdaCallback count({.on_epoch_end = [&](train::RunState&, const train::Results& results) {
    small_errors += results["val_mae"] < 0.05;
  }});

  const train::History history = trainer.fit(
      training, {.epochs = 40, .validation_data = validation, .callbacks = {&schedule, &stopping, &count}});

  const train::Results results = trainer.evaluate(validation);
  fmt::print("best epoch {} of {}; {} epochs had a mean error below 0.05\n", stopping.best_epoch(),
             history.epochs().size(), small_errors);
  fmt::print("validation with the best parameters: {}\n", results.str());
  return results["loss"] < 1e-3 && small_errors > 0 ? 0 : 1;
}
