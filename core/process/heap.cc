#include "isochron/core/process/heap.h"

#include <malloc.h>

namespace isochron {

void give_back_free_heap() noexcept {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace isochron
