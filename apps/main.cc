#include "isochron/apps/commands.h"
#include "isochron/core/patient_threads.h"

int main(int argc, char** argv) {
  isochron::wait_patiently(argv);
  return isochron::apps::run_command(argc, argv);
}
