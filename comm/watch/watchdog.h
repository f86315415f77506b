// Watchdog: names the rank for which the others wait. A rank that stands still (a stopped process, a file
// system that hangs, a deadlock) has all others wait in their next collective without an end; MPI says
// nothing of it.
//
//   comm::join();
//   comm::Watchdog watchdog(comm::world(), {.folder = "/shared/run-7/ranks"});
//   trainer.fit(...);
//
// Every rank keeps a small file up to date, in a folder that all ranks see (comm/watch/rank_status.h). Where
// one has waited in a collective for longer than its patience it reads the others' files, and the lowest rank
// that waits tells who is missing. Nothing compares the clocks of machines: a rank whose file stays the same
// stands still, as seen by the clock of the one that reads it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "isochron/comm/group/group.h"
#include "isochron/comm/watch/status_folder.h"

namespace isochron::comm {

/// Rank 0's options apply to all ranks, except for the two functions.
struct WatchdogOptions {
  /// How long a rank waits in one collective before it tells; again after twice as long, four times, ...
  std::chrono::nanoseconds patience = std::chrono::seconds(60);
  /// How long it waits before all ranks end; 0: for ever.
  std::chrono::nanoseconds end_after = std::chrono::nanoseconds(0);
  /// For the files, seen by all ranks; made where it isn't there. Empty: one in the system's temporary
  /// folder, which the ranks of one machine share.
  std::filesystem::path folder = {};
  /// Gets each message, on a thread of the watchdog's. Null: to standard error, behind "isochron: ".
  std::function<void(const std::string& text)> tell = {};
  /// Ends the run, on a thread of the watchdog's, with what there is to say. Null: tells it, and aborts the
  /// group with the exit status of kCommunication, 6.
  std::function<void(const std::string& text)> end = {};
};

/// How often a watchdog writes its rank's file and looks whether it waits; `patience`: the shorter of
/// patience and end, if there is one.
std::chrono::nanoseconds watchdog_tick(std::chrono::nanoseconds patience);
/// How long after another it reads the others' files, in a wait of `waited`: ever more seldom, but often
/// enough that half the patience without a change is a standstill.
std::chrono::nanoseconds looks_apart(std::chrono::nanoseconds waited, std::chrono::nanoseconds patience);

class Watchdog {
 public:
  /// A collective call: every rank makes one. In a group of one rank there is nothing to watch.
  Watchdog(std::shared_ptr<Group> group, WatchdogOptions options);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  /// Removes this rank's file.
  ~Watchdog();

  /// Of the files; empty in a group of one rank.
  const std::filesystem::path& folder() const { return folder_; }

 private:
  void watch();
  void look();
  RankStatus present_status();
  void tell_of(const RankStatus& own);
  double seconds_since(int64_t then_ns) const { return static_cast<double>(watched_ns_ - then_ns) * 1e-9; }

  const std::shared_ptr<Group> group_;
  WatchdogOptions options_;
  std::filesystem::path folder_;
  uint64_t run_ = 0;
  std::string host_;
  std::chrono::nanoseconds shortest_{};  // of patience and end_after
  std::chrono::nanoseconds tick_{};
  std::optional<StatusFolder> files_;

  // The thread's own. Its clock stands still while the process does: a run that was stopped and goes on
  // hasn't waited meanwhile.
  int64_t watched_ns_ = 0;
  int64_t beat_ = 0;
  Activity::Now before_;
  int64_t progress_ns_ = 0;  // when a collective was entered or finished, of which one is under way
  int64_t change_ns_ = 0;    // when it began what it does
  int64_t next_look_ns_ = 0;
  int64_t next_tell_ns_ = 0;        // after so long a wait
  std::optional<RankStatus> told_;  // of the wait that was told of

  std::mutex mutex_;
  std::condition_variable ended_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace isochron::comm
