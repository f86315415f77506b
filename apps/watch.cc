// `isochron watch`: a live view in the terminal of a run that writes to a folder.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "isochron/apps/commands.h"
#include "isochron/apps/number_options.h"
#include "isochron/core/base/error.h"
#include "isochron/core/files/file.h"
#include "isochron/core/process/process_space.h"
#include "isochron/core/process/standard_streams.h"
#include "isochron/core/text/terminal_text.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/record/json_numbers-inl.h"
#include "isochron/train/callbacks/run_watch.h"

namespace isochron::apps {
namespace {

using nlohmann::json;

// Limits of what is shown, because the file may contain anything.
constexpr int kMaxResults = 64;
constexpr size_t kLongestName = 40, kLongestAlarm = 400;

struct WatchOptions {
  std::filesystem::path folder;
  double interval_seconds = 1;
  bool once = false;
};

json read_live(const std::filesystem::path& path) {
  std::error_code unknown;
  require(!std::filesystem::exists(path, unknown) || std::filesystem::is_regular_file(path, unknown),
          ErrorCode::kIo, path.string(), "is not a regular file");
  const std::vector<std::byte> bytes = read_file(path, size_t{1} << 20);
  try {
    json live = observe::parse_json<json>({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    if (live.at("format") != "isochron live 1") throw std::invalid_argument("unknown format");
    return live;
  } catch (const std::exception& error) {
    fail(ErrorCode::kBadFormat, path.string(), "not the state of a run: {}", observe::complaint(error));
  }
}

/// One character per value, from blank at 0 to a full block at the largest, so that an even run looks even.
std::string bars(const std::vector<double>& values) {
  constexpr const char* kBars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const double highest = values.empty() ? 0 : std::ranges::max(values);
  std::string text;
  for (const double value : values) {
    const double share = highest > 0 ? std::clamp(value / highest, 0.0, 1.0) : 0;
    text += kBars[static_cast<size_t>(std::lround(8 * share))];
  }
  return text;
}

int64_t process_of(const json& live) { return observe::whole(live, "process", 1); }

std::string memory_line(double first_bytes, double bytes) {
  if (first_bytes < 0 || bytes < 0) return "memory unknown\n";
  const double gained = bytes - first_bytes;
  return fmt::format("memory {} resident, {}{} since the first sample\n", observe::bytes_text(bytes),
                     gained < 0 ? "" : "+", observe::bytes_text(gained));
}

std::string view(const json& live) {
  const auto number = [&](const char* name) { return live.at(name).get<double>(); };
  const double steps = number("step"), of = number("steps_per_epoch"), epochs = number("epochs");
  std::string text =
      fmt::format("{}  process {}\n", quotation(live.at("title").get<std::string>()), process_of(live));
  const double total = number("total_steps"), recorded = number("recorded_steps");
  text +=
      fmt::format("epoch {:.0f} of {:.0f}, step {:.0f}{}; {:.0f} steps, {:.0f}{} in {}\n", number("epoch"),
                  epochs, steps, of > 0 ? fmt::format(" of {:.0f}", of) : "", total, recorded,
                  recorded < total ? " since warm-up" : "", observe::duration_text(number("seconds") * 1e9));
  std::string results;
  int shown = 0;
  for (const auto& [name, value] : live.at("results").items()) {
    if (++shown > kMaxResults) break;
    const std::string shown_value = value.is_number()   ? fmt::format("{:.4g}", value.get<double>())
                                    : value.is_string() ? quotation(value.get<std::string>(), kLongestName)
                                                        : std::string("unknown");
    results +=
        fmt::format("{}{} {}", results.empty() ? "" : "  ", quotation(name, kLongestName), shown_value);
  }
  if (!results.empty()) text += results + "\n";
  const auto medians = live.at("medians_ns").get<std::vector<double>>();
  text += fmt::format(
      "\nstep   median {}, p99 {}; {:.0f} spike{}; {:.1f} % of the time is spent waiting for data\n",
      observe::duration_text(number("p50_ns")), observe::duration_text(number("p99_ns")), number("spikes"),
      number("spikes") == 1 ? "" : "s", 100 * number("data_wait_share"));
  if (!medians.empty()) {
    text += fmt::format("over the run, from 0 to {}:\n  {}\n",
                        observe::duration_text(std::ranges::max(medians)), bars(medians));
  }
  text += memory_line(number("rss_first_bytes"), number("rss_bytes"));
  if (const auto alarm = live.at("alarm").get<std::string>(); !alarm.empty())
    text += fmt::format("ALARM  {}\n", quotation(alarm, kLongestAlarm));
  return text;
}

/// If the folder exists but no run has written to it yet, waits for one or, with `once`, throws.
void await_run(const std::filesystem::path& live, const WatchOptions& options) {
  std::error_code unknown;
  const auto written = [&] { return std::filesystem::exists(live, unknown); };
  if (written() || !std::filesystem::is_directory(options.folder, unknown)) return;  // the reader reports it
  require(!options.once, ErrorCode::kIo, options.folder.string(),
          "no run has written here yet (there is no {})", train::kLiveFile);
  fmt::print("waiting for a run to write into {}\n", options.folder.string());
  std::fflush(stdout);
  while (!written()) {
    require(std::filesystem::is_directory(options.folder, unknown), ErrorCode::kIo, options.folder.string(),
            "the folder was removed before a run wrote into it");
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval_seconds));
  }
}

/// Whether this process can query the run's process. Older files don't say; then it is assumed.
bool is_near(const json& live) {
  return !live.contains("process_space") || live["process_space"].get<std::string>() == process_space();
}

bool alive(int64_t process) { return ::kill(static_cast<pid_t>(process), 0) == 0 || errno == EPERM; }

/// What is known about a process on another machine or in another container.
std::string far_line(const json& live, const std::filesystem::path& path) {
  std::error_code unknown;
  const auto written = std::filesystem::last_write_time(path, unknown);
  const auto age = std::filesystem::file_time_type::clock::now() - written;
  const double seconds = std::max(0.0, std::chrono::duration<double>(age).count());
  return fmt::format(
      "the run is on {}, or in another container: whether its process is alive can't be seen from here{}\n",
      quotation(live.value("host", "another machine"), kLongestName),
      unknown ? "" : fmt::format("; {} is {:.0f} s old", train::kLiveFile, seconds));
}

void run_watch(const WatchOptions& options) {
  const std::filesystem::path path = options.folder / train::kLiveFile;
  const bool terminal = is_terminal(stdout);
  await_run(path, options);
  for (;;) {
    const json live = read_live(path);
    const std::string text = view(live);
    if (terminal && !options.once) write_terminal_command(stdout, "\x1b[H\x1b[J");
    fmt::print("{}", text);
    if (!terminal && !options.once) fmt::print("\n");
    std::fflush(stdout);
    if (live.at("finished").get<bool>()) {
      const auto reason = live.at("stop_reason").get<std::string>();
      fmt::print("the run is over{}{}\n", reason.empty() ? "" : ": ", quotation(reason, kLongestAlarm));
      return;
    }
    if (!is_near(live)) {
      fmt::print("{}", far_line(live, path));
    } else if (!alive(process_of(live))) {
      fmt::print("the run's process ended before the run was finished\n");
      return;
    }
    if (options.once) return;
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval_seconds));
  }
}

}  // namespace

void add_watch(CLI::App& app) {
  auto options = std::make_shared<WatchOptions>();
  CLI::App* command =
      app.add_subcommand("watch", "show a live view of a run that writes to a folder, until the run is over");
  command->add_option("folder", options->folder, "folder that was given to `train --out`")->required();
  command->add_option("--interval", options->interval_seconds, "seconds between updates")
      ->check(positive_number(86'400))
      ->capture_default_str();
  command->add_flag("--once", options->once, "show the view once, and exit");
  command->callback([options] {
    try {
      run_watch(*options);
    } catch (const json::exception& error) {
      fail(ErrorCode::kBadFormat, (options->folder / train::kLiveFile).string(), "lacks a field: {}",
           observe::complaint(error));
    } catch (const std::invalid_argument& error) {
      fail(ErrorCode::kBadFormat, (options->folder / train::kLiveFile).string(), "{}", error.what());
    }
  });
}

}  // namespace isochron::apps
