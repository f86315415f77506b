// The allocator for objects that outlive every allocator scope.
#pragma once

#include "isochron/memory/allocators/allocator.h"

namespace isochron {

/// Never destroyed and never replaced: for tensors in static variables. It is the initial process default.
Allocator& static_allocator();

}  // namespace isochron
