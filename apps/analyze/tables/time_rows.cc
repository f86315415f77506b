#include "isochron/apps/analyze/tables/time_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "isochron/apps/analyze/times/fields.h"
#include "isochron/core/base/error.h"
#include "isochron/core/text/count_text.h"
#include "isochron/core/text/encoding.h"
#include "isochron/core/text/terminal_text.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::apps {
namespace {

constexpr size_t kMaxGroups = 4096;  // phases times ranks

bool is_gap(std::string_view field) {
  const std::string text = in_lower_case(trimmed(field).substr(0, 4));
  return text.empty() || text == "nan" || text == "null";
}

}  // namespace

std::optional<size_t> column_called_rank(const std::vector<std::string>& names) {
  for (const std::string_view wanted :
       {"rank", "global_rank", "world_rank", "process_index", "local_rank", "worker", "worker_id"}) {
    const auto found =
        std::ranges::find_if(names, [&](const auto& name) { return in_lower_case(name) == wanted; });
    if (found != names.end()) return static_cast<size_t>(found - names.begin());
  }
  return std::nullopt;
}

void TimeRows::add(const Row& row, const std::string& where) {
  const bool works = !options_.work.empty();
  const bool gap = is_gap(row.time) || (works && is_gap(row.work));
  if (gap && options_.allow_gaps) {
    leave_out();
    return;
  }
  require(!gap, ErrorCode::kBadFormat, where, "no value, expected a time; --allow-gaps skips such rows");
  double ns = time_ns(row.time, unit_, where, options_.elapsed.value_or(false));
  last_digits_.add(written_resolution(trimmed(row.time)), ns);
  if (works) {
    const auto work = whole_field_number(row.work);
    require(work && *work > 0 && std::isfinite(*work), ErrorCode::kBadFormat, where,
            "expected an amount of work above 0 in column '{}', got '{}'", quotation(options_.work),
            quotation(row.work));
    works_.push_back(*work);
    ns /= *work;
  }
  place(row.phase, row.rank, ns);
}

void TimeRows::place(std::string_view phase, std::string_view rank, double ns) {
  require(rows_ < options_.most_times, ErrorCode::kBadFormat, name_of(options_.path),
          "has more than {} times; give only a part of them", options_.most_times);
  ++rows_;
  Group* group = group_of(phase, pooled_ ? std::string_view() : rank);
  if (group == nullptr && may_pool()) {
    pool_ranks();
    group = group_of(phase, {});
  }
  require(group != nullptr, ErrorCode::kBadFormat, name_of(options_.path),
          "has more than {} phases and ranks; are --rank and --phase-column the right columns?", kMaxGroups);
  group->ns.push_back(ns);
  group->total_ns += ns;
  if (may_pool()) group->rows.push_back(rows_);
}

/// nullptr if there are too many.
TimeRows::Group* TimeRows::group_of(std::string_view phase, std::string_view rank) {
  key_.assign(phase).append(1, '\0').append(rank);
  const auto [found, is_new] = indices_.try_emplace(key_, groups_.size());
  if (is_new && groups_.size() == kMaxGroups) {
    indices_.erase(found);
    return nullptr;
  }
  if (is_new) groups_.push_back({std::string(phase), std::string(rank)});
  return &groups_[found->second];
}

/// Merges the ranks of each phase, with the times in the order of their rows.
void TimeRows::pool_ranks() {
  pooled_ = true;
  std::vector<std::tuple<size_t, std::string, double>> times;
  for (const Group& group : groups_) {
    for (size_t i = 0; i < group.ns.size(); ++i) times.emplace_back(group.rows[i], group.phase, group.ns[i]);
  }
  std::ranges::sort(times);
  groups_.clear();
  indices_.clear();
  for (const auto& [row, phase, ns] : times) {
    Group& group = *group_of(phase, {});
    group.ns.push_back(ns);
    group.total_ns += ns;
  }
}

IterationTimes TimeRows::chosen_phase_of_groups() {
  require(options_.phase.empty() || !options_.phase_column.empty(), ErrorCode::kInvalidArgument, "--phase",
          "needs --phase-column for a table: the column with the phase of a row");
  std::vector<std::string> names;
  std::unordered_map<std::string, size_t> indices;
  std::vector<double> totals;
  std::vector<IterationTimes> phases;
  for (Group& group : groups_) {
    const auto [found, is_new] = indices.try_emplace(group.phase, names.size());
    if (is_new) {
      names.push_back(group.phase);
      totals.push_back(0);
      phases.emplace_back().phase = group.phase;
    }
    totals[found->second] += group.total_ns;
    phases[found->second].series.push_back({std::move(group.rank), std::move(group.ns)});
  }
  const auto most = static_cast<size_t>(std::ranges::max_element(totals) - totals.begin());
  const auto chosen = phases.begin() + static_cast<ptrdiff_t>(chosen_phase(options_, names, most));
  IterationTimes result = std::move(*chosen);
  phases.erase(chosen);
  result.others = std::move(phases);
  return result;
}

IterationTimes TimeRows::times() {
  require(rows_ > 0, ErrorCode::kBadFormat, name_of(options_.path), "has no rows of data");
  const bool few =
      std::ranges::any_of(groups_, [](const Group& one) { return one.ns.size() < kFewestOfRank; });
  if (may_pool() && few) pool_ranks();
  IterationTimes result = chosen_phase_of_groups();
  const double usual = works_.empty() ? 1 : observe::median(works_);
  const auto complete = [&](IterationTimes& times) {
    times.by_rank = ranked_ && !pooled_;
    times.resolution_ns = last_digits_.ns();
    if (!works_.empty())
      times.each = fmt::format("the time per {:.6g} of '{}', which is the median of the rows", usual,
                               quotation(options_.work, 40));
    for (TimeSeries& series : times.series) {
      if (times.by_rank && series.rank.empty()) series.rank = kNoRank;
      for (double& ns : series.ns) ns *= usual;  // keeps the values in ns
    }
  };
  complete(result);
  std::ranges::for_each(result.others, complete);
  if (may_pool())
    result.notes.push_back(fmt::format("the ranks are those of column '{}'", quotation(unasked_, 40)));
  if (left_out_ > 0)
    result.notes.push_back(fmt::format("left out: {} without a value", count_text(left_out_, "row")));
  return result;
}

}  // namespace isochron::apps
