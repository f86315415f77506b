// A train step by hand: forward pass, loss, gradients and update written as one C++ function, captured once
// and then replayed. Each size of batch is traced and planned at its first call; after that nothing is
// allocated, traced or planned any more. `capture(function, batches.signatures())` plans all of them ahead.
#include <fmt/format.h>

#include "isochron/isochron.h"

using namespace isochron;

int main() {
  // 1000 rows of 20 random features; the target is a fixed mixture of them.
  const Tensor features = random_normal({1000, 20});
  const Tensor targets = tanh(matmul(features, random_normal({20, 1}, 0, 0.3)));

  auto model = nn::Sequential(nn::Dense(10, nn::Activation::kRelu), nn::Dense(1));
  auto optimizer = optim::Adam({.learning_rate = 1e-2});

  // The function is called to be traced: once for batches of 32 rows, once for the last batch of 8.
  auto step = capture([&](const Tensor& x, const Tensor& y) {
    Tensor loss = nn::mean_squared_error(model(x), y);
    optimizer.minimize(loss, model.parameters());  // gradients and update belong to the step
    return loss;
  });

  auto batches = data::from_tensor_slices(features, targets).shuffle(1000).batch(32).prefetch();
  double first = 0, last = 0;
  for (int epoch = 0; epoch < 20; ++epoch) {
    double sum = 0;
    // What a step returns is a view, valid until the next call: read it now, or keep a copy.
    for (auto& [x, y] : batches) sum += step(x, y).item<double>();
    last = sum / static_cast<double>(batches.size());
    if (epoch == 0) first = last;
    fmt::print("epoch {:2}  mean loss {:.5f}\n", epoch + 1, last);
  }
  const graph::PlanReport& plan = step.plan_report();  // of the newest call; step.report() lists everything
  fmt::print("{} plans; the last has {} kernels in {} bytes, {} variables updated in place\n",
             step.plan_count(), plan.instructions, plan.arena_bytes, plan.updates_in_place);
  return last < 0.2 * first && step.plan_count() == 2 ? 0 : 1;
}
