// Fine-tuning: a model learns one task and is saved. A second model loads the trunk from the file, gets a new
// head and trains only that head, with few samples; finally it trains everything with a small learning rate.
#include <fmt/format.h>

#include <filesystem>

#include "isochron/isochron.h"

using namespace isochron;

class Net : public nn::Module {
 public:
  explicit Net(int64_t outputs) : head(outputs) {}
  Tensor forward(const Tensor& x) override { return head(trunk(x)); }
  void members(nn::Members& list) override { list("trunk", trunk)("head", head); }

  nn::Sequential trunk{nn::Dense(32, nn::Activation::kTanh), nn::BatchNorm({.momentum = 0.9}),
                       nn::Dense(16, nn::Activation::kTanh)};
  nn::Dense head;
};

/// Trains the parameters that aren't frozen, and returns the last loss. Capture determines which parameters
/// are trainable.
double train_model(Net& net, optim::Optimizer optimizer, const Tensor& x, const Tensor& y, int steps) {
  auto step = capture([&](const Tensor& inputs, const Tensor& targets) {
    const Tensor loss = nn::mean_squared_error(net(inputs), targets);
    optimizer.minimize(loss, net.parameters());
    return loss;
  });
  double loss = 0;
  for (int i = 0; i < steps; ++i) loss = step(x, y).item<double>();
  return loss;
}

int main() {
  // Both tasks are mixtures of the same hidden features: four outputs for the first, two for the second.
  const Tensor x = random_uniform({512, 6}, -1, 1);
  const Tensor features = tanh(matmul(x, random_normal({6, 8}, 0, 0.8)));
  const Tensor first = matmul(features, random_normal({8, 4}));
  const Tensor second = matmul(features, random_normal({8, 2}));
  const auto few = [](const Tensor& rows) { return narrow(rows, 0, 0, 128); };

  const auto path = std::filesystem::temp_directory_path() / "isochron_fine_tuning.safetensors";
  Net teacher(4);
  fmt::print("first task:            loss {:.4f}\n",
             train_model(teacher, optim::Adam({.learning_rate = 1e-2}), x, first, 400));
  nn::save_weights(teacher, path);

  Net net(2);
  net.build(x.spec());
  // The heads differ in shape and are skipped; without this option that would be an error.
  const nn::LoadReport report = nn::load_weights(net, path, {.skip_mismatched = true});
  std::filesystem::remove(path);
  fmt::print("taken from the file:   {} tensors, but not {}\n", report.loaded,
             fmt::join(report.mismatched, "; "));

  net.trunk.set_trainable(false);
  const std::vector<double> before = net.trunk.parameters()[0].tensor().to_vector();
  const double head_only = train_model(net, optim::Adam({.learning_rate = 2e-2}), few(x), few(second), 400);
  const bool kept = net.trunk.parameters()[0].tensor().to_vector() == before;
  fmt::print("second task, head:     loss {:.4f}, the trunk {}\n", head_only, kept ? "as it was" : "changed");

  net.set_trainable(true);
  const double all = train_model(net, optim::Adam({.learning_rate = 1e-3}), few(x), few(second), 200);
  fmt::print("second task, all:      loss {:.4f}\n", all);
  return kept && report.loaded == 8 && report.mismatched.size() == 2 && head_only < 0.2 && all < head_only
             ? 0
             : 1;
}
