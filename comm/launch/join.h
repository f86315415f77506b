// The one line by which a program trains on all ranks that a launcher started:
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
/// Throws kInvalidArgument for environment variables of the launcher that make no sense, kUnsupported where
/// MPI or the module for it can't be loaded, kCommunication where MPI fails or is another than the
/// launcher's.
const std::shared_ptr<Group>& join(const LaunchWatchOptions& watch = {});

/// The compute threads that `join` gives to a rank which was started like that.
int threads_of_rank(const Launch& launch);
/// How many cores a rank may count on, by the same rule.
int cores_of_rank(const Launch& launch);
/// Threads of a rank that may use `usable` cores, of `local_size` ranks on the machine: an equal share. A
/// rank is bound where its cores (`own`) are fewer than its launcher's; then these are what is shared, and
/// its own are all it takes. Not bound, it can use no more than all of them together.
int share_of_cores(int usable, int own, int launchers, int local_size);

}  // namespace isochron::comm
