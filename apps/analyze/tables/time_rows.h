// Gathers the rows of a table or of JSON Lines, one per iteration, by phase and rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "isochron/apps/analyze/times/iteration_times.h"
#include "isochron/apps/analyze/times/time_units.h"

namespace isochron::apps {

/// The index in `names` of the column of ranks: "rank", or else "global_rank", ..., or else "local_rank", in
/// upper or lower case. Nothing if there is none.
std::optional<size_t> column_called_rank(const std::vector<std::string>& names);

class TimeRows {
 public:
  /// The fields as written; empty if the rows don't have such a field.
  struct Row {
    std::string_view time, work = {}, rank = {}, phase = {};
  };

  /// `unasked`: the column of the ranks, if its name alone says that it is one; ranks with fewer than five
  /// rows are then none.
  TimeRows(const TimesOptions& options, const TimeUnit& unit, bool ranked, std::string unasked)
      : options_(options), unit_(unit), ranked_(ranked), unasked_(std::move(unasked)) {}

  /// Throws kBadFormat, naming `where`, if the row has no time or work above 0, or if there are too many
  /// rows, phases or ranks. With --allow-gaps, a row without a value is left out.
  void add(const Row& row, const std::string& where);
  /// Counts a row as left out.
  void leave_out() { ++left_out_; }
  size_t rows() const { return rows_; }
  /// The times of the chosen phase. Throws kBadFormat if there is no row, kInvalidArgument for a phase that
  /// doesn't exist.
  IterationTimes times();

 private:
  struct Group {
    std::string phase, rank;
    std::vector<double> ns = {};
    double total_ns = 0;
    std::vector<size_t> rows = {};  // row numbers of the times, if the ranks may have to be pooled
  };

  void place(std::string_view phase, std::string_view rank, double ns);
  Group* group_of(std::string_view phase, std::string_view rank);
  bool may_pool() const { return !unasked_.empty() && !pooled_; }
  void pool_ranks();
  IterationTimes chosen_phase_of_groups();

  const TimesOptions& options_;
  TimeUnit unit_;
  bool ranked_;
  std::string unasked_;
  bool pooled_ = false;
  size_t rows_ = 0, left_out_ = 0;
  LastDigits last_digits_;
  std::vector<double> works_;
  std::string key_;
  std::unordered_map<std::string, size_t> indices_;
  std::vector<Group> groups_;
};

}  // namespace isochron::apps
