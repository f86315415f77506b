#include "isochron/observe/diagnose/straggler.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "isochron/observe/host/machine.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::observe {
namespace {

/// A rank counts as slow in a window if the others wait for it for more than this share of the time.
constexpr double kMinExcess = 0.05;
/// A rank counts as slow if it waits for cores for at least this share of the time more than the other ranks.
/// On one machine, identical ranks differed by up to 0.13; a busy program on the core of one rank made it
/// 0.84.
constexpr double kMinCoreWait = 0.25;
constexpr double kWorthTelling = 0.1;  // a reason is mentioned if it explains at least this share
/// A rank's link counts as slow if its messages take this many times as long as others', and longer by at
/// least kMinLinkExcessNs.
constexpr double kSlowLink = 2;
constexpr double kMinLinkExcessNs = 300'000;

/// Merges neighboring windows until at most kParts remain. A program that shares a rank's core runs for
/// milliseconds at a time, so it affects one update but not the next.
std::vector<RankWindow> in_parts(std::span<const RankWindow> windows) {
  constexpr size_t kParts = 16;
  std::vector<RankWindow> parts;
  for (size_t i = 0; i < windows.size(); ++i) {
    const bool begins = i == 0 || i * kParts / windows.size() != (i - 1) * kParts / windows.size();
    if (begins || windows.size() <= kParts) {
      parts.push_back(windows[i]);
    } else {
      parts.back().add(windows[i]);
    }
  }
  return parts;
}

template <typename Value>
double median_of_others(size_t rank, size_t ranks, const Value& value) {
  std::vector<double> others;
  for (size_t r = 0; r < ranks; ++r) {
    if (r != rank) others.push_back(value(r));
  }
  return median(others);
}

/// How much longer the rank's work took than the others' median, per update of the window.
double excess_ns(const RankWindow& window, size_t rank) {
  const double others = median_of_others(
      rank, window.ranks.size(), [&](size_t r) { return static_cast<double>(window.ranks[r].work_ns); });
  return (static_cast<double>(window.ranks[rank].work_ns) - others) / static_cast<double>(window.updates);
}

Straggler judged(std::span<const RankWindow> windows, size_t rank) {
  Straggler result{.rank = static_cast<int>(rank)};
  std::vector<double> shares, ratios;
  for (const RankWindow& window : windows) {
    const double updates = static_cast<double>(window.updates);
    const double excess = excess_ns(window, rank);
    const double others = static_cast<double>(window.ranks[rank].work_ns) / updates - excess;
    shares.push_back(excess * updates /
                     std::max(1.0, static_cast<double>(window.longest_ns + window.communication_ns)));
    ratios.push_back((others + excess) / std::max(1.0, others));
  }
  result.share = median(shares);
  result.slower = median(ratios);
  const auto slow = std::ranges::count_if(shares, [](double share) { return share > kMinExcess; });
  result.steady = static_cast<double>(slow) / static_cast<double>(shares.size());
  return result;
}

double total(std::span<const RankWindow> windows, int64_t RankWindow::*number) {
  double sum = 0;
  for (const RankWindow& window : windows) sum += static_cast<double>(window.*number);
  return sum;
}

/// How much longer the machine delayed a rank during the run than the others' median, in ns.
double more_of(const RankData& data, size_t rank, int64_t RankDescription::*reading) {
  const auto known = [&](size_t r) {
    return static_cast<double>(std::max<int64_t>(0, data.ranks[r].*reading));
  };
  return known(rank) - median_of_others(rank, data.ranks.size(), known);
}

/// Sets the shares of the extra work time by reason.
void account(Straggler& straggler, const RankData& data, std::span<const RankWindow> windows) {
  const auto rank = static_cast<size_t>(straggler.rank);
  double excess = 0, input = 0;
  for (const RankWindow& window : windows) {
    excess += excess_ns(window, rank) * static_cast<double>(window.updates);
    const double others = median_of_others(
        rank, window.ranks.size(), [&](size_t r) { return static_cast<double>(window.ranks[r].input_ns); });
    input += static_cast<double>(window.ranks[rank].input_ns) - others;
  }
  if (excess <= 0) return;
  straggler.input_share = input / excess;
  // The machine's readings cover the whole run.
  const double whole =
      excess * total(data.windows, &RankWindow::updates) / total(windows, &RankWindow::updates);
  straggler.throttled_share = more_of(data, rank, &RankDescription::throttled_ns) / whole;
  straggler.waited_share = more_of(data, rank, &RankDescription::waited_ns) / whole;
}

/// Looks for a rank that waits for cores longer than the others, by more than the slowest rank's extra work
/// time.
void look_at_cores(Straggler& straggler, const RankData& data) {
  const double time =
      total(data.windows, &RankWindow::longest_ns) + total(data.windows, &RankWindow::communication_ns);
  for (size_t rank = 0; rank < data.ranks.size(); ++rank) {
    const double share = more_of(data, rank, &RankDescription::waited_ns) / std::max(1.0, time);
    if (share < kMinCoreWait || share <= straggler.share) continue;
    // The system counts the time that a quota takes as part of these waits.
    const double throttled =
        std::clamp(more_of(data, rank, &RankDescription::throttled_ns) / (share * time), 0.0, 1.0);
    straggler = {.rank = static_cast<int>(rank),
                 .share = share,
                 .steady = 1,
                 .throttled_share = throttled,
                 .waited_share = 1 - throttled,
                 .core_wait_share = share};
  }
}

/// Looks for a rank whose messages take longer than the others', so that all ranks wait for them. Its share
/// is the part of the exposed communication (not hidden by computation) that is due to the longer times.
void look_at_links(Straggler& straggler, const RankData& data) {
  if (data.ranks.size() < 3) return;
  const double communication_ns = total(data.windows, &RankWindow::communication_ns);
  const double time = total(data.windows, &RankWindow::longest_ns) + communication_ns;
  const auto message_ns = [&](size_t rank) {
    return static_cast<double>(std::max(data.ranks[rank].sent_in_ns, data.ranks[rank].received_in_ns));
  };
  for (size_t rank = 0; rank < data.ranks.size(); ++rank) {
    const double others = std::max(1.0, median_of_others(rank, data.ranks.size(), message_ns));
    const double slower = message_ns(rank) / others;
    if (slower < kSlowLink || message_ns(rank) - others < kMinLinkExcessNs) continue;
    const double share = communication_ns / std::max(1.0, time) * (1 - 1 / slower);
    if (share <= straggler.share) continue;
    straggler = {.rank = static_cast<int>(rank), .share = share, .steady = 1, .link_slower = slower};
  }
}

}  // namespace

