#include "isochron/apps/commands.h"
#include "isochron/apps/process.h"
#include "isochron/core/patient_threads.h"

int main(int argc, char** argv) {
  isochron::wait_patiently(argv);
  isochron::apps::begin_process();
  const int status = isochron::apps::run_command(argc, argv);
  isochron::apps::end_process();
  return status;
}
