// From evidence to a named cause. Evidence is numbers by name; a rule is a row of `cause_rules()`: the cause,
// what mends it, which symptoms it explains, and the conditions that must all hold. A new cause is a new row
// (and, where no number tells yet, a gauge of the recorder that supplies one). What no row explains is called
// unexplained.
//
// Names of quantities, as `evidence_of` (report.h) sets them:
//   time.growing, time.machine_slowed         1 or 0
//   time.slower                               median step against the cured form's; absent when there is none
//   phase.<phase>.share                       of the time inside iterations
//   phase.<phase>.growth_share                of the growth from first to last tenth; only when time grows
//   <series>.growing                          1 or 0, for sampled levels: rss_bytes, graph_nodes, a gauge
//   <series>.drives_time                      where both grow: the power of the level that time follows
//   <series>.per_iteration, .per_second       for all sampled series: what it gained, over the run
//   disk_bytes.weights_share                  of the growth, what was written as checkpoints and weights
//   stolen.share                              CPU time taken by the hypervisor, of the run
//   overhead.share                            the recorder's own time, of the run
// Gauges that rules know by name, when a caller supplies them: buffered_elements, cached_bytes, disk_bytes
// (levels), disk_read_bytes, optimizer_states (cumulative).
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isochron::observe {

class Evidence {
 public:
  void set(std::string name, double value) { values_.insert_or_assign(std::move(name), value); }
  std::optional<double> get(std::string_view name) const;
  /// Whether the quantity is known and at least one half: for those that are 1 or 0.
  bool holds(std::string_view name) const { return get(name).value_or(0) >= 0.5; }

 private:
  std::map<std::string, double, std::less<>> values_;
};

/// What can ask for an explanation; a rule names those it explains (bits).
enum Symptom : unsigned {
  kTimeGrows = 1,  // time.growing
  kMemoryGrows =
      2,  // any of rss_bytes, bytes_in_use, bytes_reserved, live_tensors, tape_entries, graph_nodes growing
  kDiskGrows = 4,  // disk_bytes.growing
  kSlow = 8,       // time.slower is kSlowFactor or more, or not known
  kMachine = 16,   // always looked at
};
inline constexpr double kSlowFactor = 1.2;

struct Condition {
  enum Comparison { kNone, kAtLeast, kBelow };
  std::string_view quantity = {};
  Comparison comparison = kNone;  // kNone: no condition
  double threshold = 0;
};

struct CauseRule {
  std::string_view cause;
  std::string_view mend;
  unsigned explains = 0;  // of Symptom
  std::array<Condition, 5> conditions{};
};
/// The table; earlier rows are the more specific.
std::span<const CauseRule> cause_rules();

struct Cause {
  std::string name;      // as in the catalogue, or "unexplained"
  std::string mend;      // what to do
  std::string evidence;  // the numbers that told, "graph_nodes.per_iteration 1"
};

/// Every cause whose symptom is there and whose conditions hold, in the table's order; a quantity that isn't
/// known holds no condition of kAtLeast and every one of kBelow. Growth (of time, memory, disk) that no row
/// explains adds one "unexplained" with the phase that holds most of it. Empty when nothing asks for an
/// explanation.
std::vector<Cause> attribute(const Evidence& evidence);

}  // namespace isochron::observe
