#include "isochron/apps/doctor_ranks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include "isochron/comm/launch/join.h"
#include "isochron/comm/launch/launch.h"
#include "isochron/core/base/error.h"
#include "isochron/core/process/cores.h"
#include "isochron/core/text/count_text.h"

namespace isochron::apps {
namespace {

namespace fs = std::filesystem;

std::string module_text(const comm::ModuleState& module) {
  if (!module.problem.empty()) return module.problem;
  if (!module.path.empty()) return fmt::format("{}, module {}", module.version, module.path);
  if (module.built)
    return fmt::format("its module was not found in {}", fmt::join(comm::module_folders(), ", "));
  return fmt::format("no module: it was not found when this program was built (package {})", module.package);
}

std::vector<DoctorRow> module_rows() {
  const std::vector<comm::ModuleState> modules = comm::module_states();
  const bool any = std::ranges::any_of(
      modules, [](const comm::ModuleState& module) { return module.built || !module.path.empty(); });
  if (!any)
    return {{"MPI",
             "built without MPI, so training takes one process; for more, install libopenmpi-dev or "
             "libmpich-dev, configure and build again"}};
  std::vector<DoctorRow> rows;
  for (const comm::ModuleState& module : modules) rows.push_back({module.spelled, module_text(module)});
  return rows;
}

/// The path at which a shell finds a command, and in brackets the file that links lead to.
std::string command_text(std::string_view name) {
  const char* const path = std::getenv("PATH");
  for (std::string_view rest = path != nullptr ? path : ""; !rest.empty();) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const fs::path file = fs::path(rest.substr(0, end)) / name;
    rest.remove_prefix(std::min(end + 1, rest.size()));
    std::error_code none;
    if (!fs::is_regular_file(file, none) || ::access(file.c_str(), X_OK) != 0) continue;
    const fs::path target = fs::canonical(file, none);
    return none || target == file ? file.string() : fmt::format("{} ({})", file.string(), target.string());
  }
  return "not on PATH";
}

/// "0-3,6".
std::string list_text(const std::vector<int>& cores) {
  std::string text;
  for (size_t i = 0; i < cores.size();) {
    size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cores[i]);
    if (last > i) text += fmt::format("-{}", cores[last]);
    i = last + 1;
  }
  return text;
}

/// The number of cores that this machine's ranks share: the cores of the machine's first process, which a
/// container may limit but a launcher doesn't bind; at most the quota.
int cores_of_machine(const observe::MachineDescription& machine) {
  const auto first = static_cast<int>(usable_cores(1).size());
  const int cores = first > 0 ? first : machine.cores;
  return machine.core_quota ? std::clamp(static_cast<int>(*machine.core_quota), 1, cores) : cores;
}

struct Share {
  std::vector<int> own;
  int all = 0;
  int equal = 1;
};

std::string share_text(const comm::Launch& launch, const Share& share) {
  const int threads = comm::threads_of_rank(launch);
  return fmt::format("{} of {} ({}); an equal share is {}; trains on {}", share.own.size(), share.all,
                     list_text(share.own), share.equal, count_text(threads, "thread"));
}

/// Advice for a rank with fewer cores than its share; empty otherwise.
std::string bound_text(const comm::Launch& launch, const Share& share) {
  if (share.own.empty() || static_cast<int>(share.own.size()) >= share.equal) return "";
  const bool slurm = launch.launcher.starts_with("Slurm");
  return fmt::format("this rank is bound to {}, but an equal share would be {}: start the ranks with {}",
                     count_text(share.own.size(), "core"), share.equal,
                     slurm ? "srun --cpu-bind=none, and enough --cpus-per-task" : "mpirun --bind-to none");
}

void add_launch(const comm::Launch& launch, const observe::MachineDescription& machine,
                LaunchReport& report) {
  const int all = cores_of_machine(machine);
  const Share share{usable_cores(), all, std::max(1, all / launch.local_size)};
  const std::string bound = bound_text(launch, share);
  report.first = launch.rank == 0;
  report.line = fmt::format("rank {} of {}: cores {}{}{}", launch.rank, launch.size,
                            share_text(launch, share), bound.empty() ? "" : "; ", bound);
  if (!report.first) return;
  report.rows.push_back({"started by", launch.launcher});
  report.rows.push_back({"rank", fmt::format("{} of {}, on this machine {} of {}", launch.rank, launch.size,
                                             launch.local_rank, launch.local_size)});
  report.rows.push_back({"cores of this rank", share_text(launch, share)});
  if (!bound.empty()) report.advice.push_back(bound);
  if (launch.size == 1) return;
  try {
    comm::module_path(launch);
  } catch (const Error& error) {
    report.advice.push_back(std::string(error.text()));
  }
}

}  // namespace

LaunchReport launch_report(const observe::MachineDescription& machine) {
  LaunchReport report;
  try {
    if (const std::optional<comm::Launch> launch = comm::detect_launch()) {
      add_launch(*launch, machine, report);
    } else {
      const char* const choice = std::getenv("ISOCHRON_MPI");
      const bool off = choice != nullptr && std::string_view(choice) == "off";
      report.rows.push_back(
          {"started by", off ? "not checked (ISOCHRON_MPI=off)" : "no launcher: this process is alone"});
    }
  } catch (const Error& error) {
    report.rows.push_back({"started by", error.what()});
  }
  if (!report.first) return report;
  std::vector<DoctorRow> rows = module_rows();
  for (const char* name : {"mpirun", "mpirun.openmpi", "mpirun.mpich", "srun"})
    rows.push_back({name, command_text(name)});
  report.rows.insert(report.rows.begin(), rows.begin(), rows.end());
  return report;
}

}  // namespace isochron::apps
