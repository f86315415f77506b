// One line makes a program train on all ranks that a launcher started:
//
//   isochron::comm::join();  // mpirun -np 4 ./program
#pragma once

#include <memory>

#include "isochron/comm/group/group.h"
#include "isochron/comm/launch/launch_watch_options.h"

namespace isochron::comm {

struct Launch;

/// Joins the processes that mpirun, srun or a similar launcher started together (comm/launch/launch.h).
/// Afterwards comm::world() is their group, which optimizers and Trainer::fit use by default, and
/// compute_threads() is this rank's share of the machine's cores, unless ISOCHRON_THREADS is set. Without a
/// launcher it does nothing and loads no MPI. Call it once, before anything is planned and after anything
/// that forks. Returns the world, which all ranks leave together when the process exits.
///
/// A program that catches an error on one rank and exits must call the world's `abort` first: the other ranks
/// wait for this rank, and leaving waits for them. `watch`: when to report that this rank waits for others
/// while MPI starts or ends, and when to give up.
///
/// Throws kInvalidArgument for invalid environment variables of the launcher, kUnsupported if MPI or its
/// module can't be loaded, and kCommunication if MPI fails or isn't the launcher's MPI.
const std::shared_ptr<Group>& join(const LaunchWatchOptions& watch = {});

/// The number of compute threads that `join` gives to a rank that was started like this.
int threads_of_rank(const Launch& launch);
/// The number of cores that a rank may count on, computed like the number of threads.
int cores_of_rank(const Launch& launch);
/// The number of threads for a rank that may use `usable` cores: an equal share among the `local_size` ranks
/// on the machine, but at most `usable`. A rank is bound if it has fewer cores (`own`) than its launcher
/// (`launchers`). If the rank is bound, the launcher's cores are divided among the ranks, otherwise the
/// `usable` cores.
int share_of_cores(int usable, int own, int launchers, int local_size);

}  // namespace isochron::comm
