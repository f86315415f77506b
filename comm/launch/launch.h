// Which launcher (mpirun, srun) started this process, if any, and the communicator of its ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "isochron/comm/transport/communicator.h"

namespace isochron::comm {

/// What a launcher's environment variables say about this process.
struct Launch {
  std::string mpi;       // the MPI whose module is used: "openmpi" or "mpich"
  std::string launcher;  // the launcher and how it was recognized: "Open MPI's mpirun (OMPI_COMM_WORLD_SIZE)"
  int rank = 0;
  int size = 1;
  /// Among the ranks on this machine. If the launcher doesn't say, one rank per machine is assumed.
  int local_rank = 0;
  int local_size = 1;
};

/// Looks for Open MPI's mpirun, MPICH's mpirun or another launcher that uses Hydra, and Slurm's srun if it
/// offers PMI. Doesn't load MPI. ISOCHRON_MPI=openmpi|mpich selects a module other than the launcher's, for
/// libraries that understand each other's launchers; `off` says that this process runs alone. Nothing is
/// cached. Throws kInvalidArgument naming a variable that is missing or has an invalid value.
std::optional<Launch> detect_launch();

/// The folders that are searched for modules, in this order: those in ISOCHRON_MPI_MODULE_PATH (separated by
/// colons), folders relative to the program's, then those where this build puts and installs modules.
std::vector<std::string> module_folders();

/// The path of the module for `launch.mpi`. Throws kUnsupported, saying what to install, if none of the
/// folders contains it.
std::string module_path(const Launch& launch, const std::vector<std::string>& folders = module_folders());

/// What is known about an MPI's module without starting MPI.
struct ModuleState {
  std::string spelled;  // "Open MPI"
  std::string package;  // the Debian package that contains it
  bool built = false;   // by the build of this program
  std::string path;     // empty: not found in any folder
  std::string version;  // of the MPI library: "Open MPI 4.1.4"
  std::string problem;  // why it can't be loaded; empty if it can
};

/// One entry for each supported MPI. A child process tries to load the module, so that no part of MPI is
/// mapped into this process.
std::vector<ModuleState> module_states(const std::vector<std::string>& folders = module_folders());

/// Loads the module and opens its communicator on the calling thread, which must also destroy it
/// (comm/mpi/module.h). Throws like module_path; kUnsupported if the module can't be loaded; and
/// kCommunication if MPI finds a different number of ranks than the launcher has started, which means that
/// the launcher belongs to another MPI.
std::unique_ptr<Communicator> open_launched(const Launch& launch);

}  // namespace isochron::comm
