#include "isochron/apps/commands.h"

#include <cstdio>
#include <new>

#include "isochron/core/error.h"

namespace isochron::apps {
namespace {

constexpr int kCheckFailed = 1;
constexpr int kUsage = 2;
constexpr int kOutOfMemory = 4;

}  // namespace

int run_command(int argc, const char* const* argv) {
  CLI::App app("Isochron: training whose every iteration takes the same time, with proof", "isochron");
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", ISOCHRON_VERSION);
  add_compare(app);
  add_train(app);
  add_bench(app);
  add_plan(app);
  add_doctor(app);
  try {
    app.parse(argc, argv);
    if (!app.get_subcommands().empty()) return 0;
    fmt::print(stderr, "{}", app.help());
    return kUsage;
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app.exit(error) : (app.exit(error), kUsage);
  } catch (const CheckFailed& error) {
    std::fflush(stdout);
    fmt::print(stderr, "isochron: {}\n", error.what());
    return kCheckFailed;
  } catch (const Error& error) {
    std::fflush(stdout);
    fmt::print(stderr, "isochron: {}\n", error.what());
    return exit_code(error.code());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "isochron: the system has no memory left\n");
    return kOutOfMemory;
  }
}

}  // namespace isochron::apps
