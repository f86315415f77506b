// Tells where a process id is valid, because a file that contains a process id may be read on another machine
// or in another container.
#pragma once

#include <string>

namespace isochron {

/// Identifies the current boot of this machine and this process's PID namespace. Process ids can be compared
/// only if this text is the same. Empty if the system doesn't report it.
std::string process_space();

/// This machine's name; "unknown" if the system doesn't report it.
std::string host_name();

}  // namespace isochron
