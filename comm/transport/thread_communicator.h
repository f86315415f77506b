// A communicator whose ranks are threads of one process. Tests use it instead of a launcher.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "isochron/comm/transport/communicator.h"

namespace isochron::comm {

/// How long a message of `bytes` bytes takes from one rank to another. Null: as long as copying it.
using LinkModel = std::function<std::chrono::nanoseconds(int from, int to, size_t bytes)>;

/// Returns one communicator per rank, in rank order. Each is used by one thread at a time. Sums are added in
/// rank order, so they are equal on all ranks and the same in every run.
///
/// The ranks compare their calls. If the calls differ, all ranks throw kCommunication naming both calls. A
/// rank leaves the group when its communicator is destroyed. From then on, calls of other ranks that need it,
/// including calls that are already waiting, throw kCommunication naming that rank. `abort` has the same
/// effect on the other ranks and throws kCommunication itself, as it can't end a thread.
///
/// `link` applies to the slices of all_to_all and all_gather, which are sent at the same time. Throws
/// kInvalidArgument unless 1 <= ranks.
std::vector<std::unique_ptr<Communicator>> make_thread_group(int ranks, const LinkModel& link = {});

/// Runs `body` once per rank, each on its own thread with its own communicator, and joins the threads. A rank
/// whose body ends or throws leaves the group, so the others don't wait for it. Rethrows the first exception.
void run_thread_group(int ranks, const std::function<void(Communicator&)>& body);

}  // namespace isochron::comm
