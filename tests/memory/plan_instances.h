// Generated planning problems, for tests and benchmarks.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "isochron/core/rng.h"
#include "isochron/memory/planner.h"

namespace isochron::testing_support {

using Requests = std::vector<BufferRequest>;

/// Log-uniform between about 400 bytes and 9 MB.
inline size_t random_size(Rng& rng) { return static_cast<size_t>(std::exp(6.0 + 10.0 * rng.uniform())); }

/// The lifetimes of a train step of `layers` layers: activations live from the forward op to its gradient,
/// gradients of activations briefly, half the weight gradients to the end (an optimizer that updates all at
/// once), and some ops have a workspace. About 3.5 buffers a layer.
inline Requests training_step(int layers, uint64_t seed) {
  Rng rng(seed);
  constexpr int64_t kForward = 2, kBackward = 3;  // ops a layer
  const int64_t end = (kForward + kBackward) * layers + 1;
  Requests requests;
  for (int64_t i = 0; i < layers; ++i) {
    const int64_t forward = kForward * i;
    const int64_t backward = kForward * layers + kBackward * (layers - 1 - i);
    const size_t activation = random_size(rng), weight = random_size(rng) / 4;
    requests.push_back({forward, backward + 3, activation});
    requests.push_back({backward, backward + 4, activation});
    requests.push_back({backward + 1, rng.uniform() < 0.5 ? end : backward + 3, weight});
    if (rng.uniform() < 0.5) requests.push_back({forward, forward + 2, activation});
    if (rng.uniform() < 0.3) requests.push_back({forward, forward + 1, random_size(rng)});
    if (rng.uniform() < 0.4) requests.push_back({backward + 1, backward + 2, random_size(rng)});
  }
  return requests;
}

/// Starts uniform in [0, times), lifetimes uniform in [1, longest].
inline Requests random_lifetimes(int count, int64_t times, int64_t longest, uint64_t seed) {
  Rng rng(seed);
  Requests requests;
  for (int i = 0; i < count; ++i) {
    const auto lower = static_cast<int64_t>(rng.below(times));
    const auto upper = lower + 1 + static_cast<int64_t>(rng.below(longest));
    requests.push_back({lower, upper, random_size(rng)});
  }
  return requests;
}

/// A rectangle of `times` x `units` x 64 bytes cut into `count` pieces by straight cuts: it has a plan
/// without a single free byte, and greedy placement alone misses it by a third.
inline Requests cut_rectangle(int count, int64_t times, int64_t units, uint64_t seed) {
  struct Piece {
    int64_t t0, t1, h0, h1;
    int64_t area() const { return (t1 - t0) * (h1 - h0); }
  };
  Rng rng(seed);
  std::vector<Piece> pieces = {{0, times, 0, units}};
  while (static_cast<int>(pieces.size()) < count) {
    const size_t a = rng.below(pieces.size()), b = rng.below(pieces.size());
    const size_t chosen = pieces[a].area() >= pieces[b].area() ? a : b;  // lean to the larger
    Piece& piece = pieces[chosen];
    Piece rest = piece;
    if (rng.uniform() < 0.5) {
      if (piece.t1 - piece.t0 < 2) continue;
      piece.t1 = rest.t0 = piece.t0 + 1 + static_cast<int64_t>(rng.below(piece.t1 - piece.t0 - 1));
    } else {
      if (piece.h1 - piece.h0 < 2) continue;
      piece.h1 = rest.h0 = piece.h0 + 1 + static_cast<int64_t>(rng.below(piece.h1 - piece.h0 - 1));
    }
    pieces.push_back(rest);
  }
  for (size_t i = pieces.size(); i > 1; --i) std::swap(pieces[i - 1], pieces[rng.below(i)]);
  Requests requests;
  for (const Piece& p : pieces) requests.push_back({p.t0, p.t1, static_cast<size_t>(p.h1 - p.h0) * 64});
  return requests;
}

/// The best arena of all: every plan, its buffers taken by rising offset, is no better than stacking in that
/// order.
inline size_t optimal_arena(const Requests& requests) {
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  size_t best = SIZE_MAX;
  do {
    std::vector<size_t> ends(requests.size());
    size_t height = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const BufferRequest& item = requests[order[i]];
      size_t offset = 0;
      for (size_t j = 0; j < i; ++j) {
        const BufferRequest& other = requests[order[j]];
        if (other.lower < item.upper && item.lower < other.upper) offset = std::max(offset, ends[j]);
      }
      ends[i] = offset + (item.size_bytes + 63) / 64 * 64;
      height = std::max(height, ends[i]);
    }
    best = std::min(best, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

}  // namespace isochron::testing_support
