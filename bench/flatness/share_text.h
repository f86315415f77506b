// The text of a share of runs, with its interval.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace isochron::bench {

/// "0.4 [0.1, 1.2]": a share in %, with its 95 % interval (Wilson 1927).
inline std::string share_text(int count, int of) {
  constexpr double kZ = 1.959964;
  const double n = of, p = count / n;
  const double center = (p + kZ * kZ / (2 * n)) / (1 + kZ * kZ / n);
  const double half = kZ * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n)) / (1 + kZ * kZ / n);
  return fmt::format("{:.1f} [{:.1f}, {:.1f}]", 100 * p, 100 * std::max(0.0, center - half),
                     100 * (center + half));
}

}  // namespace isochron::bench
