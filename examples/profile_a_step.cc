// Where does the time of my step go, and how far is it from the machine's limits? `profile(step, x, y)` takes
// one training step and compares the times of its kernels with these limits. `profile(step)` times the newest
// call again and changes nothing.
#include <fmt/format.h>

#include "isochron/isochron.h"

using namespace isochron;

int main() {
  auto model = nn::Sequential(nn::Dense(256, nn::Activation::kGelu), nn::Dense(256, nn::Activation::kGelu),
                              nn::Dense(1));
  auto optimizer = optim::Adam({.learning_rate = 1e-3});
  auto step = capture([&](const Tensor& x, const Tensor& y) {
    Tensor loss = nn::mean_squared_error(model(x), y);
    optimizer.minimize(loss, model.parameters());
    return loss;
  });
  const Tensor x = random_normal({128, 64}), y = random_normal({128, 1});

  const train::StepProfile profile = train::profile(step, x, y);  // takes one step and profiles it
  fmt::print("{}", profile.text(10));

  const double before = step(x, y).item<double>();
  static_cast<void>(train::profile(step));  // profiles the newest call without taking a step
  const double after = step(x, y).item<double>();
  fmt::print("the loss before and after: {:.5f} {:.5f}\n", before, after);
  return profile.share() > 0 && after < before && profile.kernels.size() == step.plan_report().instructions
             ? 0
             : 1;
}
