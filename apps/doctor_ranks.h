// What `isochron doctor` reports about several processes: MPI, launchers, and the cores of a rank.
#pragma once

#include <string>
#include <vector>

#include "isochron/observe/host/machine.h"

namespace isochron::apps {

struct DoctorRow {
  std::string what;
  std::string text;
};

struct LaunchReport {
  bool first = true;            // whether this process is rank 0 or alone, and prints everything
  std::string line;             // what any other rank prints
  std::vector<DoctorRow> rows;  // rows that the first rank prints
  std::vector<std::string> advice;
};

/// Doesn't start MPI, and doesn't keep its library loaded.
LaunchReport launch_report(const observe::MachineDescription& machine);

}  // namespace isochron::apps
