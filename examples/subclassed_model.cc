// A custom model with several outputs and several ways to call it, and a hand-written loop: an autoencoder
// whose loss has two parts, whose gradients are clipped, and whose learning rate falls.
#include <fmt/format.h>

#include "isochron/isochron.h"

using namespace isochron;

class Autoencoder : public nn::Module {
 public:
  explicit Autoencoder(int64_t width, int64_t code)
      : encoder_(nn::Dense(24, nn::Activation::kTanh), nn::Dense(code)),
        decoder_(nn::Dense(24, nn::Activation::kTanh), nn::Dense(width)) {}

  Tensor forward(const Tensor& x) override { return decoder_(encoder_(x)); }
  /// Both results at once. A method other than `forward` must enter the module first, which gives names and
  /// paths to its children.
  std::pair<Tensor, Tensor> encode_and_decode(const Tensor& x) {
    const Scope scope = enter();
    const Tensor code = encoder_(x);
    return {code, decoder_(code)};
  }
  void members(nn::Members& list) override { list("encoder", encoder_)("decoder", decoder_); }

 private:
  nn::Sequential encoder_, decoder_;
};

int main() {
  // Ten measurements of two hidden quantities.
  const Tensor x = tanh(matmul(random_normal({256, 2}), random_normal({2, 10}, 0, 0.7)));

  Autoencoder model(10, 2);
  optim::Adam optimizer({.learning_rate = 2e-2});
  auto step = capture([&](const Tensor& batch) {
    const auto [code, decoded] = model.encode_and_decode(batch);
    const Tensor error = nn::mean_squared_error(decoded, batch);
    const Tensor size = mean(square(code));  // keeps the code small
    const std::vector<Variable> parameters = model.parameters();
    const std::vector<Tensor> sources(parameters.begin(), parameters.end());
    const std::vector<Tensor> slopes = gradients(error + size * 1e-3, sources);
    optimizer.apply(parameters, optim::clip_by_global_norm(slopes, 1.0));
    return std::tuple(error, size, optim::global_norm(slopes));
  });

  double first = 0, last = 0;
  for (int i = 0; i < 600; ++i) {
    if (i % 200 == 199) optimizer.set_learning_rate(optimizer.learning_rate() / 4);  // no new capture
    const auto [error, size, norm] = step(x);
    last = error.item<double>();
    if (i == 0) first = last;
    if (i % 100 == 0) {
      fmt::print("step {:3}  error {:.5f}  code {:.3f}  gradient {:.3f}\n", i, last, size.item<double>(),
                 norm.item<double>());
    }
  }
  const Tensor again = model(x);  // eager, the same parameters
  const double error = nn::mean_squared_error(again, x).item<double>();
  fmt::print("error {:.5f} from {:.5f}, with {} plan\n", error, first, step.plan_count());
  return error < 0.02 * first && step.plan_count() == 1 ? 0 : 1;
}
