// Generated planning problems, for tests and benchmarks.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "isochron/core/base/rng.h"
#include "isochron/memory/planner/planner.h"

namespace isochron::testing_support {

using Requests = std::vector<BufferRequest>;

/// Log-uniform between about 400 bytes and 9 MB.
inline size_t random_size(Rng& rng) { return static_cast<size_t>(std::exp(6.0 + 10.0 * rng.uniform())); }

/// The lifetimes of a training step of `layers` layers. Activations live from the forward op to its gradient,
/// and gradients of activations live briefly. Half of the weight gradients live to the end (an optimizer that
/// updates all at once), and some ops have a workspace. There are about 3.5 buffers per layer.
inline Requests training_step(int layers, uint64_t seed) {
  Rng rng(seed);
  constexpr int64_t kForward = 2, kBackward = 3;  // ops per layer
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

/// A part of the rectangle times x height that a plan fills.
struct Piece {
  int64_t t0, t1, h0, h1;
  int64_t area() const { return (t1 - t0) * (h1 - h0); }
};

/// What keeps pieces from filling their rectangle. What remains still fits what the whole takes.
struct Flaws {
  double left_out = 0;  // part of the pieces
  double shaved = 0;    // up to this part of each piece's bytes is missing
  bool ragged = false;  // up to 63 bytes of each are: aligned, it is as large as before
};

/// The pieces in a random order, `unit_bytes` for each of their height.
inline Requests shuffled(std::vector<Piece> pieces, Rng& rng, const Flaws& flaws = {},
                         size_t unit_bytes = 64) {
  for (size_t i = pieces.size(); i > 1; --i) std::swap(pieces[i - 1], pieces[rng.below(i)]);
  Requests requests;
  for (const Piece& p : pieces) {
    if (flaws.left_out > 0 && rng.uniform() < flaws.left_out) continue;
    size_t bytes = static_cast<size_t>(p.h1 - p.h0) * unit_bytes;
    if (flaws.shaved > 0)
      bytes -= static_cast<size_t>(static_cast<double>(bytes) * flaws.shaved * rng.uniform());
    requests.push_back({p.t0, p.t1, flaws.ragged ? bytes - rng.below(64) : bytes});
  }
  return requests;
}

/// Cuts one piece, the larger of two random ones, with a straight line. `across_time` is how often the cut is
/// at a moment in time.
inline void cut_straight(std::vector<Piece>& pieces, Rng& rng, double across_time) {
  const size_t a = rng.below(pieces.size()), b = rng.below(pieces.size());
  Piece& piece = pieces[pieces[a].area() >= pieces[b].area() ? a : b];
  Piece rest = piece;
  if (rng.uniform() < across_time) {
    if (piece.t1 - piece.t0 < 2) return;
    piece.t1 = rest.t0 = piece.t0 + 1 + static_cast<int64_t>(rng.below(piece.t1 - piece.t0 - 1));
  } else {
    if (piece.h1 - piece.h0 < 2) return;
    piece.h1 = rest.h0 = piece.h0 + 1 + static_cast<int64_t>(rng.below(piece.h1 - piece.h0 - 1));
  }
  pieces.push_back(rest);
}

/// A rectangle of `times` x `units` x 64 bytes cut into `count` pieces by straight cuts: it has a plan
/// without a single free byte, and greedy placement alone misses it by a third.
inline Requests cut_rectangle(int count, int64_t times, int64_t units, uint64_t seed,
                              double across_time = 0.5, const Flaws& flaws = {}) {
  Rng rng(seed);
  std::vector<Piece> pieces = {{0, times, 0, units}};
  while (static_cast<int>(pieces.size()) < count) cut_straight(pieces, rng, across_time);
  return shuffled(std::move(pieces), rng, flaws);
}

/// The same, cut recursively into pinwheels: four pieces around a fifth, which no straight cuts can produce.
inline Requests cut_pinwheels(int count, int64_t times, int64_t units, uint64_t seed,
                              const Flaws& flaws = {}) {
  Rng rng(seed);
  std::vector<Piece> pieces = {{0, times, 0, units}};
  const auto between = [&](int64_t low, int64_t high) {
    return low + 1 + static_cast<int64_t>(rng.below(high - low - 1));
  };
  while (static_cast<int>(pieces.size()) + 4 <= count) {
    size_t chosen = rng.below(pieces.size());
    for (int draw = 0; draw < 2; ++draw) {
      const size_t other = rng.below(pieces.size());
      if (pieces[other].area() > pieces[chosen].area()) chosen = other;
    }
    const auto [t0, t1, h0, h1] = pieces[chosen];
    if (t1 - t0 < 3 || h1 - h0 < 3) continue;
    const int64_t ta = between(t0, t1 - 1), tb = between(ta, t1);
    const int64_t ha = between(h0, h1 - 1), hb = between(ha, h1);
    pieces[chosen] = {ta, tb, ha, hb};
    const bool left = rng.uniform() < 0.5;
    const std::vector<Piece> right_turn = {
        {t0, tb, h0, ha}, {tb, t1, h0, hb}, {ta, t1, hb, h1}, {t0, ta, ha, h1}};
    const std::vector<Piece> left_turn = {
        {ta, t1, h0, ha}, {t0, ta, h0, hb}, {t0, tb, hb, h1}, {tb, t1, ha, h1}};
    for (const Piece& arm : left ? left_turn : right_turn) pieces.push_back(arm);
  }
  while (static_cast<int>(pieces.size()) < count) cut_straight(pieces, rng, 0.5);
  return shuffled(std::move(pieces), rng, flaws);
}

/// A grid of cells of random sizes, joined into rectangles from corner to corner: about columns x rows / 2
/// pieces, which no straight cuts can produce.
inline Requests tile_rectangle(int columns, int rows, int64_t times, int64_t units, uint64_t seed) {
  Rng rng(seed);
  const auto lines = [&](int parts, int64_t length) {
    std::vector<int64_t> at = {0, length};
    while (static_cast<int>(at.size()) <= parts) {
      const int64_t line = 1 + static_cast<int64_t>(rng.below(length - 1));
      if (std::find(at.begin(), at.end(), line) == at.end()) at.push_back(line);
    }
    std::sort(at.begin(), at.end());
    return at;
  };
  const std::vector<int64_t> moments = lines(columns, times), heights = lines(rows, units);
  std::vector<std::vector<char>> used(rows, std::vector<char>(columns, 0));
  std::vector<Piece> pieces;
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) {
      if (used[r][c]) continue;
      int width = 1, height = 1;
      while (c + width < columns && !used[r][c + width] && rng.uniform() < 0.5) ++width;
      while (r + height < rows && rng.uniform() < 0.5) ++height;
      for (int y = r; y < r + height; ++y) std::fill_n(used[y].begin() + c, width, 1);
      pieces.push_back({moments[c], moments[c + width], heights[r], heights[r + height]});
    }
  }
  return shuffled(std::move(pieces), rng);
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
