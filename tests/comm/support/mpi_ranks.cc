// mpi_ranks MODE [FOLDER]: one rank under a launcher, for the tests of the modules. It writes a file named
// after its process into FOLDER. Exit status: 0 for success, 1 for a failed check, 3 for an error that it has
// printed.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "comm/support/collective_checks.h"
#include "isochron/comm/launch/launch.h"
#include "isochron/core/base/error.h"

namespace isochron::comm {
namespace {

bool maps_mpi() {
  std::ifstream file("/proc/self/maps");
  const std::string maps((std::istreambuf_iterator<char>(file)), {});
  return maps.find("libmpi") != std::string::npos || maps.find("isochron_openmpi") != std::string::npos ||
         maps.find("isochron_mpich") != std::string::npos;
}

int alone() {
  if (detect_launch()) throw std::runtime_error("a launcher was found");
  fmt::print("maps MPI: {}\n", maps_mpi() ? "yes" : "no");
  return 0;
}

void collectives(const Launch& launch, Communicator& comm) {
  if (comm.rank() != launch.rank || comm.size() != launch.size) {
    throw std::runtime_error(
        fmt::format("rank {} of {} is told as {} of {}", comm.rank(), comm.size(), launch.rank, launch.size));
  }
  if (launch.local_rank != launch.rank || launch.local_size != launch.size) {
    throw std::runtime_error(
        fmt::format("all ranks are here, but {} of {} is told", launch.local_rank, launch.local_size));
  }
  check_collectives(comm, 3'000'001);
  try {
    open_launched(launch);
    throw std::runtime_error("MPI was started twice");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCommunication) throw;
  }
  comm.barrier();
  if (comm.rank() == 0) fmt::print("{}: {} ranks, as expected\n", comm.description(), comm.size());
}

/// The ranks disagree about the size; rank 0 learns of it.
void different_sizes(Communicator& comm) {
  const size_t bytes = comm.rank() == 0 ? 64 : 128;
  std::vector<std::byte> data(bytes);
  comm.all_gather(data.data(), Slices::of(bytes, comm.size(), 1));
  comm.barrier();
}

void run_with(const std::string& mode, const Launch& launch, Communicator& comm) {
  const bool last = comm.rank() == comm.size() - 1;
  comm.barrier();
  if (mode == "collectives") {
    collectives(launch, comm);
  } else if (mode == "abort") {
    if (last) comm.abort(41);
    comm.barrier();
  } else if (mode == "exit") {
    if (last) std::_Exit(7);
    comm.barrier();
  } else if (mode == "throw") {
    if (last) throw std::runtime_error("a fault of the last rank");
    comm.barrier();
  } else if (mode == "different_sizes") {
    different_sizes(comm);
  } else {
    throw std::runtime_error(fmt::format("no mode is called {}", mode));
  }
}

int run(const std::string& mode, const std::string& folder) {
  if (mode == "alone") return alone();
  const std::optional<Launch> launch = detect_launch();
  if (!launch) throw std::runtime_error("no launcher was found");
  const std::unique_ptr<Communicator> comm = open_launched(*launch);
  if (!folder.empty()) std::ofstream(std::filesystem::path(folder) / std::to_string(getpid())) << "here\n";
  try {
    run_with(mode, *launch, *comm);
  } catch (const std::exception& error) {
    fmt::print("rank {}: {}\n", comm->rank(), error.what());
    std::fflush(stdout);
    throw;  // and all ranks end
  }
  return 0;
}

}  // namespace
}  // namespace isochron::comm

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "", folder = argc > 2 ? argv[2] : "";
  int status = 1;
  // As in programs, where a thread of its own communicates.
  std::thread([&] {
    try {
      status = isochron::comm::run(mode, folder);
    } catch (const isochron::Error& error) {
      fmt::print("{}: {}\n", error_code_name(error.code()), error.what());
      status = 3;
    } catch (const std::exception& error) {
      fmt::print("{}\n", error.what());
    }
  }).join();
  return status;
}
