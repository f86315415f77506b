// Initial values of parameters, with the definitions and defaults of Keras 3
// (keras.io/api/layers/initializers). Where PyTorch's definition differs (torch.nn.init), PyTorch's name is
// used: xavier and kaiming are glorot and he with a gain, and their normal variants are not truncated.
//
// "fan in" and "fan out" of a shape: (n): n and n; (in, out): in and out; a convolution kernel
// (..., in, out): in and out times the number of positions of the window.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "isochron/core/base/rng.h"
#include "isochron/core/tensor/shape.h"

namespace isochron::nn {

/// Draws the elements of a parameter in row-major order. They are drawn in pieces, so that building a
/// parameter of any size needs no additional memory.
class Initializer {
 public:
  /// Writes the next elements.
  using Draw = std::function<void(std::span<double> next)>;

  /// From a function that draws all elements of a parameter of `shape` at once. While the parameter is built,
  /// they take 8 bytes each. Drawing throws kShapeMismatch if their number isn't that of the shape.
  template <std::invocable<const Shape&, Rng&> All>
  requires(!std::same_as<All, Initializer>) Initializer(All all)  // NOLINT: a function is an initializer
      : Initializer(in_pieces([all = std::move(all)](const Shape& shape, Rng& rng) {
          return pieces_of(all(shape, rng), shape);
        })) {}
  /// `begin` returns a function that draws the elements of a parameter of `shape` in the order in which they
  /// are stored. `rng` outlives that function.
  static Initializer in_pieces(std::function<Draw(const Shape& shape, Rng& rng)> begin);

  Draw begin(const Shape& shape, Rng& rng) const { return begin_(shape, rng); }
  /// All elements.
  std::vector<double> operator()(const Shape& shape, Rng& rng) const;

 private:
  Initializer() = default;
  static Draw pieces_of(std::vector<double> all, const Shape& shape);

  std::function<Draw(const Shape& shape, Rng& rng)> begin_;
};

/// Parameters built from now on draw from Philox streams of `seed`, numbered from 0 in the order in which the
/// parameters are built. The same program therefore builds the same parameters, whatever else it draws in
/// between. `random::set_seed` derives a seed for parameters from its own seed. This function sets the seed
/// of parameters only; it applies until either function is called again. Initially 0.
void set_initializer_seed(uint64_t seed);
/// The stream of the next parameter.
Rng next_initializer_rng();

namespace init {

Initializer zeros();
Initializer ones();
Initializer constant(double value);
Initializer normal(double mean = 0, double stddev = 0.05);
/// Normal; values more than two standard deviations from the mean are redrawn.
Initializer truncated_normal(double mean = 0, double stddev = 0.05);
Initializer uniform(double low = -0.05, double high = 0.05);
/// Variance 2 / (fan in + fan out) (Glorot and Bengio, AISTATS 2010); the normal one is truncated.
Initializer glorot_uniform();
Initializer glorot_normal();
/// Variance 2 / fan in (He et al., ICCV 2015).
Initializer he_uniform();
Initializer he_normal();
/// Variance 1 / fan in (LeCun et al.: "Efficient BackProp", 1998).
Initializer lecun_uniform();
Initializer lecun_normal();

enum class Fan { kIn, kOut, kAverage };
enum class Distribution {
  kTruncatedNormal,  // truncated at +-2 standard deviations, then rescaled to the variance
  kNormal,
  kUniform,
};
/// Mean 0, variance scale / max(1, fan). Every initializer here that states a variance is a special case of
/// it. Throws kInvalidArgument unless scale > 0.
Initializer variance_scaling(double scale = 1, Fan fan = Fan::kIn,
                             Distribution distribution = Distribution::kTruncatedNormal);
/// Variance gain^2 2 / (fan in + fan out). Throw kInvalidArgument for a gain of 0.
Initializer xavier_uniform(double gain = 1);
Initializer xavier_normal(double gain = 1);
/// Variance 2 / (1 + slope^2) / fan, for a leaky ReLU of that slope.
Initializer kaiming_uniform(double slope = 0, Fan fan = Fan::kIn);
Initializer kaiming_normal(double slope = 0, Fan fan = Fan::kIn);
/// The defaults of PyTorch's Linear and Conv layers. Weights: kaiming_uniform(sqrt(5)), which is uniform
/// within +-1 / sqrt(fan in). Biases: uniform within the same limits, where `fan_in` is that of the weight.
/// Not for depthwise layers, because initializers see their kernels as Keras does (window..., channels,
/// multiplier). For those use uniform(-k, k) with k = 1 / sqrt(elements of the window). pytorch_bias throws
/// kInvalidArgument unless fan_in >= 1.
Initializer pytorch_weight();
Initializer pytorch_bias(int64_t fan_in);
/// Normal, conditional on lying in [low, high] (PyTorch's trunc_normal_). Throws kInvalidArgument unless
/// stddev > 0 and low < high, and if the whole range lies more than two standard deviations from the mean.
Initializer truncated_normal_between(double mean, double stddev, double low, double high);

/// (n, m): `gain` on the diagonal, 0 elsewhere. Throws kInvalidArgument unless the rank is 2.
Initializer identity(double gain = 1);
/// A convolution kernel (window..., in / groups, out) that passes its input channels through unchanged: 1 at
/// the window's center (extent / 2) from channel i to output i of each group, 0 elsewhere. Not for depthwise
/// layers. Throws kInvalidArgument.
Initializer dirac(int64_t groups = 1);
/// Drawn at once. (in, out): normal, but `sparsity` of the outputs of each input, rounded up, are 0 (Martens,
/// ICML 2010). Throws kInvalidArgument unless the rank is 2 and sparsity in [0, 1].
Initializer sparse(double sparsity, double stddev = 0.01);
/// Drawn at once. Flattens all axes except the last and returns `gain` times a random matrix whose rows or
/// columns, whichever are fewer, are orthonormal (Saxe et al., ICLR 2014). Throws kInvalidArgument if the
/// rank is below 2.
Initializer orthogonal(double gain = 1);

}  // namespace init
}  // namespace isochron::nn
