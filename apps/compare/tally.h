// Counts the findings for each loop over several runs of `compare`: as expected, inconclusive, or otherwise.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "isochron/apps/compare/scenarios/scenario.h"

namespace isochron::apps {

class Tally {
 public:
  void add(std::span<const ScenarioResult> scenarios);

  /// Summary of the latest run: "27 loops: 26 as expected, 1 inconclusive, 0 not as expected".
  std::string latest_text() const;
  /// A table with one row per loop, the sums with shares, and the deviations with their counts.
  std::string text() const;
  /// {runs, as_expected, inconclusive, otherwise, loops: [{scenario, loop, as_expected, inconclusive,
  /// otherwise, deviations: {text: times}}]}
  nlohmann::json json() const;
  int64_t not_as_expected() const { return sum().all() - sum().expected; }

 private:
  struct Counts {
    int64_t expected = 0, inconclusive = 0, otherwise = 0;
    void add(Finding finding);
    int64_t all() const { return expected + inconclusive + otherwise; }
  };
  struct Row {
    std::string scenario, loop;
    Counts counts;
    std::vector<std::pair<std::string, int64_t>> deviations;  // in the order of their first appearance
  };
  Counts sum() const;

  int64_t runs_ = 0;
  Counts latest_;
  std::vector<Row> rows_;
};

}  // namespace isochron::apps
