// Where a process id is valid: a file that names a process may be read on another machine or in another
// container.
#pragma once

#include <string>

namespace isochron {

/// Identifies the current boot of this machine and this process's PID namespace. Process ids can be compared
/// only if this text is the same. Empty if the system doesn't report it.
std::string process_space();

/// This machine's name; "unknown" if the system doesn't report it.
std::string host_name();

}  // namespace isochron
