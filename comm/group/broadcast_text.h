// Broadcasts a text of any length from rank 0 to all other ranks.
#pragma once

#include <string>

#include "isochron/comm/group/group.h"

namespace isochron::comm {

/// Returns rank 0's `own` on every rank. `label`: as in Collective::describe.
std::string broadcast_text(Group& group, std::string own, const char* label);

}  // namespace isochron::comm
