// The other ranks of this machine, seen through their processes. Nothing else can be known about them while
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

/// The beginnings of environment entries that hold a process's rank, such as "PMI_RANK=".
using RankVariables = std::span<const std::string_view>;
/// The variable of the launcher that started this process, among the launchers that comm/launch/launch.h
/// knows. If several are set, Open MPI's comes before that of a batch system around it. All variables if none
/// is set.
RankVariables rank_variables();

struct LocalRank {
  enum class State { kOther, kRunning, kStopped };
  int rank = 0;
  pid_t process = 0;  // the process that the launcher started
  State state = State::kOther;
};

/// The launcher of `process`, or the launcher's part on this machine: the nearest ancestor that isn't itself
/// part of a rank. A shell or `timeout` around the program is part of a rank. 0 if there is none, or only
/// process 1, which also adopts processes that others started.
pid_t launcher_process(RankVariables variables = rank_variables(), pid_t process = getpid());

/// The ranks that `launcher` has started on this machine and that haven't ended, in rank order. A rank's
/// state is kRunning if a thread of its process, or of a process that it has started, has the name `running`.
/// Threads get such a name from prctl(PR_SET_NAME), which allows at most 15 characters.
std::vector<LocalRank> local_ranks(pid_t launcher, std::string_view running,
                                   RankVariables variables = rank_variables());

/// The content of a file that the system provides for a process, which may end at any moment; "" if it can't
/// be read.
std::string text_of(const std::filesystem::path& path);

}  // namespace isochron::comm
