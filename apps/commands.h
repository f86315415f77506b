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

/// The exit status if the system has no memory left.
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

/// Throws kIo, before any work is done, unless the folder exists in which `file` will be written. Does
/// nothing for an empty path.
void require_folder_of(const std::filesystem::path& file);
/// Creates the folder and its missing parents. Throws kIo. Does nothing for an empty path.
void make_folder(const std::filesystem::path& folder);

/// Calls make_folder for each, and locks the folders for this process while the returned locks live: two
/// processes that write into one folder would overwrite each other's files. Throws kIo, also if another
/// process holds a lock. A folder may occur twice.
std::vector<std::shared_ptr<FolderLock>> make_own_folders(const std::vector<std::filesystem::path>& folders);

/// Discards standard output from now on; for all ranks except the first. Throws kIo.
void print_nothing();

/// Whether the system reported a lack of memory, or that it can't create a thread or process.
bool is_want_of_memory(const std::error_code& error);

/// Parses and runs a command line. Returns the exit status: 0 for success, 1 for a failed check, 2 for wrong
/// usage, 3 for bad input, 4 if out of memory; 129, 130 and 143 if ended by SIGHUP, SIGINT and SIGTERM with
/// everything saved; 141 if nobody reads standard output any more.
int run_command(int argc, const char* const* argv);

}  // namespace isochron::apps
