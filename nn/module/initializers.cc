#include "isochron/nn/module/initializers.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include "isochron/core/base/seed.h"

namespace isochron::nn {
namespace {

struct Streams {
  std::mutex mutex;
  uint64_t seed = 0;
  uint64_t next = 0;
  uint64_t process_calls = 0;  // of the process's seed when `seed` was set
};
/// Shared by all threads except those with a seed of their own.
Streams& streams() {
  static Streams of_all;
  thread_local Streams of_thread;
  return thread_has_seed() ? of_thread : of_all;
}

}  // namespace

void set_initializer_seed(uint64_t seed) {
  const std::lock_guard lock(streams().mutex);
  streams().seed = seed;
  streams().next = 0;
  streams().process_calls = process_seed().calls;
}

Rng next_initializer_rng() {
  const std::lock_guard lock(streams().mutex);
  const ProcessSeed process = process_seed();
  if (process.calls != streams().process_calls) {
    streams().seed = derived_seed(process.value, "initializers");
    streams().next = 0;
    streams().process_calls = process.calls;
  }
  return Rng(streams().seed, streams().next++);
}

Initializer Initializer::in_pieces(std::function<Draw(const Shape& shape, Rng& rng)> begin) {
  Initializer result;
  result.begin_ = std::move(begin);
  return result;
}

Initializer::Draw Initializer::pieces_of(std::vector<double> all, const Shape& shape) {
  require(static_cast<int64_t>(all.size()) == shape.elems(), ErrorCode::kShapeMismatch, "initializer",
          "shape {} has {} elements, got {} values", shape.str(), shape.elems(), all.size());
  return [all = std::move(all), at = size_t{0}](std::span<double> next) mutable {
    std::copy_n(all.begin() + static_cast<int64_t>(at), next.size(), next.begin());
    at += next.size();
  };
}

std::vector<double> Initializer::operator()(const Shape& shape, Rng& rng) const {
  std::vector<double> values(static_cast<size_t>(shape.elems()));
  begin(shape, rng)(values);
  return values;
}

namespace init {
namespace {

/// Draws one number after the other: draw(rng).
template <typename Draw>
Initializer::Draw drawn(Rng& rng, Draw draw) {
  return [&rng, draw](std::span<double> next) {
    for (double& value : next) value = draw(rng);
  };
}
template <typename Draw>
Initializer each(Draw draw) {
  return Initializer::in_pieces([draw](const Shape&, Rng& rng) { return drawn(rng, draw); });
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

double fan_of(const Shape& shape, Fan fan) {
  const Fans fans = fans_of(shape);
  const double n = fan == Fan::kIn ? fans.in : fan == Fan::kOut ? fans.out : (fans.in + fans.out) / 2;
  return std::max(n, 1.0);
}

/// A standard normal number within [low, high], by rejection of normal numbers or, in a narrow range, of
/// uniform ones. The range must begin within 2 of 0.
double normal_between(Rng& rng, double low, double high) {
  if (high - low >= 2) {
    for (;;) {
      const double value = rng.normal();
      if (value >= low && value <= high) return value;
    }
  }
  const double peak = std::clamp(0.0, low, high);
  for (;;) {
    const double value = low + (high - low) * rng.uniform();
    if (rng.uniform() <= std::exp((peak * peak - value * value) / 2)) return value;
  }
}

/// Makes the `count` vectors of `length` orthonormal (modified Gram-Schmidt, each pass twice for precision):
/// the Q of a QR factorization whose R has a positive diagonal, so uniformly distributed for normal vectors.
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
  return each([value](Rng&) { return value; });
}
Initializer normal(double mean, double stddev) {
  return each([=](Rng& rng) { return mean + stddev * rng.normal(); });
}
Initializer truncated_normal(double mean, double stddev) {
  return each([=](Rng& rng) { return mean + stddev * truncated(rng); });
}
Initializer uniform(double low, double high) {
  return each([=](Rng& rng) { return low + (high - low) * rng.uniform(); });
}
Initializer truncated_normal_between(double mean, double stddev, double low, double high) {
  require(stddev > 0 && low < high, ErrorCode::kInvalidArgument, "truncated_normal_between",
          "needs a standard deviation > 0 and low < high, got {} and [{}, {}]", stddev, low, high);
  const double from = (low - mean) / stddev;
  const double to = (high - mean) / stddev;
  require(
      from <= 2 && to >= -2, ErrorCode::kInvalidArgument, "truncated_normal_between",
      "[{}, {}] lies more than two standard deviations from the mean {}, where almost no numbers are drawn",
      low, high, mean);
  return each([=](Rng& rng) { return mean + stddev * normal_between(rng, from, to); });
}

Initializer variance_scaling(double scale, Fan fan, Distribution distribution) {
  require(scale > 0, ErrorCode::kInvalidArgument, "variance_scaling", "the scale must be > 0, got {}", scale);
  return Initializer::in_pieces([=](const Shape& shape, Rng& rng) -> Initializer::Draw {
    const double stddev = std::sqrt(scale / fan_of(shape, fan));
    switch (distribution) {
      case Distribution::kTruncatedNormal: {
        constexpr double kTruncatedStddev = 0.87962566103423978;  // of a normal cut off at two deviations
        return drawn(rng, [=](Rng& r) { return stddev / kTruncatedStddev * truncated(r); });
      }
      case Distribution::kNormal:
        return drawn(rng, [=](Rng& r) { return stddev * r.normal(); });
      case Distribution::kUniform:
        break;
    }
    const double limit = std::sqrt(3.0) * stddev;
    return drawn(rng, [=](Rng& r) { return limit * (2 * r.uniform() - 1); });
  });
}
Initializer glorot_uniform() { return variance_scaling(1, Fan::kAverage, Distribution::kUniform); }
Initializer glorot_normal() { return variance_scaling(1, Fan::kAverage, Distribution::kTruncatedNormal); }
Initializer he_uniform() { return variance_scaling(2, Fan::kIn, Distribution::kUniform); }
Initializer he_normal() { return variance_scaling(2, Fan::kIn, Distribution::kTruncatedNormal); }
Initializer lecun_uniform() { return variance_scaling(1, Fan::kIn, Distribution::kUniform); }
Initializer lecun_normal() { return variance_scaling(1, Fan::kIn, Distribution::kTruncatedNormal); }
Initializer xavier_uniform(double gain) {
  return variance_scaling(gain * gain, Fan::kAverage, Distribution::kUniform);
}
Initializer xavier_normal(double gain) {
  return variance_scaling(gain * gain, Fan::kAverage, Distribution::kNormal);
}
Initializer kaiming_uniform(double slope, Fan fan) {
  return variance_scaling(2 / (1 + slope * slope), fan, Distribution::kUniform);
}
Initializer kaiming_normal(double slope, Fan fan) {
  return variance_scaling(2 / (1 + slope * slope), fan, Distribution::kNormal);
}
Initializer pytorch_weight() { return kaiming_uniform(std::sqrt(5.0)); }
Initializer pytorch_bias(int64_t fan_in) {
  require(fan_in >= 1, ErrorCode::kInvalidArgument, "pytorch_bias", "the fan in must be >= 1, got {}",
          fan_in);
  const double limit = 1 / std::sqrt(static_cast<double>(fan_in));
  return uniform(-limit, limit);
}

Initializer identity(double gain) {
  return [gain](const Shape& shape, Rng&) {
    require(shape.rank() == 2, ErrorCode::kInvalidArgument, "identity",
            "needs two axes, the parameter is {}; see dirac for convolutions", shape.str());
    std::vector<double> values(static_cast<size_t>(shape.elems()));
    for (int64_t i = 0; i < std::min(shape[0], shape[1]); ++i) {
      values[static_cast<size_t>(i * shape[1] + i)] = gain;
    }
    return values;
  };
}

Initializer dirac(int64_t groups) {
  require(groups >= 1, ErrorCode::kInvalidArgument, "dirac", "groups must be >= 1, got {}", groups);
  return [groups](const Shape& shape, Rng&) {
    const int rank = shape.rank();
    require(rank >= 3 && shape.back() % groups == 0, ErrorCode::kInvalidArgument, "dirac",
            "needs a convolution kernel (window..., in, out) with out divisible by {} groups, got {}", groups,
            shape.str());
    std::vector<double> values(static_cast<size_t>(shape.elems()));
    if (values.empty()) return values;
    int64_t center = 0;
    for (int axis = 0; axis + 2 < rank; ++axis) center = center * shape[axis] + shape[axis] / 2;
    const int64_t in = shape[rank - 2];
    const int64_t out = shape[rank - 1];
    for (int64_t g = 0; g < groups; ++g) {
      for (int64_t i = 0; i < std::min(in, out / groups); ++i) {
        values[static_cast<size_t>((center * in + i) * out + g * (out / groups) + i)] = 1;
      }
    }
    return values;
  };
}

Initializer sparse(double sparsity, double stddev) {
  require(sparsity >= 0 && sparsity <= 1, ErrorCode::kInvalidArgument, "sparse",
          "the sparsity must lie in [0, 1], got {}", sparsity);
  return [=](const Shape& shape, Rng& rng) {
    require(shape.rank() == 2, ErrorCode::kInvalidArgument, "sparse", "needs two axes, the parameter is {}",
            shape.str());
    std::vector<double> values = normal(0, stddev)(shape, rng);
    const size_t out = static_cast<size_t>(shape[1]);
    const size_t zeros = static_cast<size_t>(std::ceil(sparsity * static_cast<double>(out)));
    std::vector<size_t> columns(out);
    for (size_t row = 0; row < values.size(); row += out) {
      std::iota(columns.begin(), columns.end(), size_t{0});
      for (size_t i = 0; i < zeros; ++i) {  // the first draws of a shuffle
        std::swap(columns[i], columns[i + static_cast<size_t>(rng.below(out - i))]);
        values[row + columns[i]] = 0;
      }
    }
    return values;
  };
}

Initializer orthogonal(double gain) {
  return [gain](const Shape& shape, Rng& rng) {
    require(shape.rank() >= 2, ErrorCode::kInvalidArgument, "orthogonal",
            "needs at least two axes, the parameter is {}", shape.str());
    const size_t columns = static_cast<size_t>(shape.back());
    const size_t rows = columns == 0 ? 0 : static_cast<size_t>(shape.elems()) / columns;
    const size_t count = std::min(rows, columns);
    const size_t length = std::max(rows, columns);
    std::vector<double> vectors = normal(0, 1)(shape, rng);
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
