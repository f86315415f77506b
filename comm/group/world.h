// The group of the processes that a launcher started together.
#pragma once

#include <memory>

#include "isochron/comm/group/group.h"

namespace isochron::comm {

/// The group of all ranks of this run: this process alone, unless comm::join() (comm/launch/join.h) has found
/// others. Code that takes a group uses this one by default.
const std::shared_ptr<Group>& world();
/// For `join` and tests: sets the group that `world` returns from now on. Null: this process alone. Not
/// thread-safe.
void set_world(std::shared_ptr<Group> group);

}  // namespace isochron::comm
