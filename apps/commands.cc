#include "isochron/apps/commands.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <numeric>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "isochron/comm/group/world.h"
#include "isochron/comm/launch/join.h"
#include "isochron/core/base/error.h"
#include "isochron/core/process/standard_streams.h"
#include "isochron/core/telemetry/log.h"
#include "isochron/core/text/terminal_text.h"

namespace isochron::apps {
namespace {

constexpr int kCheckFailed = 1;
constexpr int kUsage = 2;
constexpr int kBadInput = 3;

/// The maximum length of a message, whatever it quotes.
constexpr size_t kLongestMessage = 4000;

/// Writes to standard error. If that fails too, only the exit status reports the error. Doesn't allocate.
void complain(std::string_view message) noexcept {
  const std::string_view shown = message.substr(0, kLongestMessage);
  const comm::Group& ranks = *comm::world();
  char rank[32] = "";
  if (ranks.size() > 1) std::snprintf(rank, sizeof rank, "rank %d: ", ranks.rank());
  std::fprintf(stderr, "isochron: %s%.*s%s\n", rank, static_cast<int>(shown.size()), shown.data(),
               shown.size() < message.size() ? "..." : "");
}

/// Rejects empty values. An empty value usually comes from a shell variable that isn't set, and would make
/// the option ineffective without notice.
void refuse_empty(CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return;  // a flag
  option.check(
      [](const std::string& value) { return std::string(value.empty() ? "the value is empty" : ""); });
}

int complain_of_output(int error_number) {
  complain(fmt::format("[standard output] could not be written completely: {}", std::strerror(error_number)));
  return kBadInput;
}

/// The number of insertions, removals and replacements of characters that turn one word into the other.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row.back();
}

/// "; did you mean 'train'?", with the most similar name; empty if none is similar.
std::string suggestion(std::string_view word, const std::vector<std::string>& names) {
  constexpr size_t kLongest = 40;
  if (word.size() > kLongest) return {};
  const auto distance = [&](const std::string& name) { return edit_distance(word, name); };
  const auto nearest = std::ranges::min_element(names, {}, distance);
  const auto longer = std::ranges::find_if(names, [&](const auto& name) { return name.starts_with(word); });
  if (nearest != names.end() && distance(*nearest) <= std::max<size_t>(2, word.size() / 4))
    return fmt::format("; did you mean '{}'?", *nearest);
  return longer != names.end() ? fmt::format("; did you mean '{}'?", *longer) : std::string();
}

/// The error message for a command line with unknown words.
std::string unknown_words(const CLI::App& app) {
  const std::vector<std::string> words = app.remaining(true);
  const std::vector<CLI::App*> commands = app.get_subcommands();
  const auto is_option = [](const std::string& word) { return word.size() > 1 && word.starts_with('-'); };
  const auto option = std::ranges::find_if(words, is_option);
  std::vector<std::string> names;
  if (option == words.end() && commands.empty()) {
    for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
    return fmt::format("no command '{}'{}", quotation(words.front()), suggestion(words.front(), names));
  }
  if (option == words.end())
    return fmt::format("unexpected argument '{}' of '{}'", quotation(words.front()),
                       commands.front()->get_name());
  const std::string given = option->substr(0, option->find('='));
  const CLI::App& one = commands.empty() ? app : *commands.front();
  for (const CLI::Option* known : one.get_options())
    for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
  return fmt::format("no option '{}'{}{}", quotation(given),
                     commands.empty() ? "" : fmt::format(" of '{}'", commands.front()->get_name()),
                     suggestion(given, names));
}

/// Prints the parser's message for an invalid command line or a request for help.
int answer_usage(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError) &&
      !app.remaining(true).empty()) {
    fmt::print(stderr, "{}\nRun with --help for more information.\n", unknown_words(app));
    return kUsage;
  }
  std::ostringstream out, errors;
  const bool asked = app.exit(error, out, errors) == 0;
  std::fputs(out.str().c_str(), stdout);
  std::string text = errors.str();
  if (text.size() > kLongestMessage) text = shortened(text, kLongestMessage) + "\n";
  std::fputs(text.c_str(), stderr);
  return asked ? 0 : kUsage;
}

