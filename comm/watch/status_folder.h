// The folder in which ranks publish what they are doing, in one file per rank. A separate thread writes and
// reads the files, so that no other thread waits for a file system that hangs.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "isochron/comm/watch/rank_status.h"
#include "isochron/core/files/leftovers.h"

namespace isochron::comm {

/// What is known here about a rank.
struct SeenRank {
  std::optional<RankStatus> status = {};  // the newest that could be read
  int64_t changed_ns = 0;                 // when it was last seen to change
  bool present = false;                   // its file existed at the latest look
};

class StatusFolder {
 public:
  /// Creates `folder` and its parents if they don't exist. Only files of the same run count.
  StatusFolder(std::filesystem::path folder, uint64_t run, int rank, int ranks);
  StatusFolder(const StatusFolder&) = delete;
  StatusFolder& operator=(const StatusFolder&) = delete;
  /// Removes this rank's file, and then the folder if it is empty. Waits for the file system.
  ~StatusFolder();

  const std::filesystem::path& path() const { return path_; }
  /// Makes the thread write this rank's file and, with `look`, read the other ranks' files. Returns at once.
  /// If the thread is still busy with an earlier call, this call replaces the pending one. `now_ns` is the
  /// caller's clock.
  void exchange(const RankStatus& own, bool look, int64_t now_ns);
  /// The result of the latest look, one entry per rank.
  std::vector<SeenRank> seen() const;
  /// How long the file system has failed to answer.
  int64_t unanswered_ns(int64_t now_ns) const;

  /// Removes what earlier runs have left in `folder`.
  static void clear(const std::filesystem::path& folder);
  /// Removes folders directly in `parent` whose names begin with `prefix` and in which nothing has changed
  /// for a day. They belong to runs that were killed.
  static void remove_old(const std::filesystem::path& parent, std::string_view prefix);

 private:
  void work();
  void write(const RankStatus& own);
  std::filesystem::path file_of(int rank) const;
  void look(int64_t now_ns);

  const std::filesystem::path path_;
  const uint64_t run_;
  const int rank_, ranks_;
  std::optional<Leftover> leftover_;  // this rank's file
  mutable std::mutex mutex_;          // protects the members below
  std::condition_variable changed_;
  std::optional<RankStatus> next_;
  bool look_next_ = false;
  int64_t next_ns_ = 0;
  int64_t busy_since_ns_ = 0;
  bool busy_ = false, ending_ = false;
  std::vector<SeenRank> seen_;
  std::thread thread_;
};

}  // namespace isochron::comm
