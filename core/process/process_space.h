// Where a process id is valid: a file that names a process may be read on another machine or in another
// container.
#pragma once

#include <string>

namespace isochron {

/// Names the present start of this machine and the namespace of this process's id. Ids of processes with the
/// same text are of one list. Empty if the system doesn't report it.
std::string process_space();

/// This machine's name; "unknown" if the system doesn't report it.
std::string host_name();

}  // namespace isochron