std::optional<Straggler> find_straggler(const RankData& data, bool late) {
  const std::span<const RankWindow> all(data.windows);
  const std::vector<RankWindow> windows = in_parts(late ? all.last(all.size() / 4) : all);
  const auto updates = static_cast<int64_t>(total(windows, &RankWindow::updates));
  if (windows.size() < kMinWindows || updates < kMinUpdates) return std::nullopt;
  Straggler slowest;
  for (size_t rank = 0; rank < data.ranks.size(); ++rank) {
    const Straggler one = judged(windows, rank);
    if (rank == 0 || one.share > slowest.share) slowest = one;
  }
  account(slowest, data, windows);
  look_at_cores(slowest, data);
  look_at_links(slowest, data);
  return slowest;
}

void add_evidence(const RankData& data, bool growing, Evidence& evidence) {
  std::optional<Straggler> slowest = find_straggler(data, false);
  if (growing) {
    const std::optional<Straggler> late = find_straggler(data, true);
    if (late && (!slowest || late->share > slowest->share)) slowest = late;
  }
  if (!slowest) return;
  evidence.set("straggler.rank", slowest->rank);
  evidence.set("straggler.slower", slowest->slower);
  evidence.set("straggler.share", slowest->share);
  evidence.set("straggler.steady", slowest->steady);
  evidence.set("straggler.input_share", slowest->input_share);
  evidence.set("straggler.throttled_share", slowest->throttled_share);
  evidence.set("straggler.waited_share", slowest->waited_share);
  evidence.set("straggler.core_wait_share", slowest->core_wait_share);
  evidence.set("straggler.link_slower", slowest->link_slower);
}

std::string straggler_text(const Evidence& evidence, const RankData& data) {
  const auto number = [&](const char* name) { return evidence.get(name).value_or(0); };
  const auto rank = static_cast<size_t>(number("straggler.rank"));
  std::string text = fmt::format("rank {} of {}", rank, data.ranks.size());
  if (rank < data.ranks.size() && !data.ranks[rank].host.empty())
    text += fmt::format(" on {}", data.ranks[rank].host);
  if (const double waits = number("straggler.core_wait_share"); waits > 0) {
    const double throttled = number("straggler.throttled_share");
    return text + fmt::format(": it waits for a core for {:.0f} % of the time", 100 * waits) +
           (throttled > kWorthTelling
                ? fmt::format(", {:.0f} % of that because of its CPU quota", 100 * throttled)
                : std::string(", because other threads are using the cores"));
  }
  if (const double slower = number("straggler.link_slower"); slower > 0)
    return text + fmt::format(": its link: messages take {:.3g} times as long as between the others", slower);
  text +=
      fmt::format(": its work takes {:.3g} times as long as that of the others", number("straggler.slower"));
  const std::pair<const char*, const char*> parts[] = {{"straggler.input_share", "waiting for input"},
                                                       {"straggler.throttled_share", "its CPU quota"},
                                                       {"straggler.waited_share", "waiting for a core"}};
  for (const auto& [name, what] : parts) {
    if (const double share = number(name); share >= kWorthTelling)
      text += fmt::format(", {:.0f} % of the difference is due to {}", 100 * std::min(share, 1.0), what);
  }
  return text;
}

}  // namespace isochron::observe
