// The group of the processes that a launcher started together.
#pragma once

#include <memory>

#include "isochron/comm/group/group.h"

namespace isochron::comm {

/// All ranks of this run: one process alone, unless comm::join() (comm/launch/join.h) has found others. What
/// takes a group and is given none takes this one.
const std::shared_ptr<Group>& world();
/// For `join` and tests: what `world` gives from now on; null: one process alone. Not thread-safe.
void set_world(std::shared_ptr<Group> group);

}  // namespace isochron::comm