struct Ending {
  int status;
  bool failed = false;  // failed during the work, when other ranks may be waiting for this one
};

Ending run(int argc, const char* const* argv) {
  CLI::App app("Isochron: training in which every iteration takes the same time, with proof", "isochron");
  app.require_subcommand(0, 1);
  app.set_version_flag("-V,--version", ISOCHRON_VERSION);
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
      "what to write to standard error besides errors: error (nothing), warning, info or debug; default: "
      "ISOCHRON_LOG, or warning if that is not set");
  try {
    log.emplace(log_level_of_environment());
    app.parse(argc, argv);
    if (!app.get_subcommands().empty()) return {0};
    fmt::print(stderr, "{}", app.help());
    return {kUsage};
  } catch (const CLI::ParseError& error) {
    const int status = answer_usage(app, error);
    return {status, status != 0};
  } catch (const CheckFailed& error) {
    std::fflush(stdout);
    complain(error.what());
    return {kCheckFailed};
  } catch (const Interrupted& interrupted) {
    std::fflush(stdout);
    complain(interrupted.what());
    return {128 + interrupted.signal()};
  } catch (const Error& error) {
    std::fflush(stdout);
    complain(error.what());
    return {exit_code(error.code()), true};
  } catch (const std::bad_alloc&) {
    complain("the system has no memory left");
    return {kOutOfMemory, true};
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) {
      const int first = standard_output_error();
      return {complain_of_output(first != 0 ? first : error.code().value()), true};
    }
    complain(error.what());
    return {is_want_of_memory(error.code()) ? kOutOfMemory : kBadInput, true};
  } catch (const std::exception& error) {
    std::fflush(stdout);
    complain(error.what());
    return {kBadInput, true};
  }
}

/// Ends the other ranks, if there are any. Joins them first, because they may be waiting for that, and
/// because some launchers treat a process that never joined as unrelated.
void end_ranks(int status) {
  try {
    comm::join();
  } catch (const std::exception&) {  // then there are no ranks to inform
  }
  if (comm::world()->size() > 1) comm::world()->abort(status);
}

}  // namespace

void require_folder_of(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.parent_path();
  std::error_code ignored;
  require(folder.empty() || std::filesystem::is_directory(folder, ignored), ErrorCode::kIo, file.string(),
          "there is no folder {}; create it first", folder.string());
  require(!std::filesystem::is_directory(file, ignored), ErrorCode::kIo, file.string(),
          "is a folder; expected a file name");
}

void make_folder(const std::filesystem::path& folder) {
  if (folder.empty()) return;
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  require(!failed, ErrorCode::kIo, folder.string(), "cannot create the folder: {}", failed.message());
}

std::vector<std::shared_ptr<FolderLock>> make_own_folders(const std::vector<std::filesystem::path>& folders) {
  std::vector<std::filesystem::path> different;
  for (const std::filesystem::path& folder : folders) {
    if (folder.empty()) continue;
    make_folder(folder);
    const bool known = std::ranges::any_of(different, [&](const std::filesystem::path& other) {
      std::error_code unknown;
      return std::filesystem::equivalent(folder, other, unknown);
    });
    if (!known) different.push_back(folder);
  }
  std::vector<std::shared_ptr<FolderLock>> locks;
  for (const std::filesystem::path& folder : different) locks.push_back(std::make_shared<FolderLock>(folder));
  return locks;
}

void print_nothing() {
  std::fflush(stdout);
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  require(nowhere >= 0 && ::dup2(nowhere, STDOUT_FILENO) >= 0, ErrorCode::kIo, "/dev/null",
          "cannot write to it");
}

bool is_want_of_memory(const std::error_code& error) {
  return error == std::errc::not_enough_memory || error == std::errc::resource_unavailable_try_again;
}

int run_command(int argc, const char* const* argv) {
  const auto [status, failed] = run(argc, argv);
  if (failed) end_ranks(status);
  errno = 0;
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || status != 0) return status;
  // The failed write may have happened much earlier.
  return complain_of_output(standard_output_error() != 0 ? standard_output_error()
                            : errno != 0                 ? errno
                                                         : EIO);
}

}  // namespace isochron::apps
