#include "isochron/graph/ir/dependencies.h"

#include <algorithm>
#include <functional>

namespace isochron::graph {
namespace {

struct Seen {
  MemoryUse use;
  size_t step = 0;
};

bool overlap(const MemoryUse& a, const MemoryUse& b) {
  return a.space == b.space && a.begin < b.end && b.begin < a.end;
}

bool within(const MemoryUse& inner, const MemoryUse& outer) {
  return inner.space == outer.space && outer.begin <= inner.begin && inner.end <= outer.end;
}

}  // namespace

std::vector<std::vector<size_t>> dependencies(std::span<const std::vector<MemoryUse>> steps) {
  std::vector<std::vector<size_t>> result(steps.size());
  std::vector<std::vector<bool>> waits(steps.size());  // directly or not
  std::vector<Seen> seen;  // earlier uses, except of bytes that were overwritten since
  for (size_t i = 0; i < steps.size(); ++i) {
    std::vector<size_t> touched;
    for (const MemoryUse& use : steps[i]) {
      if (use.begin == use.end) continue;
      for (const Seen& before : seen) {
        if ((use.writes || before.use.writes) && overlap(use, before.use)) touched.push_back(before.step);
      }
    }
    std::ranges::sort(touched, std::greater<>());
    waits[i].resize(i);
    for (const size_t step : touched) {
      if (waits[i][step]) continue;
      result[i].push_back(step);
      waits[i][step] = true;
      for (size_t j = 0; j < step; ++j) waits[i][j] = waits[i][j] || waits[step][j];
    }
    std::ranges::reverse(result[i]);
    for (const MemoryUse& use : steps[i]) {
      if (use.writes) std::erase_if(seen, [&](const Seen& before) { return within(before.use, use); });
    }
    for (const MemoryUse& use : steps[i]) {
      if (use.begin < use.end) seen.push_back({use, i});
    }
  }
  return result;
}

size_t longest_chain(std::span<const std::vector<size_t>> dependencies) {
  std::vector<size_t> length(dependencies.size());
  size_t longest = 0;
  for (size_t i = 0; i < dependencies.size(); ++i) {
    for (const size_t before : dependencies[i]) length[i] = std::max(length[i], length[before]);
    longest = std::max(longest, ++length[i]);
  }
  return longest;
}

}  // namespace isochron::graph
