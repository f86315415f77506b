// The subcommands of `isochron`. Each adds itself to the parser with a callback that does the work; a
// callback reports mistakes by throwing isochron::Error and a failed check by throwing CheckFailed.
#pragma once

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "isochron/core/files/run_folder.h"

namespace CLI {
class App;  // declared only: a source that includes CLI11 takes seconds longer to compile
}

namespace isochron::apps {

/// The exit status where the system has no memory left.
inline constexpr int kOutOfMemory = 4;

/// The check that was asked for failed (not flat, not a number): exit status 1.
class CheckFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A signal ended the work in good order: exit status 128 and the signal's number, as shells have it.
class Interrupted : public std::runtime_error {
 public:
  Interrupted(int signal, const std::string& text) : std::runtime_error(text), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

void add_analyze(CLI::App& app);
void add_bench(CLI::App& app);
void add_sweep(CLI::App& app);
void add_compare(CLI::App& app);
void add_doctor(CLI::App& app);
void add_plan(CLI::App& app);
void add_report(CLI::App& app);
void add_train(CLI::App& app);
void add_watch(CLI::App& app);

/// Throws kIo, before any work is done, unless the folder that `file` is to be written to exists. An empty
/// path is not written.
void require_folder_of(const std::filesystem::path& file);
/// Makes the folder and those above it that are missing. Throws kIo. An empty path is not made.
void make_folder(const std::filesystem::path& folder);

/// As make_folder for each, and keeps them to this process while what is returned lives: two that write into
/// one folder would overwrite each other's files. Throws kIo, also where another process has one. A folder
/// may come twice.
std::vector<std::shared_ptr<FolderLock>> make_own_folders(const std::vector<std::filesystem::path>& folders);

/// From now on standard output goes nowhere: for ranks but the first. Throws kIo.
void print_nothing();

/// Whether the system said that it has no memory, or no room for a thread or process.
bool is_want_of_memory(const std::error_code& error);

/// Parses and runs a command line. Returns the exit status: 0 done, 1 a check failed, 2 usage, 3 bad input, 4
/// out of memory, 129, 130 and 143 ended by SIGHUP, SIGINT and SIGTERM with everything saved, 141 where
/// nobody reads standard output any more.
int run_command(int argc, const char* const* argv);

}  // namespace isochron::apps
