// Runs the ranks of a group as threads of one process.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "isochron/comm/group/group.h"
#include "isochron/comm/transport/thread_communicator.h"

namespace isochron {

/// Calls body(group) once per rank, each on its own thread. Rethrows the exception of the lowest rank that
/// threw.
inline void run_ranks(int ranks, const std::function<void(const std::shared_ptr<comm::Group>&)>& body) {
  auto members = comm::make_thread_group(ranks);
  std::vector<std::exception_ptr> failures(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(std::make_shared<comm::Group>([&] { return std::move(members[rank]); }));
      } catch (...) {
        failures[rank] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace isochron
