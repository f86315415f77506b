#include "isochron/nn/initializers.h"

#include <cmath>
#include <mutex>
#include <numeric>

namespace isochron::nn {
namespace {

struct Streams {
  std::mutex mutex;
  uint64_t seed = 0;
  uint64_t next = 0;
};
Streams& streams() {
  static Streams instance;
  return instance;
}

}  // namespace

void set_initializer_seed(uint64_t seed) {
  const std::lock_guard lock(streams().mutex);
  streams().seed = seed;
  streams().next = 0;
}

Rng next_initializer_rng() {
  const std::lock_guard lock(streams().mutex);
  return Rng(streams().seed, streams().next++);
}

namespace init {
namespace {

template <typename Draw>
std::vector<double> drawn(const Shape& shape, Draw draw) {
  std::vector<double> values(static_cast<size_t>(shape.elems()));
  for (double& value : values) value = draw();
  return values;
}

double truncated(Rng& rng) {
  for (;;) {
    const double value = rng.normal();
    if (std::abs(value) <= 2) return value;
  }
}

struct Fans {
  double in = 1;
  double out = 1;
};
Fans fans_of(const Shape& shape) {
  const int rank = shape.rank();
  if (rank == 0) return {};
  if (rank == 1) return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  double positions = 1;
  for (int axis = 0; axis + 2 < rank; ++axis) positions *= static_cast<double>(shape[axis]);
  return {positions * static_cast<double>(shape[rank - 2]), positions * static_cast<double>(shape[rank - 1])};
}

/// 1 / variance in terms of the fans.
using FanFunction = double (*)(const Fans& fans);
double glorot(const Fans& fans) { return std::max((fans.in + fans.out) / 2, 1.0); }
double he(const Fans& fans) { return std::max(fans.in, 1.0) / 2; }
double lecun(const Fans& fans) { return std::max(fans.in, 1.0); }

Initializer scaled_uniform(FanFunction fan) {
  return [fan](const Shape& shape, Rng& rng) {
    const double limit = std::sqrt(3 / fan(fans_of(shape)));
    return drawn(shape, [&] { return limit * (2 * rng.uniform() - 1); });
  };
}

Initializer scaled_normal(FanFunction fan) {
  return [fan](const Shape& shape, Rng& rng) {
    constexpr double kTruncatedDeviation = 0.87962566103423978;  // of a normal cut off at two deviations
    const double deviation = std::sqrt(1 / fan(fans_of(shape))) / kTruncatedDeviation;
    return drawn(shape, [&] { return deviation * truncated(rng); });
  };
}

/// Makes the `count` vectors of `length` orthonormal (modified Gram-Schmidt, each pass twice for precision):
/// the Q of a QR factorisation whose R has a positive diagonal, so uniformly distributed for normal vectors.
void orthonormalize(std::vector<double>& vectors, size_t count, size_t length) {
  for (size_t i = 0; i < count; ++i) {
    double* v = vectors.data() + i * length;
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t j = 0; j < i; ++j) {
        const double* q = vectors.data() + j * length;
        const double along = std::inner_product(v, v + length, q, 0.0);
        for (size_t e = 0; e < length; ++e) v[e] -= along * q[e];
      }
    }
    const double norm = std::sqrt(std::inner_product(v, v + length, v, 0.0));
    for (size_t e = 0; e < length; ++e) v[e] /= norm;
  }
}

}  // namespace

Initializer zeros() { return constant(0); }
Initializer ones() { return constant(1); }
Initializer constant(double value) {
  return [value](const Shape& shape, Rng&) {
    return std::vector<double>(static_cast<size_t>(shape.elems()), value);
  };
}
Initializer normal(double mean, double deviation) {
  return [=](const Shape& shape, Rng& rng) {
    return drawn(shape, [&] { return mean + deviation * rng.normal(); });
  };
}
Initializer truncated_normal(double mean, double deviation) {
  return [=](const Shape& shape, Rng& rng) {
    return drawn(shape, [&] { return mean + deviation * truncated(rng); });
  };
}
Initializer uniform(double low, double high) {
  return [=](const Shape& shape, Rng& rng) {
    return drawn(shape, [&] { return low + (high - low) * rng.uniform(); });
  };
}
Initializer glorot_uniform() { return scaled_uniform(glorot); }
Initializer glorot_normal() { return scaled_normal(glorot); }
Initializer he_uniform() { return scaled_uniform(he); }
Initializer he_normal() { return scaled_normal(he); }
Initializer lecun_uniform() { return scaled_uniform(lecun); }
Initializer lecun_normal() { return scaled_normal(lecun); }

Initializer orthogonal(double gain) {
  return [gain](const Shape& shape, Rng& rng) {
    require(shape.rank() >= 2, ErrorCode::kInvalidArgument, "orthogonal",
            "needs at least two axes, the parameter is {}", shape.str());
    const size_t columns = static_cast<size_t>(shape.back());
    const size_t rows = columns == 0 ? 0 : static_cast<size_t>(shape.elems()) / columns;
    const size_t count = std::min(rows, columns);
    const size_t length = std::max(rows, columns);
    std::vector<double> vectors = drawn(shape, [&] { return rng.normal(); });
    orthonormalize(vectors, count, length);
    std::vector<double> values(vectors.size());
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < columns; ++c) {
        values[r * columns + c] = gain * (rows < columns ? vectors[r * length + c] : vectors[c * length + r]);
      }
    }
    return values;
  };
}

}  // namespace init
}  // namespace isochron::nn
