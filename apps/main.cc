#include "isochron/apps/commands.h"
#include "isochron/apps/process.h"
#include "isochron/core/process/omp_wait_policy.h"

int main(int argc, char** argv) {
  isochron::limit_omp_spinning(argv);
  isochron::apps::begin_process();
  const int status = isochron::apps::run_command(argc, argv);
  isochron::apps::end_process();
  return status;
}
