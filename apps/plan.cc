// `isochron plan`: the memory planner on a file of buffers.
#include <filesystem>
#include <iostream>
#include <memory>
#include <sstream>

#include "isochron/apps/commands.h"
#include "isochron/apps/number_options.h"
#include "isochron/memory/plan_csv.h"

namespace isochron::apps {
namespace {

struct Options {
  std::filesystem::path path;
  size_t capacity_bytes = 0;
  size_t alignment = PlannerOptions{}.alignment;
};

void run(const Options& options) {
  const BufferTable table = read_buffers_csv(options.path);
  PlannerOptions planner;
  planner.alignment = options.alignment;
  if (options.capacity_bytes > 0) planner.capacity_bytes = options.capacity_bytes;
  const MemoryPlan plan = plan_memory(table.requests, planner);
  check_plan(table.requests, plan, planner.alignment);
  std::ostringstream csv;
  write_plan_csv(csv, table, plan);
  std::cout << csv.str() << std::flush;
  std::cerr << describe_plan(table.requests, plan, table.ids);
}

}  // namespace

void add_plan(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("plan", "place buffers of known size and lifetime in one arena");
  command
      ->add_option("buffers", options->path,
                   "CSV with the columns id,lower,upper,size: live in [lower, upper), size in bytes")
      ->required();
  command->add_option("--capacity", options->capacity_bytes, "fail when the arena would be larger, in bytes")
      ->check(whole_number(1));
  command->add_option("--alignment", options->alignment, "of every offset, a power of two")
      ->capture_default_str();
  command->footer("Prints the same rows with an offset column; a summary goes to standard error.");
  command->callback([options] { run(*options); });
}

}  // namespace isochron::apps
