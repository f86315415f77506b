// `isochron plan`: runs the memory planner on a file of buffers.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>

#include "isochron/apps/commands.h"
#include "isochron/apps/number_options.h"
#include "isochron/apps/output_files.h"
#include "isochron/core/base/error.h"
#include "isochron/core/files/file.h"
#include "isochron/memory/planner/plan_csv.h"
#include "isochron/observe/export/plan_picture.h"

namespace isochron::apps {
namespace {

struct PlanOptions {
  std::filesystem::path path;
  size_t capacity_bytes = 0;
  size_t alignment = PlannerOptions{}.alignment;
  std::filesystem::path picture;
};

/// Numbers in a file may exceed the memory or time of any machine. A plan whose time or arena is too large is
/// rejected here, when its picture is made, and not by the planner.
observe::PlanPicture picture_of(const BufferTable& table, const MemoryPlan& plan, const std::string& title) {
  observe::PlanPicture picture{.title = title,
                               .kernels = 1,
                               .arena_bytes = static_cast<int64_t>(std::max<size_t>(plan.arena_bytes, 1)),
                               .lower_bound_bytes = static_cast<int64_t>(plan.lower_bound_bytes),
                               .peak_kernel = plan.peak_time,
                               .kinds = {"buffer"}};
  for (size_t i = 0; i < table.ids.size(); ++i) {
    const BufferRequest& request = table.requests[i];
    picture.kernels = std::max(picture.kernels, request.upper);
    picture.buffers.push_back({table.ids[i], 0, request.lower, request.upper,
                               static_cast<int64_t>(request.size_bytes),
                               static_cast<int64_t>(plan.offsets[i])});
  }
  return picture;
}

void run_plan(const PlanOptions& options) {
  const bool piped = options.path == "-";
  const std::filesystem::path path = piped ? "/dev/stdin" : options.path;
  require(!piped || ::isatty(STDIN_FILENO) == 0, ErrorCode::kInvalidArgument, "plan",
          "standard input is a terminal; name a file, or pipe a table in");
  require_distinct({{"the file of buffers", path}}, {{"--picture", options.picture}});
  const BufferTable table = read_buffers_csv(path);
  PlannerOptions planner;
  planner.alignment = options.alignment;
  if (options.capacity_bytes > 0) planner.capacity_bytes = options.capacity_bytes;
  keep_standard_output_for({options.picture});
  const MemoryPlan plan = plan_memory(table.requests, planner);
  check_plan(table.requests, plan, planner.alignment);
  if (!options.picture.empty()) {
    const observe::PlanPicture picture = picture_of(table, plan, options.path.filename().string());
    write_output(options.picture, observe::plan_svg(picture));
  }
  std::ostringstream csv;
  write_plan_csv(csv, table, plan);
  fmt::print("{}", csv.str());
  std::fflush(stdout);
  fmt::print(stderr, "{}", describe_plan(table.requests, plan, table.ids));
}

}  // namespace

void add_plan(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", "place buffers of known size and lifetime in one arena");
  command
      ->add_option("buffers", options->path,
                   "CSV with the columns id,lower,upper,size: live in [lower, upper), size in bytes; -: "
                   "standard input")
      ->required();
  command
      ->add_option("--capacity", options->capacity_bytes,
                   "fail if the arena would be larger than this many bytes")
      ->check(whole_number(1));
  command->add_option("--alignment", options->alignment, "alignment of every offset, a power of two")
      ->check(whole_number(1))
      ->capture_default_str();
  command->add_option(
      "--picture", options->picture,
      "SVG file for a picture of the plan: time from left to right, offsets from bottom to top");
  command->footer("Prints the same rows with an offset column; a summary goes to standard error.");
  command->callback([options] { run_plan(*options); });
}

}  // namespace isochron::apps
