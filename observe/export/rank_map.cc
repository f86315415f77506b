#include "isochron/observe/export/rank_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "isochron/core/base/error.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/export/plot.h"
#include "isochron/observe/record/json_numbers-inl.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::observe {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxRanks = size_t{1} << 20;
constexpr size_t kShownRanks = 16;  // in tables
constexpr size_t kMappedRanks = 64;

/// Mean times of a rank per update.
struct RankMean {
  size_t rank = 0;
  double work_ns = 0;
  double input_ns = 0;
  double rank_wait_ns = 0;
};

std::vector<RankMean> means_of(const RankData& data) {
  std::vector<RankMean> means(data.ranks.size());
  double updates = 0, longest_ns = 0;
  for (const RankWindow& window : data.windows) {
    updates += static_cast<double>(window.updates);
    longest_ns += static_cast<double>(window.longest_ns);
    for (size_t r = 0; r < means.size(); ++r) {
      means[r].work_ns += static_cast<double>(window.ranks[r].work_ns);
      means[r].input_ns += static_cast<double>(window.ranks[r].input_ns);
    }
  }
  updates = std::max(updates, 1.0);
  for (size_t r = 0; r < means.size(); ++r) {
    RankMean& mean = means[r];
    mean = {r, mean.work_ns / updates, mean.input_ns / updates, (longest_ns - mean.work_ns) / updates};
  }
  return means;
}

/// All ranks, or if there are more than `most`, those with the most work.
std::vector<RankMean> shown(const RankData& data, size_t most) {
  std::vector<RankMean> means = means_of(data);
  if (means.size() <= most) return means;
  std::ranges::stable_sort(means, std::greater(), &RankMean::work_ns);
  means.resize(most);
  std::ranges::sort(means, {}, &RankMean::rank);
  return means;
}

std::string left_out(const RankData& data, size_t most) {
  if (data.ranks.size() <= most) return "";
  return fmt::format("Only the {1} of {0} ranks whose work takes longest are shown.", data.ranks.size(),
                     most);
}

/// Blue below 1 and orange above; fully opaque at a ratio of 1/2 or 2.
std::string strength_color(double ratio) {
  const double strength = std::clamp(std::log2(std::max(ratio, 1e-9)), -1.0, 1.0);
  return fmt::format("fill=\"{}\" fill-opacity=\"{:.3f}\"", strength < 0 ? "#3987e5" : "#d9544f",
                     0.06 + 0.94 * std::abs(strength));
}

std::string map_svg(const RankData& data, double width) {
  constexpr double kMapLeft = 70, kMapTop = 28, kMapBottom = 40;
  const std::vector<RankMean> ranks = shown(data, kMappedRanks);
  std::vector<double> all;
  for (const RankWindow& window : data.windows) {
    for (const RankTimes& times : window.ranks) {
      all.push_back(static_cast<double>(times.work_ns) / static_cast<double>(window.updates));
    }
  }
  const double usual = std::max(1.0, median(all));
  const double row = std::clamp(240.0 / static_cast<double>(ranks.size()), 5.0, 28.0);
  const double column = (width - kMapLeft - 8) / static_cast<double>(data.windows.size());
  const double bottom = kMapTop + row * static_cast<double>(ranks.size());
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" role=\"img\" style=\"max-width:100%\" "
      "font-size=\"12\" fill=\"currentColor\"><title>Work of each rank over the run</title>\n"
      "<text x=\"8\" y=\"14\" font-weight=\"600\">Work of each rank over the run</text>\n",
      width, bottom + kMapBottom);
  for (size_t i = 0; i < ranks.size(); ++i) {
    const double y = kMapTop + row * static_cast<double>(i);
    if (row >= 12 || i % 8 == 0) {
      svg += fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">rank {}</text>\n", kMapLeft - 8,
                         y + row / 2 + 4, ranks[i].rank);
    }
    for (size_t w = 0; w < data.windows.size(); ++w) {
      const RankWindow& window = data.windows[w];
      const double work =
          static_cast<double>(window.ranks[ranks[i].rank].work_ns) / static_cast<double>(window.updates);
      svg += fmt::format("<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" {}/>\n",
                         kMapLeft + column * static_cast<double>(w), y, column + 0.05, row - 1,
                         strength_color(work / usual));
    }
  }
  svg += fmt::format(
      "<text x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n<text x=\"{:.0f}\" y=\"{:.0f}\" "
      "text-anchor=\"end\">iteration {}</text>\n",
      kMapLeft, bottom + 16, data.windows.front().first_iteration, width - 8, bottom + 16,
      data.windows.back().last_iteration);
  const std::pair<double, std::string> keys[] = {
      {0.5, "half"}, {1.0, duration_text(usual)}, {1.41, "1.4x"}, {2.0, "twice"}};
  double x = kMapLeft;
  for (const auto& [ratio, label] : keys) {
    svg += fmt::format(
        "<rect x=\"{0:.0f}\" y=\"{1:.0f}\" width=\"12\" height=\"12\" {2}/>\n<text x=\"{3:.0f}\" "
        "y=\"{4:.0f}\">{5}</text>\n",
        x, bottom + 24, strength_color(ratio), x + 16, bottom + 34, label);
    x += 70;
  }
  return svg + "</svg>";
}

