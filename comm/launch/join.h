// The one line by which a program trains on all ranks that a launcher started:
//
//   isochron::comm::join();  // mpirun -np 4 ./program
#pragma once

#include <memory>

#include "isochron/comm/group/group.h"
#include "isochron/comm/launch/launch_watch_options.h"

namespace isochron::comm {

struct Launch;

/// Joins the processes that mpirun, srun or the like started together (comm/launch/launch.h): from then on
/// comm::world() is their group, which optimizers and fits use unless they are given another one, and
/// compute_threads() is this rank's share of the machine's cores, unless ISOCHRON_THREADS is set. Where no
/// launcher started this process, nothing happens, and no MPI is loaded. To be called once, before anything
/// is planned and after anything that forks. Returns the world, which all ranks leave together when the
/// process exits. A program that catches an error of one rank and ends must call the world's `abort` then:
/// the other ranks wait for it, and leaving waits for them. `watch`: what is told where this rank waits for
/// others while MPI starts or ends, and when the run ends for that. Throws as detect_launch and
/// open_launched.
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
