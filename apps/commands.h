// The subcommands of `isochron`. Each function adds a subcommand to the parser, with a callback that does the
// work. A callback throws isochron::Error for mistakes, and CheckFailed for a failed check.
#pragma once

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "isochron/core/files/run_folder.h"

namespace CLI {
class App;  // only declared, because including CLI11 adds seconds to compilation
}

namespace isochron::apps {

/// The exit status if the system has no memory left.
inline constexpr int kOutOfMemory = 4;

/// A requested check failed (not flat, not a number): exit status 1.
class CheckFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A signal ended the work in an orderly way. The exit status is 128 plus the signal's number, as in shells.
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

/// Throws kIo unless the folder of `file` exists. Call this before any work is done. Does nothing for an
/// empty path.
void require_folder_of(const std::filesystem::path& file);
/// Creates the folder and its missing parents. Throws kIo. Does nothing for an empty path.
void make_folder(const std::filesystem::path& folder);

/// Calls make_folder for each folder, and locks the folders for this process as long as the returned locks
/// live, because two processes that write to one folder would overwrite each other's files. A folder may
/// occur twice. Throws kIo, also if another process holds a lock.
std::vector<std::shared_ptr<FolderLock>> make_own_folders(const std::vector<std::filesystem::path>& folders);

/// Discards standard output from now on. Used by all ranks except the first. Throws kIo.
void print_nothing();

/// Whether the error means a lack of memory, or that the system can't create a thread or process.
bool is_want_of_memory(const std::error_code& error);

/// Parses and runs a command line. Returns the exit status: 0 for success, 1 for a failed check, 2 for wrong
/// usage, 3 for bad input, 4 if out of memory; 129, 130 and 143 if ended by SIGHUP, SIGINT and SIGTERM with
/// everything saved; 141 if nobody reads standard output any more.
int run_command(int argc, const char* const* argv);

}  // namespace isochron::apps
