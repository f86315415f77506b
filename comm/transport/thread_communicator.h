// A communicator whose ranks are threads of one process: what tests use instead of a launcher.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "isochron/comm/transport/communicator.h"

namespace isochron::comm {

/// How long a message of so many bytes takes from one rank to another; null: as long as copying it.
using LinkModel = std::function<std::chrono::nanoseconds(int from, int to, size_t bytes)>;

/// One member a rank, in the order of ranks. Each is used by one thread at a time. Sums are added in the
/// order of ranks, so they are equal on all ranks and the same in every run.
///
/// The ranks compare their calls: where these differ, all of them throw kCommunication naming both. A member
/// that is destroyed has left: calls of the others that need it, waiting or later, throw kCommunication
/// naming its rank. `abort` does the same to the others and throws kCommunication itself, as it can't end a
/// thread.
///
/// `link` is that of the slices of all_to_all and all_gather, which travel at the same time. Throws
/// kInvalidArgument unless 1 <= ranks.
std::vector<std::unique_ptr<Communicator>> make_thread_group(int ranks, const LinkModel& link = {});

/// Runs `body` once a rank, each on a thread of its own with its member, and joins them. A rank whose body
/// ends or throws leaves the group then, so the others don't wait for it. Rethrows what was thrown first.
void run_thread_group(int ranks, const std::function<void(Communicator&)>& body);

}  // namespace isochron::comm
