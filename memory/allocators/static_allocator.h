// Memory for what outlives every allocator scope.
#pragma once

#include "isochron/memory/allocators/allocator.h"

namespace isochron {

/// Never destroyed and never replaced: for tensors kept in statics. The process default to begin with.
Allocator& static_allocator();

}  // namespace isochron
