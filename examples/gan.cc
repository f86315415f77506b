// A GAN in one captured step: the discriminator is trained first, then the generator, through the updated
// discriminator. Reading a variable after an update gives its new content, and gradients end there.
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "isochron/isochron.h"

using namespace isochron;

constexpr int64_t kBatch = 128;

/// Points of a slanted normal distribution: deviations 0.8 and 0.4 about (2, -1). (kBatch, 2).
Tensor real_points() {
  static const Tensor kSlant = from_vector({2, 2}, {0.8, 0.32, 0, 0.24});
  return matmul(random_normal({kBatch, 2}), kSlant) + from_vector({2}, {2, -1});
}

struct Distribution {
  double mean[2], deviation[2], correlation;
};

Distribution moments(const Tensor& points) {
  const std::vector<double> p = points.to_vector();
  const double n = static_cast<double>(p.size()) / 2;
  Distribution m{};
  for (size_t i = 0; i < p.size(); ++i) m.mean[i % 2] += p[i] / n;
  for (size_t i = 0; i < p.size(); ++i) m.deviation[i % 2] += std::pow(p[i] - m.mean[i % 2], 2) / n;
  for (double& deviation : m.deviation) deviation = std::sqrt(deviation);
  for (size_t i = 0; i < p.size(); i += 2)
    m.correlation += (p[i] - m.mean[0]) * (p[i + 1] - m.mean[1]) / n / (m.deviation[0] * m.deviation[1]);
  return m;
}

std::string text(const Distribution& m) {
  return fmt::format("mean ({:.2f}, {:.2f}), deviation ({:.2f}, {:.2f}), correlation {:.2f}", m.mean[0],
                     m.mean[1], m.deviation[0], m.deviation[1], m.correlation);
}

int main() {
  auto generator = nn::Sequential(nn::Dense(16, nn::Activation::kTanh), nn::Dense(2));
  auto discriminator = nn::Sequential(nn::Dense(32, nn::Activation::kTanh),
                                      nn::Dense(32, nn::Activation::kTanh), nn::Dense(1));
  optim::Adam discriminator_optimizer({.learning_rate = 4e-3, .beta_1 = 0.5});
  // Its loss depends on the discriminator, which this update must not train.
  optim::Adam generator_optimizer(
      {.learning_rate = 1e-3, .beta_1 = 0.5, .step = {.ema_decay = 0.99, .allow_untrained = true}});
  const Tensor yes = ones({kBatch, 1}), no = zeros({kBatch, 1});

  auto step = capture([&] {
    const Tensor made = generator(random_normal({kBatch, 2}));
    const Tensor discriminator_loss =
        nn::binary_cross_entropy_from_logits(discriminator(real_points()), yes) +
        nn::binary_cross_entropy_from_logits(discriminator(stop_gradient(made)), no);
    discriminator_optimizer.minimize(discriminator_loss, discriminator.parameters());
    const Tensor generator_loss = nn::binary_cross_entropy_from_logits(discriminator(made), yes);
    generator_optimizer.minimize(generator_loss, generator.parameters());
    return std::pair(discriminator_loss, generator_loss);
  });

  for (int i = 0; i < 4000; ++i) {
    const auto [discriminator_loss, generator_loss] = step();
    if (i % 1000 == 999)
      fmt::print("step {}: discriminator {:.3f}, generator {:.3f}\n", i + 1,
                 discriminator_loss.item<double>(), generator_loss.item<double>());
  }

  const Distribution wanted{{2, -1}, {0.8, 0.4}, 0.8};
  const optim::AveragedWeights averages(generator_optimizer);
  const Distribution found = moments(generator(random_normal({4096, 2})));
  fmt::print("real:  {}\nmade:  {}\n", text(wanted), text(found));
  bool good = std::abs(found.correlation - wanted.correlation) < 0.2;
  for (int axis = 0; axis < 2; ++axis) {
    good = good && std::abs(found.mean[axis] - wanted.mean[axis]) < 0.2;
    good = good && std::abs(found.deviation[axis] / wanted.deviation[axis] - 1) < 0.3;
  }
  if (!good) fmt::print("the generator missed the distribution\n");
  return good ? 0 : 1;
}
