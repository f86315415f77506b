#include "isochron/comm/group/broadcast_text.h"

namespace isochron::comm {

std::string broadcast_text(Group& group, std::string own, const char* label) {
  auto bytes = static_cast<int64_t>(own.size());
  group.broadcast(std::as_writable_bytes(std::span(&bytes, 1)), 0, label);
  own.resize(static_cast<size_t>(bytes));
  group.broadcast(std::as_writable_bytes(std::span(own)), 0, label);
  return own;
}

}  // namespace isochron::comm
