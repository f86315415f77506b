#include "isochron/comm/group/world.h"

namespace isochron::comm {
namespace {

std::shared_ptr<Group>& present_world() {
  static auto* const group = new std::shared_ptr<Group>(std::make_shared<Group>());  // for the process's life
  return *group;
}

}  // namespace

const std::shared_ptr<Group>& world() { return present_world(); }

void set_world(std::shared_ptr<Group> group) {
  present_world() = group ? std::move(group) : std::make_shared<Group>();
}

}  // namespace isochron::comm
