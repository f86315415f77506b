// A whole program's code behind the one include.
#include "isochron/isochron.h"

using namespace isochron;

/// Two inputs, of which a user's module makes one result.
class Sum : public nn::Module {
 public:
  Tensor forward(const Tensor& a, const Tensor& b) override { return left_(a) + right_(b); }
  void members(nn::Members& list) override { list("left", left_)("right", right_); }

 private:
  nn::Dense left_{1}, right_{1};
};

/// The share of its first loss that a model with two inputs keeps in 50 epochs of a dataset.
double share_of_first_loss() {
  random::set_seed(1);
  const Tensor a = random_normal({64, 3}), b = random_normal({64, 2});
  const Tensor y = sum(a, {1}, true) - sum(b, {1}, true);
  Sum model;
  if (nn::summary(model, a.spec(), b.spec()).parameters != 7) return 1;
  optim::Adam optimizer({.learning_rate = 0.05});
  auto step = capture([&](const Tensor& left, const Tensor& right, const Tensor& target) {
    const Tensor loss = nn::mean_squared_error(model(left, right), target);
    optimizer.minimize(loss, model.parameters());
    return loss;
  });
  auto batches = data::from_tensor_slices(a, b, y).shuffle(64).batch(16);
  double first = 0, last = 0;
  for (int epoch = 0; epoch < 50; ++epoch) {
    for (auto& [left, right, target] : batches) {
      last = step(left, right, target).item<double>();
      if (first == 0) first = last;
    }
  }
  return last / first;
}
