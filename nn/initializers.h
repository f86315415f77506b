// Initial values of parameters, by the definitions and defaults of Keras 3
// (keras.io/api/layers/initializers).
//
// "fan in" and "fan out" of a shape: (n): n and n; (in, out): in and out; a convolution kernel
// (..., in, out): in and out times the number of positions of the window.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "isochron/core/rng.h"
#include "isochron/core/shape.h"

namespace isochron::nn {

/// The elements of a parameter of `shape`, row-major.
using Initializer = std::function<std::vector<double>(const Shape& shape, Rng& rng)>;

/// Parameters built from now on draw from Philox streams of `seed`, numbered in order of building from 0: the
/// same program builds the same parameters. 0 at start.
void set_initializer_seed(uint64_t seed);
/// The stream of the next parameter.
Rng next_initializer_rng();

namespace init {

Initializer zeros();
Initializer ones();
Initializer constant(double value);
Initializer normal(double mean = 0, double deviation = 0.05);
/// Normal, drawn again beyond two deviations.
Initializer truncated_normal(double mean = 0, double deviation = 0.05);
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
/// All axes but the last flattened, `gain` times a random matrix whose rows or columns, whichever are fewer,
/// are orthonormal (Saxe et al., ICLR 2014). Throws kInvalidArgument below rank 2.
Initializer orthogonal(double gain = 1);

}  // namespace init
}  // namespace isochron::nn
