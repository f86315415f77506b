// Finds which process (rank) wrote a line of a log that several processes share. Launchers put the rank at
// the beginning of each line.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "isochron/apps/analyze/times/iteration_times.h"

namespace isochron::apps {

struct RankedLine {
  std::string rank;
  std::string text;  // the line without the rank
};

/// The rank of a line: "[rank3]: ", "rank=3 ", "[default3]:" (torchrun), "[1,3]<stdout>: " (Open MPI), "3: "
/// (srun --label), "(RayTrainWorker pid=123) ". Returns nothing if the line names no rank. "3: " may mean
/// something else, so the caller must check whether the lines look as if several processes wrote them at the
/// same time.
std::optional<RankedLine> rank_of_line(std::string_view line);

/// Finds the ranks of updates. A bar that is redrawn within a line, after a carriage return, belongs to the
/// rank at the beginning of the line.
class RankReader {
 public:
  /// The update's rank (kNoRank if there is none) and text.
  RankedLine of(const std::string& update, int64_t line);

 private:
  std::string rank_;
  int64_t line_ = -1;
};

/// The lines of a log by rank.
template <typename Content>
class LogRanks {
 public:
  explicit LogRanks(Content fresh) : fresh_(std::move(fresh)) {}

  /// The content of a line's rank; nullptr once there are more ranks than a log may have.
  Content* find(const std::string& rank, int64_t line) {
    constexpr size_t kMax = 4096;
    if (ranks_.size() > kMax) return nullptr;
    Lines& lines = ranks_.try_emplace(rank, Lines{fresh_, line, line}).first->second;
    lines.last = line;
    return &lines.content;
  }

  struct Rank {
    std::string name;
    Content* content = nullptr;
  };
  /// The ranks with `enough` content: first the lines without a rank (kNoRank), then the ranks by number.
  /// Returns none if there are fewer than two ranks, or if the ranks didn't write at the same time; progress
  /// bars that are labelled "0:", "1:" by epoch don't.
  template <typename Enough>
  std::vector<Rank> told_apart(const Enough& enough) {
    std::vector<Rank> result;
    size_t ranks = 0;
    int64_t latest_first = 0, earliest_last = std::numeric_limits<int64_t>::max();
    for (auto& [name, lines] : ranks_) {
      if (!enough(lines.content)) continue;
      result.push_back({name, &lines.content});
      if (name == kNoRank) continue;
      ++ranks;
      latest_first = std::max(latest_first, lines.first);
      earliest_last = std::min(earliest_last, lines.last);
    }
    if (ranks < 2 || latest_first >= earliest_last) return {};
    std::ranges::sort(result, {}, [](const Rank& rank) {
      return std::tuple(rank.name != kNoRank, rank.name.size(), rank.name);
    });
    return result;
  }

 private:
  struct Lines {
    Content content;
    int64_t first = 0, last = 0;
  };
  Content fresh_;
  std::map<std::string, Lines> ranks_;
};

}  // namespace isochron::apps
