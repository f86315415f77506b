// Records, in fixed memory, how long each rank's work takes over a run of any length. If several ranks train
// together, each waits for the slowest, so the iteration time doesn't show which rank is slow.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace isochron::observe {

/// The times of one rank in one update, or their sums over several updates.
struct RankTimes {
  int64_t work_ns = 0;   // without waiting for other ranks
  int64_t input_ns = 0;  // the part of it spent waiting for input

  void add(const RankTimes& other) {
    work_ns += other.work_ns;
    input_ns += other.input_ns;
  }
};

/// The times of consecutive updates.
struct RankWindow {
  int64_t first_iteration = 0;  // of the run
  int64_t last_iteration = 0;
  int64_t updates = 0;
  int64_t longest_ns = 0;        // sum over the updates of the work of the slowest rank
  int64_t communication_ns = 0;  // of the recording rank: waiting, except for other ranks' work
  std::vector<RankTimes> ranks = {};

  /// Adds the next window, which must have the same number of ranks.
  void add(const RankWindow& newer);
};

/// A rank, and the delays caused by its machine during the run; kUnknownReading if the system doesn't report
/// them.
struct RankDescription {
  std::string host;
  int64_t waited_ns = 0;     // for a core that other programs had
  int64_t throttled_ns = 0;  // by the control group's quota
  int64_t stolen_ns = 0;     // by the hypervisor, over all cores
  /// How long its data take to reach another rank in an exchange of gradients, and how long another rank's
  /// data take to reach it. Each is the lower median over the other ranks.
  int64_t sent_in_ns = -1;
  int64_t received_in_ns = -1;
};

/// The data of all ranks of a run; `own` is the rank that recorded them.
struct RankData {
  int own = 0;
  std::vector<RankDescription> ranks;
  std::vector<RankWindow> windows;
};

/// A series of windows. When all windows are used, neighbors are merged, and new windows become twice as
/// long.
class RankSeries {
 public:
  static constexpr size_t kMaxWindows = 128;
  /// A series without ranks.
  RankSeries() = default;
  /// Allocates all the memory that it will need.
  RankSeries(int own, int ranks);

  int own() const { return own_; }
  int ranks() const { return ranks_; }
  void add(int64_t iteration, std::span<const RankTimes> times, int64_t communication_ns);
  void clear();
  /// The closed windows, or the open one if no window is closed yet.
  std::vector<RankWindow> windows() const;
  size_t bytes() const;

 private:
  void merge_pairs();

  int own_ = 0;
  int ranks_ = 0;
  int64_t length_ = 1;
  size_t used_ = 0;  // the last one is open
  std::vector<RankWindow> windows_;
};

}  // namespace isochron::observe
