// Random draws of generated kernels, with one thread per block of Philox words. Comes after element_prelude()
// in the compiled source. The numbers are those of core/base/rng.h and backends/cpu/random/random.h.
#ifndef ISOCHRON_OPS_CUDA_RANDOM_TEXT_H_
#define ISOCHRON_OPS_CUDA_RANDOM_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

struct Words {
  unsigned at[4];
};

ISOCHRON_SCALAR Words philox(unsigned block, unsigned loop, unsigned step, unsigned draw,
                             unsigned long long seed) {
  unsigned c0 = block, c1 = loop, c2 = step, c3 = draw;
  unsigned k0 = static_cast<unsigned>(seed), k1 = static_cast<unsigned>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const unsigned long long p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
    c0 = static_cast<unsigned>(p1 >> 32) ^ c1 ^ k0;
    c2 = static_cast<unsigned>(p0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<unsigned>(p1);
    c3 = static_cast<unsigned>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

ISOCHRON_SCALAR float uniform_f32(unsigned bits) {
  return static_cast<float>(static_cast<int>(bits >> 8)) * 5.9604644775390625e-8f;  // 2^-24
}
ISOCHRON_SCALAR double uniform_f64(unsigned high, unsigned low) {
  const unsigned long long bits = ((static_cast<unsigned long long>(high) << 32) | low) >> 11;
  return static_cast<double>(bits) * 1.1102230246251565404e-16;  // 2^-53
}

/// Elements of a block, `i` of them: 4 of 32 bits, 2 of 64. `below`: the largest number that may come of it.
struct Uniform {
  ISOCHRON_SCALAR float of(const Words& w, unsigned i, float low, float high, float below) {
    const float value = low + uniform_f32(w.at[i]) * (high - low);
    return value < below ? value : below;
  }
  ISOCHRON_SCALAR double of(const Words& w, unsigned i, double low, double high, double below) {
    const double value = low + uniform_f64(w.at[2 * i], w.at[2 * i + 1]) * (high - low);
    return value < below ? value : below;
  }
};
struct Normal {
  ISOCHRON_SCALAR float of(const Words& w, unsigned i, float mean, float stddev, float) {
    const unsigned first = w.at[i & 2u], second = w.at[(i & 2u) + 1];
    const float bits = static_cast<float>(static_cast<int>(first >> 1));
    const float logarithm = ScalarMath<float>::log((bits + 0.5f) * 4.656612873077392578125e-10f);  // 2^-31
    const float angle =
        static_cast<float>(static_cast<int>(second >> 8)) * (5.9604644775390625e-8f * 6.283185307179586f);
    const float wave = i & 1u ? ScalarMath<float>::sin(angle) : ScalarMath<float>::cos(angle);
    return mean + stddev * (ScalarMath<float>::sqrt(-2.0f * logarithm) * wave);
  }
  ISOCHRON_SCALAR double of(const Words& w, unsigned i, double mean, double stddev, double) {
    const double radius =
        ScalarMath<double>::sqrt(-2.0 * ScalarMath<double>::log(1.0 - uniform_f64(w.at[0], w.at[1])));
    const double angle = 6.283185307179586 * uniform_f64(w.at[2], w.at[3]);
    return mean +
           stddev * radius * (i & 1u ? ScalarMath<double>::sin(angle) : ScalarMath<double>::cos(angle));
  }
};
struct Bernoulli {
  /// `probability` in units of 2^-24.
  ISOCHRON_SCALAR bool of(const Words& w, unsigned i, double probability, double, double) {
    return (w.at[i] >> 8) < static_cast<unsigned>(probability);
  }
};

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
