// A custom model: a class that lists its members and defines its computation. Layers build their parameters
// at their first call.
#include <fmt/format.h>

#include "isochron/isochron.h"

using namespace isochron;

/// x + gate * f(x): a residual block whose gate is a parameter that starts at 0.
class Residual : public nn::Module {
 public:
  explicit Residual(int64_t width) : inner_(2 * width, nn::Activation::kTanh), outer_(width) {}
  Tensor forward(const Tensor& x) override { return x + gate_ * outer_(inner_(x)); }
  void members(nn::Members& list) override { list("inner", inner_)("outer", outer_)("gate", gate_); }
  std::string_view kind() const override { return "residual"; }

 private:
  nn::Dense inner_, outer_;
  Variable gate_{zeros({1}), "gate"};
};

class Net : public nn::Module {
 public:
  Tensor forward(const Tensor& x) override { return head_(second_(first_(x))); }
  void members(nn::Members& list) override { list("first", first_)("second", second_)("head", head_); }

 private:
  Residual first_{4}, second_{4};
  nn::Dense head_{1};
};

int main() {
  const Tensor x = random_uniform({640, 4}, -1, 1);
  const Tensor y = sum(sin(x * 2.0), {1}, true);  // (640, 1)
  Net net;
  optim::Adam optimizer({.learning_rate = 1e-2});
  train::Trainer trainer(net, nn::mean_squared_error, optimizer);
  auto batches = data::from_tensor_slices(x, y).shuffle(640).batch(16).prefetch();
  const train::History history = trainer.fit(batches, {.epochs = 15});

  for (const auto& [name, variable] : net.named_parameters()) {
    fmt::print("{:<22} {}\n", name, variable.spec().str());
  }
  fmt::print("{} parameters in all\n", net.parameter_count());
  const std::vector<double> losses = history.values("loss");
  return net.parameters().size() == 12 && losses.back() < 0.1 * losses.front() ? 0 : 1;
}
