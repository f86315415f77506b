#include "isochron/apps/compare/tally.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "isochron/core/text/count_text.h"
#include "isochron/observe/export/table.h"

namespace isochron::apps {

void Tally::Counts::add(Finding finding) {
  expected += finding == Finding::kAsExpected;
  inconclusive += finding == Finding::kInconclusive;
  otherwise += finding == Finding::kOtherwise;
}

Tally::Counts Tally::sum() const {
  Counts all;
  for (const Row& row : rows_) {
    all.expected += row.counts.expected;
    all.inconclusive += row.counts.inconclusive;
    all.otherwise += row.counts.otherwise;
  }
  return all;
}

void Tally::add(std::span<const ScenarioResult> scenarios) {
  ++runs_;
  latest_ = {};
  for (const ScenarioResult& scenario : scenarios) {
    for (const LoopResult& loop : scenario.loops) {
      auto row = std::ranges::find_if(rows_, [&](const Row& known) {
        return known.scenario == scenario.scenario->name && known.loop == loop.report.name;
      });
      if (row == rows_.end())
        row = rows_.insert(rows_.end(), {scenario.scenario->name, loop.report.name, {}, {}});
      row->counts.add(loop.finding());
      latest_.add(loop.finding());
      for (const Deviation& deviation : loop.deviations) {
        const auto known =
            std::ranges::find(row->deviations, deviation.kind, [](const auto& entry) { return entry.first; });
        if (known == row->deviations.end()) {
          row->deviations.emplace_back(deviation.kind, 1);
        } else {
          ++known->second;
        }
      }
    }
  }
}

std::string Tally::latest_text() const {
  return fmt::format("{}: {} as expected, {} inconclusive, {} not as expected",
                     isochron::count_text(latest_.all(), "loop"), latest_.expected, latest_.inconclusive,
                     latest_.otherwise);
}

std::string Tally::text() const {
  observe::Table table{.title = isochron::count_text(runs_, "run"),
                       .columns = {"loop", "as expected", "inconclusive", "not as expected", "found instead"},
                       .rows = {},
                       .says = {}};
  const auto numbers = [](const Counts& counts) {
    return std::vector<std::string>{fmt::format("{}", counts.expected),
                                    fmt::format("{}", counts.inconclusive),
                                    fmt::format("{}", counts.otherwise)};
  };
  const auto add_row = [&](std::string name, const Counts& counts, std::string found) {
    std::vector<std::string> cells = numbers(counts);
    cells.insert(cells.begin(), std::move(name));
    cells.push_back(std::move(found));
    table.rows.push_back(std::move(cells));
  };
  for (const Row& row : rows_) {
    std::vector<std::string> found;
    for (const auto& [text, times] : row.deviations) found.push_back(fmt::format("{} ({}x)", text, times));
    add_row(fmt::format("{}: {}", row.scenario, row.loop), row.counts,
            fmt::format("{}", fmt::join(found, ", ")));
  }
  const Counts all = sum();
  add_row("all", all, "");
  const auto share = [&](int64_t count) {
    return 100 * static_cast<double>(count) / static_cast<double>(std::max<int64_t>(1, all.all()));
  };
  table.says = fmt::format("{:.1f} % as expected, {:.1f} % inconclusive, {:.1f} % not as expected.",
                           share(all.expected), share(all.inconclusive), share(all.otherwise));
  return observe::table_text(table);
}

nlohmann::json Tally::json() const {
  const auto with_counts = [](nlohmann::json object, const Counts& counts) {
    object["as_expected"] = counts.expected;
    object["inconclusive"] = counts.inconclusive;
    object["otherwise"] = counts.otherwise;
    return object;
  };
  nlohmann::json document = with_counts({{"runs", runs_}}, sum());
  document["loops"] = nlohmann::json::array();
  for (const Row& row : rows_) {
    nlohmann::json loop = with_counts({{"scenario", row.scenario}, {"loop", row.loop}}, row.counts);
    loop["deviations"] = nlohmann::json::object();
    for (const auto& [text, times] : row.deviations) loop["deviations"][text] = times;
    document["loops"].push_back(std::move(loop));
  }
  return document;
}

}  // namespace isochron::apps
