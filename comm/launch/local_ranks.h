// The other ranks of this machine, as the system knows their processes: all that can be known of them while
// MPI starts and ends, when no rank can ask another.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isochron::comm {

/// Beginnings of the environment's entries that say which rank a process is, such as "PMI_RANK=".
using RankVariables = std::span<const std::string_view>;
/// Those of the launchers that comm/launch/launch.h knows, by which this process may have been started: of
/// those that it has, Open MPI's before what a batch system sets around it. All where it has none.
RankVariables rank_variables();

struct LocalRank {
  enum class State { kOther, kAtIt, kStopped };
  int rank = 0;
  pid_t process = 0;  // that the launcher has started
  State state = State::kOther;
};

/// The launcher of `process`, or what it has on this machine: the nearest ancestor that isn't itself part of
/// a rank, as a shell or `timeout` around the program is. 0 where there is none, or only process 1: that one
/// also takes over what others have started.
pid_t launcher_process(RankVariables variables = rank_variables(), pid_t process = getpid());

/// The ranks that `launcher` has started here and that haven't ended, in their order. One is at it where a
/// thread of it, or of a process that it has started, bears the name `at_it`; of at most 15 characters, as
/// prctl(PR_SET_NAME) sets it.
std::vector<LocalRank> local_ranks(pid_t launcher, std::string_view at_it,
                                   RankVariables variables = rank_variables());

/// What the system shows in a file of a process, which may end at any moment: "" where it can't be read.
std::string text_of(const std::filesystem::path& path);

}  // namespace isochron::comm
