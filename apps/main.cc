#include "isochron/apps/commands.h"

int main(int argc, char** argv) { return isochron::apps::run_command(argc, argv); }
