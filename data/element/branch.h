// Branches: pipelines that are read side by side or one after the other, as parts of one dataset (zip,
// concatenate, sample_from_datasets, interleave, flat_map). The random numbers of stages without a seed of
// their own depend on the branch, so that parts made by the same calls draw different numbers.
#pragma once

#include <cstdint>
#include <utility>

namespace isochron::data {

/// The branch of part `number` of a dataset that lies in the branch `outer` (Steele, Lea and Flood: "Fast
/// Splittable Pseudorandom Number Generators", OOPSLA 2014).
constexpr uint64_t branch_of(uint64_t outer, uint64_t number) {
  uint64_t bits = outer + (number + 1) * 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

/// The seed of a stage in a branch. A `shared` seed, such as one that the user gave, is the same in all
/// branches.
constexpr uint64_t seed_in_branch(uint64_t seed, bool shared, uint64_t branch) {
  return shared ? seed : seed ^ branch;
}

/// Pipelines that this thread opens during the scope's lifetime lie in this branch. Outside of any scope, the
/// branch is 0.
class BranchScope {
 public:
  explicit BranchScope(uint64_t branch) : outer_(std::exchange(t_current, branch)) {}
  BranchScope(const BranchScope&) = delete;
  BranchScope& operator=(const BranchScope&) = delete;
  ~BranchScope() { t_current = outer_; }
  static uint64_t current() { return t_current; }

 private:
  inline static constinit thread_local uint64_t t_current = 0;
  uint64_t outer_;
};

}  // namespace isochron::data