RankData ranks_of(const Json& json) {
  RankData data;
  for (const Json& one : json.at("ranks")) {
    data.ranks.push_back({one.at("host").get<std::string>(), whole(one, "waited_ns", -1),
                          whole(one, "throttled_ns", -1), whole(one, "stolen_ns", -1),
                          one.contains("sent_in_ns") ? whole(one, "sent_in_ns", -1) : -1,
                          one.contains("received_in_ns") ? whole(one, "received_in_ns", -1) : -1});
  }
  const size_t ranks = data.ranks.size();
  expect(ranks > 1 && ranks <= kMaxRanks, fmt::format("'ranks' has {} entries", ranks));
  const int64_t own = whole(json, "own");
  expect(own < static_cast<int64_t>(ranks), fmt::format("'own' is {} of {} ranks", own, ranks));
  data.own = static_cast<int>(own);
  RankWindow sum{.ranks = std::vector<RankTimes>(ranks)};  // windows are added up later
  for (const Json& one : json.at("windows")) {
    RankWindow window{whole(one, "first"),
                      whole(one, "last"),
                      whole(one, "updates", 1),
                      whole(one, "longest_ns"),
                      whole(one, "communication_ns"),
                      {}};
    const Json &work = one.at("work_ns"), &input = one.at("input_ns");
    expect(work.is_array() && input.is_array() && work.size() == ranks && input.size() == ranks,
           fmt::format("a window of 'ranks' does not have {} numbers", ranks));
    add_up(sum.updates, window.updates, "updates");
    add_up(sum.longest_ns, window.longest_ns, "longest_ns");
    add_up(sum.communication_ns, window.communication_ns, "communication_ns");
    for (size_t r = 0; r < ranks; ++r) {
      window.ranks.push_back({whole_of(work[r], "work_ns"), whole_of(input[r], "input_ns")});
      add_up(sum.ranks[r].work_ns, window.ranks[r].work_ns, "work_ns");
      add_up(sum.ranks[r].input_ns, window.ranks[r].input_ns, "input_ns");
    }
    data.windows.push_back(std::move(window));
  }
  expect(data.windows.size() <= RankSeries::kMaxWindows,
         fmt::format("more than {} windows of 'ranks'", RankSeries::kMaxWindows));
  return data;
}

}  // namespace

std::string ranks_text(const RankData& data) {
  size_t host = 4;
  const std::vector<RankMean> ranks = shown(data, kShownRanks);
  for (const RankMean& mean : ranks) host = std::max(host, data.ranks[mean.rank].host.size());
  std::string text = fmt::format("rank  {:<{}}  work/update       input  waits for ranks\n", "host", host);
  for (const RankMean& mean : ranks) {
    text += fmt::format("{:>4}  {:<{}}  {:>11}  {:>10}  {:>15}\n", mean.rank, data.ranks[mean.rank].host,
                        host, duration_text(mean.work_ns), duration_text(mean.input_ns),
                        duration_text(mean.rank_wait_ns));
  }
  const std::string others = left_out(data, kShownRanks);
  return others.empty() ? text : text + others + "\n";
}

std::string ranks_json(const RankData& data, int indent) {
  Json ranks = Json::array(), windows = Json::array();
  for (const RankDescription& rank : data.ranks) {
    ranks.push_back({{"host", rank.host},
                     {"waited_ns", rank.waited_ns},
                     {"throttled_ns", rank.throttled_ns},
                     {"stolen_ns", rank.stolen_ns},
                     {"sent_in_ns", rank.sent_in_ns},
                     {"received_in_ns", rank.received_in_ns}});
  }
  for (const RankWindow& window : data.windows) {
    Json work = Json::array(), input = Json::array();
    for (const RankTimes& times : window.ranks) {
      work.push_back(times.work_ns);
      input.push_back(times.input_ns);
    }
    windows.push_back({{"first", window.first_iteration},
                       {"last", window.last_iteration},
                       {"updates", window.updates},
                       {"longest_ns", window.longest_ns},
                       {"communication_ns", window.communication_ns},
                       {"work_ns", std::move(work)},
                       {"input_ns", std::move(input)}});
  }
  const Json json = {{"own", data.own}, {"ranks", std::move(ranks)}, {"windows", std::move(windows)}};
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

RankData parse_ranks(std::string_view text, std::string_view where) {
  try {
    return ranks_of(parse_json<Json>(text));
  } catch (const std::exception& error) {
    fail(ErrorCode::kBadFormat, where, "not the times of ranks: {}", complaint(error));
  }
}

std::string ranks_section(const RankData& data) {
  if (data.windows.empty()) return "";
  std::string rows;
  for (const RankMean& mean : shown(data, kShownRanks)) {
    rows += fmt::format("<tr><td>{}</td><td class=\"text\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                        mean.rank, escape_markup(data.ranks[mean.rank].host), duration_text(mean.work_ns),
                        duration_text(mean.input_ns), duration_text(mean.rank_wait_ns));
  }
  return fmt::format(
      "<h3>Ranks</h3>\n<p>The time of an update on each rank, without waiting for other ranks. {}</p>\n"
      "<div class=\"scroll\"><table>\n<tr><th>rank</th><th class=\"text\">host</th><th>work per update</th>"
      "<th>of which input</th><th>waits for slower ranks</th></tr>\n{}</table></div>\n"
      "<figure>\n<div class=\"wide\">{}</div>\n<div class=\"narrow\">{}</div>\n</figure>\n",
      left_out(data, kShownRanks), rows, map_svg(data, 768), map_svg(data, 358));
}

}  // namespace isochron::observe
