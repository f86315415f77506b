// Watchdog: names the rank that the others wait for. If a rank hangs (a stopped process, a file system that
// doesn't answer, a deadlock), all others wait forever in their next collective, and MPI doesn't report it.
//
//   comm::join();
//   comm::Watchdog watchdog(comm::world(), {.folder = "/shared/run-7/ranks"});
//   trainer.fit(...);
//
// Every rank keeps a small file up to date, in a folder that all ranks see (comm/watch/rank_status.h). A rank
// that has waited in a collective for longer than its patience reads the other ranks' files, and the lowest
// waiting rank reports which ranks are missing. Clocks of different machines are never compared: a rank
// counts as hung if its file stays the same for long enough by the reader's clock.
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
  /// How long a rank waits in one collective before it reports; again after twice as long, four times, ...
  std::chrono::nanoseconds patience = std::chrono::seconds(60);
  /// How long a rank waits before all ranks end; 0: forever.
  std::chrono::nanoseconds end_after = std::chrono::nanoseconds(0);
  /// The folder for the files, seen by all ranks; created if it doesn't exist. Empty: a folder in the
  /// system's temporary folder, which only ranks on the same machine share.
  std::filesystem::path folder = {};
  /// Receives each message, on a thread of the watchdog. Null: writes to standard error, prefixed with
  /// "isochron: ".
  std::function<void(const std::string& text)> tell = {};
  /// Ends the run, on a thread of the watchdog. The text is the message. Null: passes it to `tell`, and
  /// aborts the group with the exit status of kCommunication, 6.
  std::function<void(const std::string& text)> end = {};
};

/// How often a watchdog writes its rank's file and checks whether the rank waits. `patience`: the shorter of
/// patience and end_after, if end_after is set.
std::chrono::nanoseconds watchdog_tick(std::chrono::nanoseconds patience);
/// The interval at which a watchdog reads the other ranks' files in a wait that has lasted `waited`. The
/// interval grows, but stays short enough that a file that hasn't changed for half the patience counts as a
/// hang.
std::chrono::nanoseconds looks_apart(std::chrono::nanoseconds waited, std::chrono::nanoseconds patience);

class Watchdog {
 public:
  /// A collective call: every rank must make one. In a group of one rank there is nothing to watch. Throws
  /// kInvalidArgument unless patience > 0 and end_after >= 0.
  Watchdog(std::shared_ptr<Group> group, WatchdogOptions options);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  /// Removes this rank's file.
  ~Watchdog();

  /// The folder of the files; empty in a group of one rank.
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

  // Used only by the thread. The clock doesn't advance while the process is stopped, so time for which a run
  // was stopped doesn't count as waiting.
  int64_t watched_ns_ = 0;
  int64_t beat_ = 0;
  Activity::Now before_;
  int64_t progress_ns_ = 0;  // when a collective was last finished, or waiting began or ended
  int64_t change_ns_ = 0;    // when the rank began what it is doing
  int64_t next_look_ns_ = 0;
  int64_t next_tell_ns_ = 0;        // length of the wait at which it next reports
  std::optional<RankStatus> told_;  // the status at the last report

  std::mutex mutex_;
  std::condition_variable ended_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace isochron::comm
