#include "isochron/core/process/omp_wait_policy.h"

#include <unistd.h>

#include <cstdlib>

namespace isochron {

void limit_omp_spinning(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return;
  if (setenv("GOMP_SPINCOUNT", "1000", 0) == 0) execv("/proc/self/exe", argv);
}

}  // namespace isochron
