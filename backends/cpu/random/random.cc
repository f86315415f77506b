#include "isochron/backends/cpu/random/random.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "isochron/backends/cpu/elementwise/tile_functions.h"
#include "isochron/core/process/threads.h"

namespace isochron::ops {
namespace {

using graph::ElementOp;
using graph::KernelArgs;

constexpr int64_t kTileWords = 1024;
constexpr int64_t kTileBlocks = kTileWords / 4;
constexpr int64_t kThreadedTiles = 64;  // tiles from which all threads are used
constexpr double kTwoPi = 6.283185307179586;

/// Converts words to the n elements of a tile. `a` and `b` are as in prepare_random.
using Transform = void (*)(const uint32_t* words, int64_t n, double a, double b, std::byte* out);

void uniform_to_f32(const uint32_t* words, int64_t n, double a, double b, std::byte* out) {
  float* to = reinterpret_cast<float*>(out);
  const float low = static_cast<float>(a);
  const float range = static_cast<float>(b) - low;
  const float below = std::nextafter(static_cast<float>(b), low);  // so that rounding can't reach the bound
  for (int64_t i = 0; i < n; ++i) {
    const float value = low + static_cast<float>(static_cast<int32_t>(words[i] >> 8)) * 0x1p-24f * range;
    to[i] = value < below ? value : below;
  }
}

void uniform_to_f64(const uint32_t* words, int64_t n, double a, double b, std::byte* out) {
  double* to = reinterpret_cast<double*>(out);
  const double below = std::nextafter(b, a);
  for (int64_t i = 0; i < n; ++i) {
    to[i] = std::min(a + uniform_f64(words[2 * i], words[2 * i + 1]) * (b - a), below);
  }
}

/// Elements 2p and 2p + 1 are radius_p times cosine and sine of angle_p, from words 2p and 2p + 1.
void normal_to_f32(const uint32_t* words, int64_t n, double mean, double stddev, std::byte* out) {
  constexpr int64_t kPairs = kTileWords / 2;
  alignas(64) float radius[kPairs];
  alignas(64) float angle[kPairs];
  alignas(64) float cosine[kPairs];
  const int64_t pairs = (n + 1) / 2;
  for (int64_t p = 0; p < pairs; ++p) {
    const float bits = static_cast<float>(static_cast<int32_t>(words[2 * p] >> 1));
    radius[p] = (bits + 0.5f) * 0x1p-31f;
    angle[p] = static_cast<float>(static_cast<int32_t>(words[2 * p + 1] >> 8)) *
               (0x1p-24f * static_cast<float>(kTwoPi));
  }
  static const TileFunction log = tile_function(ElementOp::kLog, DType::kF32);
  static const TileFunction sqrt = tile_function(ElementOp::kSqrt, DType::kF32);
  static const TileFunction cos = tile_function(ElementOp::kCos, DType::kF32);
  static const TileFunction sin = tile_function(ElementOp::kSin, DType::kF32);
  log(radius, radius, nullptr, nullptr, pairs);
  for (int64_t p = 0; p < pairs; ++p) radius[p] *= -2.0f;
  sqrt(radius, radius, nullptr, nullptr, pairs);
  cos(cosine, angle, nullptr, nullptr, pairs);
  sin(angle, angle, nullptr, nullptr, pairs);
  float* to = reinterpret_cast<float*>(out);
  const float m = static_cast<float>(mean);
  const float s = static_cast<float>(stddev);
  for (int64_t p = 0; p < n / 2; ++p) {
    to[2 * p] = m + s * (radius[p] * cosine[p]);
    to[2 * p + 1] = m + s * (radius[p] * angle[p]);
  }
  if (n % 2) to[n - 1] = m + s * (radius[pairs - 1] * cosine[pairs - 1]);
}

void normal_to_f64(const uint32_t* words, int64_t n, double mean, double stddev, std::byte* out) {
  double* to = reinterpret_cast<double*>(out);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t* w = words + i / 2 * 4;
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform_f64(w[0], w[1])));
    const double angle = kTwoPi * uniform_f64(w[2], w[3]);
    to[i] = mean + stddev * radius * (i % 2 ? std::sin(angle) : std::cos(angle));
  }
}

void bernoulli_to_bool(const uint32_t* words, int64_t n, double probability, double, std::byte* out) {
  bool* to = reinterpret_cast<bool*>(out);
  const uint32_t threshold = static_cast<uint32_t>(std::min(probability * 0x1p24, 0x1p24));
  for (int64_t i = 0; i < n; ++i) to[i] = (words[i] >> 8) < threshold;
}

class RandomKernel final : public graph::Kernel {
 public:
  RandomKernel(Transform transform, const graph::KernelRequest& request)
      : transform_(transform),
        elems_(request.outputs[0].shape.elems()),
        elem_bytes_(dtype_size(request.outputs[0].dtype)),
        words_per_elem_(request.outputs[0].dtype == DType::kF64 ? 2 : 1),
        draw_(request.attributes.get<int64_t>("draw")),
        a_(request.attributes.get<double>("a")),
        b_(request.attributes.get<double>("b")),
        loops_(request.inputs.size() - 1) {
    tiles_ = (elems_ * words_per_elem_ + kTileWords - 1) / kTileWords;
    threads_ = tiles_ >= kThreadedTiles ? request.threads : 1;
  }

  void run(const KernelArgs& args) override {
    for (size_t i = 0; i < loops_.size(); ++i)
      loops_[i] = *reinterpret_cast<const int64_t*>(args.inputs[1 + i]);
    const int64_t* state = reinterpret_cast<const int64_t*>(args.inputs[0]);
    const DrawKey key = draw_key(draw_, state[0], state[1], loops_);
    parallel_for(threads_, tiles_, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile) draw_tile(key, tile, args.outputs[0]);
    });
  }

 private:
  void draw_tile(const DrawKey& key, int64_t tile, std::byte* out) const {
    alignas(64) uint32_t words[kTileWords];
    const int64_t tile_elems = kTileWords / words_per_elem_;
    const int64_t first = tile * tile_elems;
    const int64_t n = std::min(tile_elems, elems_ - first);
    const int64_t blocks = (n * words_per_elem_ + 3) / 4;
    philox_blocks(key, static_cast<uint32_t>(tile * kTileBlocks), blocks, words);
    transform_(words, n, a_, b_, out + static_cast<size_t>(first) * elem_bytes_);
  }

  Transform transform_;
  int64_t elems_;
  size_t elem_bytes_;
  int64_t words_per_elem_;
  int64_t draw_;
  double a_, b_;
  std::vector<int64_t> loops_;
  int64_t tiles_ = 0;
  int threads_ = 1;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_random(Distribution distribution,
                                              const graph::KernelRequest& request) {
  const bool wide = request.outputs[0].dtype == DType::kF64;
  Transform transform = bernoulli_to_bool;
  if (distribution == Distribution::kUniform) transform = wide ? uniform_to_f64 : uniform_to_f32;
  if (distribution == Distribution::kNormal) transform = wide ? normal_to_f64 : normal_to_f32;
  return std::make_unique<RandomKernel>(transform, request);
}

}  // namespace isochron::ops
