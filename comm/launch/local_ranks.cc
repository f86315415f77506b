#include "isochron/comm/launch/local_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <system_error>

namespace isochron::comm {
namespace {

namespace fs = std::filesystem;

// The inner launcher's variable comes first, if one launcher was started within another's job.
constexpr std::string_view kRankVariables[] = {"OMPI_COMM_WORLD_RANK=", "PMI_RANK=", "PMIX_RANK="};

std::optional<int> number_of(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

struct Process {
  pid_t parent = 0;
  char state = '?';  // of proc_pid_stat(5)
};

/// Returns nothing if the process has ended.
std::optional<Process> process_of(pid_t id) {
  const std::string text = text_of(fs::path("/proc") / std::to_string(id) / "stat");
  const size_t name_end = text.rfind(") ");  // names may contain parentheses and spaces
  if (name_end == std::string::npos || name_end + 4 >= text.size()) return std::nullopt;
  const std::string_view rest = std::string_view(text).substr(name_end + 4);
  const std::optional<int> parent = number_of(rest.substr(0, rest.find(' ')));
  if (!parent) return std::nullopt;
  return Process{*parent, text[name_end + 2]};
}

/// The rank that the environment of the process gives it.
std::optional<int> rank_of(pid_t id, RankVariables variables) {
  const std::string environment = text_of(fs::path("/proc") / std::to_string(id) / "environ");
  for (const std::string_view variable : variables) {
    for (std::string_view rest = environment; !rest.empty();) {
      const std::string_view entry = rest.substr(0, rest.find('\0'));
      rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
      if (entry.starts_with(variable)) return number_of(entry.substr(variable.size()));
    }
  }
  return std::nullopt;
}

bool has_thread(pid_t id, std::string_view name) {
  std::error_code none;
  fs::directory_iterator threads(fs::path("/proc") / std::to_string(id) / "task", none);
  for (; !none && threads != fs::directory_iterator(); threads.increment(none)) {
    const std::string text = text_of(threads->path() / "comm");
    if (std::string_view(text).substr(0, text.find('\n')) == name) return true;
  }
  return false;
}

/// All processes, keyed by their parents.
std::multimap<pid_t, std::pair<pid_t, Process>> processes() {
  std::multimap<pid_t, std::pair<pid_t, Process>> all;
  std::error_code none;
  fs::directory_iterator entries("/proc", none);
  for (; !none && entries != fs::directory_iterator(); entries.increment(none)) {
    const std::optional<int> id = number_of(entries->path().filename().string());
    if (!id) continue;
    if (const std::optional<Process> process = process_of(*id))
      all.insert({process->parent, {*id, *process}});
  }
  return all;
}

}  // namespace

std::string text_of(const fs::path& path) {
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();  // which throws nothing where reading fails
  return file.is_open() && text ? text.str() : "";
}

RankVariables rank_variables() {
  const RankVariables all = kRankVariables;
  for (size_t i = 0; i < all.size(); ++i) {
    if (rank_of(getpid(), all.subspan(i, 1))) return all.subspan(i, 1);
  }
  return all;
}

pid_t launcher_process(RankVariables variables, pid_t process) {
  const std::optional<int> own = rank_of(process, variables);
  if (!own) return 0;
  pid_t id = process;
  do {
    const std::optional<Process> part = process_of(id);
    id = part ? part->parent : 0;
  } while (id > 1 && rank_of(id, variables) == own);
  return id > 1 ? id : 0;
}

std::vector<LocalRank> local_ranks(pid_t launcher, std::string_view running, RankVariables variables) {
  using State = LocalRank::State;
  const auto all = processes();
  std::vector<LocalRank> ranks;
  const auto [begin, end] = all.equal_range(launcher);
  for (auto child = begin; child != end; ++child) {
    const pid_t id = child->second.first;
    const std::optional<int> rank = rank_of(id, variables);  // a process that has ended has no environment
    if (!rank) continue;
    LocalRank found{*rank, id};
    std::vector<std::pair<pid_t, Process>> family = {child->second};
    for (size_t i = 0; i < family.size(); ++i) {
      const auto [member, state] = family[i];
      if (state.state == 'T') found.state = State::kStopped;
      if (found.state == State::kOther && has_thread(member, running)) found.state = State::kRunning;
      const auto [first, last] = all.equal_range(member);
      std::transform(first, last, std::back_inserter(family), [](const auto& entry) { return entry.second; });
    }
    ranks.push_back(found);
  }
  std::ranges::sort(ranks, {}, &LocalRank::rank);
  return ranks;
}

}  // namespace isochron::comm
