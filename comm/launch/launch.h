// Which launcher (mpirun, srun) started this process, if any, and the communicator of its ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isochron/comm/transport/communicator.h"

namespace isochron::comm {

/// What a launcher's environment variables say of this process.
struct Launch {
  std::string mpi;       // whose module speaks to it: "openmpi" or "mpich"
  std::string launcher;  // how it was recognized: "Open MPI's mpirun (OMPI_COMM_WORLD_SIZE)"
  int rank = 0;
  int size = 1;
  /// Among the ranks of this machine; where the launcher doesn't say, as if there were one rank a machine.
  int local_rank = 0;
  int local_size = 1;
};

/// Looks for Open MPI's mpirun, MPICH's or another one that uses Hydra, and Slurm's srun where it offers PMI;
/// none of MPI is loaded. ISOCHRON_MPI=openmpi|mpich names another module than the launcher's, for libraries
/// that understand each other's launchers; `off` says that this process runs alone. Nothing is cached. Throws
/// kInvalidArgument naming the variable for one that isn't what it should be.
std::optional<Launch> detect_launch();

/// Where modules are looked for, in this order: the folders of ISOCHRON_MPI_MODULE_PATH (separated by
/// colons), beside the program's folder, then where this build has put and installs them.
std::vector<std::string> module_folders();

/// The module for `launch.mpi`. Throws kUnsupported where it is in none of the folders, saying what to
/// install.
std::string module_path(const Launch& launch, const std::vector<std::string>& folders = module_folders());

/// What is known of an MPI's module without starting MPI.
struct ModuleState {
  std::string spelled;  // "Open MPI"
  std::string package;  // what has it, on Debian
  bool built = false;   // by the build of this program
  std::string path;     // empty: it is in none of the folders
  std::string version;  // of the MPI library: "Open MPI 4.1.4"
  std::string problem;  // why it can't be loaded; empty where it can
};

/// One for each MPI that is known here. A child process tries to load what is found, so that nothing of MPI
/// is mapped in this one.
std::vector<ModuleState> module_states(const std::vector<std::string>& folders = module_folders());

/// Loads that module and opens its communicator on the calling thread, from which all its calls and its
/// destruction must come (comm/mpi/module.h). Throws as module_path; kUnsupported where the module can't be
/// loaded; and kCommunication where MPI finds another number of ranks than the launcher has started: it is
/// another MPI's.
std::unique_ptr<Communicator> open_launched(const Launch& launch);

}  // namespace isochron::comm
