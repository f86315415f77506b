#include "isochron/apps/commands.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <optional>

#include "isochron/core/error.h"
#include "isochron/core/log.h"

namespace isochron::apps {
namespace {

constexpr int kCheckFailed = 1;
constexpr int kUsage = 2;
constexpr int kOutOfMemory = 4;

constexpr int kBadInput = 3;

/// To standard error, which may be full as well; then the exit status must do.
void complain(const std::string& message) noexcept {
  std::fprintf(stderr, "isochron: %s\n", message.c_str());
}

/// An empty value is a shell's variable that isn't set; to go on without what was asked for would lose it.
void refuse_empty(CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return;  // a flag
  option.check(
      [](const std::string& value) { return std::string(value.empty() ? "the value is empty" : ""); });
}

int complain_of_output(int error_number) {
  complain(fmt::format("[standard output] cannot write all of it: {}", std::strerror(error_number)));
  return kBadInput;
}

int run(int argc, const char* const* argv) {
  CLI::App app("Isochron: training whose every iteration takes the same time, with proof", "isochron");
  app.require_subcommand(0, 1);
  app.set_version_flag("--version", ISOCHRON_VERSION);
  add_compare(app);
  add_train(app);
  add_bench(app);
  add_sweep(app);
  add_report(app);
  add_watch(app);
  add_analyze(app);
  add_plan(app);
  add_doctor(app);
  std::optional<Log> log;
  app.fallthrough();
  for (CLI::App* command : app.get_subcommands({})) {
    command->fallthrough();
    for (CLI::Option* option : command->get_options()) refuse_empty(*option);
  }
  app.add_option_function<std::string>(
      "--log-level", [&log](const std::string& name) { log.emplace(log_level(name, "--log-level")); },
      "what standard error shows besides errors: error (nothing), warning, info or debug; default: "
      "ISOCHRON_LOG, else warning");
  try {
    log.emplace(log_level_of_environment());
    app.parse(argc, argv);
    if (!app.get_subcommands().empty()) return 0;
    fmt::print(stderr, "{}", app.help());
    return kUsage;
  } catch (const CLI::ParseError& error) {
    return error.get_exit_code() == 0 ? app.exit(error) : (app.exit(error), kUsage);
  } catch (const CheckFailed& error) {
    std::fflush(stdout);
    complain(error.what());
    return kCheckFailed;
  } catch (const Interrupted& interrupted) {
    std::fflush(stdout);
    complain(interrupted.what());
    return 128 + interrupted.signal();
  } catch (const Error& error) {
    std::fflush(stdout);
    complain(error.what());
    return exit_code(error.code());
  } catch (const std::bad_alloc&) {
    complain("the system has no memory left");
    return kOutOfMemory;
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) return complain_of_output(error.code().value());
    complain(error.what());
    return kBadInput;
  } catch (const std::exception& error) {
    std::fflush(stdout);
    complain(error.what());
    return kBadInput;
  }
}

}  // namespace

void require_folder_of(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.parent_path();
  std::error_code ignored;
  require(folder.empty() || std::filesystem::is_directory(folder, ignored), ErrorCode::kIo, file.string(),
          "there is no folder {}; make it first", folder.string());
  require(!std::filesystem::is_directory(file, ignored), ErrorCode::kIo, file.string(),
          "is a folder; expected a file's name");
}

void make_folder(const std::filesystem::path& folder) {
  if (folder.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  require(!failed, ErrorCode::kIo, folder.string(), "cannot create the folder: {}", failed.message());
}

int run_command(int argc, const char* const* argv) {
  const int status = run(argc, argv);
  std::cout.flush();
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  return written || status != 0 ? status : complain_of_output(errno);
}

}  // namespace isochron::apps
