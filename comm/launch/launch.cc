#include "isochron/comm/launch/launch.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "isochron/comm/mpi/module.h"
#include "isochron/core/base/error.h"
#include "isochron/core/files/program_folder.h"
#include "isochron/core/text/count_text.h"

namespace isochron::comm {

namespace {

namespace fs = std::filesystem;

constexpr const char* kChoice = "ISOCHRON_MPI";
constexpr const char* kModulePath = "ISOCHRON_MPI_MODULE_PATH";

struct Mpi {
  std::string_view name;
  std::string_view spelled;
  std::string_view mpirun;
  std::string_view package;
};
constexpr Mpi kMpis[] = {{"openmpi", "Open MPI", "mpirun.openmpi", "libopenmpi-dev"},
                         {"mpich", "MPICH", "mpirun.mpich", "libmpich-dev"}};

const Mpi& mpi_of(std::string_view name) {
  for (const Mpi& mpi : kMpis) {
    if (mpi.name == name) return mpi;
  }
  fail(ErrorCode::kInvalidArgument, "mpi", "'{}' is not a known MPI; use openmpi or mpich", name);
}

std::string module_name(const Mpi& mpi) { return fmt::format("libisochron_{}.so", mpi.name); }

/// Null if it is unset or empty.
const char* variable(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

std::optional<int> number_in(std::string_view text, int least) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least) return std::nullopt;
  return value;
}

/// The value of the first of `names` that is set.
std::optional<int> number(std::initializer_list<const char*> names, int least) {
  for (const char* name : names) {
    const char* const text = variable(name);
    if (text == nullptr) continue;
    const std::optional<int> value = number_in(text, least);
    require(value.has_value(), ErrorCode::kInvalidArgument, name,
            "'{}' is not a whole number of at least {}; start the program with mpirun or srun, or set {}=off",
            text, least, kChoice);
    return value;
  }
  return std::nullopt;
}

int needed(std::initializer_list<const char*> names, int least, const char* present) {
  const std::optional<int> value = number(names, least);
  require(value.has_value(), ErrorCode::kInvalidArgument, *names.begin(),
          "isn't set, but {} is; start the program with mpirun or srun, or set {}=off", present, kChoice);
  return *value;
}

/// The entry for this machine in a list such as "2(x3),1", which holds the tasks per node, in node order.
std::optional<int> slurm_local_size() {
  const char* list = variable("SLURM_STEP_TASKS_PER_NODE");
  if (list == nullptr) list = variable("SLURM_TASKS_PER_NODE");
  const std::optional<int> node = number({"SLURM_NODEID"}, 0);
  if (list == nullptr || !node) return std::nullopt;
  int64_t first = 0;  // first node of the entry
  for (std::string_view rest = list; !rest.empty();) {
    std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    int times = 1;
    if (const size_t bracket = entry.find("(x"); bracket != std::string_view::npos && entry.ends_with(')')) {
      const auto repeated = number_in(entry.substr(bracket + 2, entry.size() - bracket - 3), 1);
      if (!repeated) return std::nullopt;
      times = *repeated;
      entry = entry.substr(0, bracket);
    }
    if (*node < first + times) return number_in(entry, 1);
    first += times;
  }
  return std::nullopt;
}

Launch with_local(Launch launch, std::optional<int> local_rank, std::optional<int> local_size) {
  if (local_rank && local_size) {
    launch.local_rank = *local_rank;
    launch.local_size = *local_size;
  }
  return launch;
}

std::optional<Launch> from_open_mpi() {
  constexpr const char* kSize = "OMPI_COMM_WORLD_SIZE";
  if (variable(kSize) == nullptr) return std::nullopt;
  return with_local({.mpi = "openmpi",
                     .launcher = fmt::format("Open MPI's mpirun ({})", kSize),
                     .rank = needed({"OMPI_COMM_WORLD_RANK"}, 0, kSize),
                     .size = needed({kSize}, 1, kSize)},
                    number({"OMPI_COMM_WORLD_LOCAL_RANK"}, 0), number({"OMPI_COMM_WORLD_LOCAL_SIZE"}, 1));
}

std::optional<Launch> from_pmi() {
  constexpr const char* kRank = "PMI_RANK";
  if (variable(kRank) == nullptr) return std::nullopt;
  const bool slurm = variable("SLURM_PROCID") != nullptr && variable("MPI_LOCALRANKID") == nullptr;
  return with_local({.mpi = "mpich",
                     .launcher = fmt::format("{} ({})", slurm ? "Slurm's srun" : "MPICH's mpirun", kRank),
                     .rank = needed({kRank}, 0, kRank),
                     .size = needed({"PMI_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, 1, kRank)},
                    number({slurm ? "SLURM_LOCALID" : "MPI_LOCALRANKID"}, 0),
                    slurm ? slurm_local_size() : number({"MPI_LOCALNRANKS"}, 1));
}

/// For srun --mpi=pmix. If no PMI variable is set, the processes that srun started may have nothing to do
/// with MPI.
std::optional<Launch> from_pmix() {
  constexpr const char* kRank = "PMIX_RANK";
  if (variable(kRank) == nullptr || from_open_mpi()) return std::nullopt;
  return with_local({.mpi = "openmpi",
                     .launcher = fmt::format("Slurm's srun ({})", kRank),
                     .rank = needed({kRank}, 0, kRank),
                     .size = needed({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, 1, kRank)},
                    number({"SLURM_LOCALID"}, 0), slurm_local_size());
}

void* load(const std::string& path, const Mpi& mpi) {
  // RTLD_GLOBAL, because MPI components that the module loads may need its symbols. The module is never
  // unloaded, because MPI can't be unloaded safely.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    const char* const reason = dlerror();
    fail(ErrorCode::kUnsupported, "mpi", "{} can't be loaded: {}; is {} installed?", path,
         reason != nullptr ? reason : "unknown", mpi.spelled);
  }
  return library;
}

template <typename Function>
Function* function_of(void* library, const std::string& path, const char* name) {
  void* const function = dlsym(library, name);
  require(function != nullptr, ErrorCode::kUnsupported, "mpi",
          "{} belongs to another version of isochron: it has no {}; rebuild it together with this program",
          path, name);
  return reinterpret_cast<Function*>(function);
}

/// Empty if none of the folders contains it.
std::string find_module(const Mpi& mpi, const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    const fs::path path = fs::path(folder) / module_name(mpi);
    std::error_code none;
    if (fs::exists(path, none)) return path.string();
  }
  return "";
}

constexpr char kLoads = '+', kFails = '-';  // start of the child's answer: a version or a reason follows
constexpr unsigned kMaxSeconds = 10;

/// Runs in the child process.
std::string try_module(const std::string& path, const Mpi& mpi) {
  try {
    void* const library = load(path, mpi);
    function_of<OpenMpiFunction>(library, path, kOpenMpiFunction);
    char version[256] = {};
    function_of<MpiVersionFunction>(library, path, kMpiVersionFunction)(version, sizeof version);
    return kLoads + std::string(version);
  } catch (const Error& error) {
    return kFails + std::string(error.text());
  }
}

/// Runs try_module in a child process and returns its result.
std::string tried_by_child(const std::string& path, const Mpi& mpi) {
  const auto failed = [&](const std::string& why) {
    return fmt::format("{}{} can't be loaded: {}", kFails, path, why);
  };
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return failed(std::strerror(errno));
  const pid_t child = fork();
  if (child == 0) {
    alarm(kMaxSeconds);
    const std::string text = try_module(path, mpi);
    _exit(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  const int fork_error = errno;
  close(ends[1]);
  std::string text;
  char part[512];
  for (ssize_t count = 0; child > 0 && (count = read(ends[0], part, sizeof part)) > 0;)
    text.append(part, static_cast<size_t>(count));
  close(ends[0]);
  if (child < 0) return failed(std::strerror(fork_error));
  int status = 0;
  waitpid(child, &status, 0);
  if (!text.empty()) return text;
  return failed(WIFSIGNALED(status)
                    ? fmt::format("signal {} ended the process that tried to load it", WTERMSIG(status))
                    : "the process that tried to load it has ended");
}

}  // namespace

std::optional<Launch> detect_launch() {
  const char* const choice = variable(kChoice);
  const std::string_view wanted = choice != nullptr ? choice : "";
  if (wanted == "off") return std::nullopt;
  require(wanted.empty() || wanted == "openmpi" || wanted == "mpich", ErrorCode::kInvalidArgument, kChoice,
          "'{}' is not a known MPI; set it to openmpi, mpich or off", wanted);
  std::optional<Launch> found;
  for (auto* const reader : {&from_open_mpi, &from_pmi, &from_pmix}) {
    std::optional<Launch> launch = reader();
    if (!launch) continue;
    // If one launcher runs within another, the choice says which one is meant.
    const bool chosen = launch->mpi == wanted;
    if (!found || chosen) found = std::move(launch);
    if (chosen || wanted.empty()) break;
  }
  if (!found) return std::nullopt;
  require(found->rank < found->size, ErrorCode::kInvalidArgument, "mpi",
          "{} reports rank {} of {}, but ranks are counted from 0", found->launcher, found->rank,
          found->size);
  require(found->local_rank < found->local_size && found->local_size <= found->size,
          ErrorCode::kInvalidArgument, "mpi",
          "{} reports rank {} of {} on this machine, of {} in total; these numbers contradict each other",
          found->launcher, found->local_rank, found->local_size, found->size);
  if (!wanted.empty()) found->mpi = wanted;
  return found;
}

std::vector<std::string> module_folders() {
  std::vector<std::string> folders;
  const auto add = [&](const fs::path& folder) {
    std::string text = folder.lexically_normal().string();
    if (std::ranges::find(folders, text) == folders.end()) folders.push_back(std::move(text));
  };
  if (const char* const path = variable(kModulePath)) {
    for (std::string_view rest = path; !rest.empty();) {
      const std::string_view folder = rest.substr(0, rest.find(':'));
      if (!folder.empty()) add(folder);
      rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
    }
  }
  if (const fs::path folder = program_folder(); !folder.empty()) {
    add(beside_program(ISOCHRON_LIBRARY_FOLDER) / "isochron");
    add(beside_program("lib") / "isochron");
    add(folder / "lib" / "isochron");
  }
  add(ISOCHRON_MODULES_BUILT);
  add(ISOCHRON_MODULES_INSTALLED);
  return folders;
}

std::string module_path(const Launch& launch, const std::vector<std::string>& folders) {
  const Mpi& mpi = mpi_of(launch.mpi);
  if (std::string path = find_module(mpi, folders); !path.empty()) return path;
  fail(ErrorCode::kUnsupported, "mpi",
       "{} has started this process, but the module for {} was not found: {} is in none of {}; install {}, "
       "then configure and build isochron again, or set {} to the module's folder; {}=off runs each process "
       "alone",
       launch.launcher, mpi.spelled, module_name(mpi), fmt::join(folders, ", "), mpi.package, kModulePath,
       kChoice);
}

std::vector<ModuleState> module_states(const std::vector<std::string>& folders) {
  constexpr std::string_view kBuilt = ISOCHRON_MPI_FOUND;
  std::vector<ModuleState> states;
  for (const Mpi& mpi : kMpis) {
    ModuleState& state = states.emplace_back();
    state.spelled = mpi.spelled;
    state.package = mpi.package;
    state.built = kBuilt.find(mpi.name) != std::string_view::npos;
    state.path = find_module(mpi, folders);
    if (state.path.empty()) continue;
    const std::string said = tried_by_child(state.path, mpi);
    (said.front() == kLoads ? state.version : state.problem) = said.substr(1);
  }
  return states;
}

std::unique_ptr<Communicator> open_launched(const Launch& launch) {
  const Mpi& mpi = mpi_of(launch.mpi);
  const std::string path = module_path(launch);
  std::unique_ptr<Communicator> communicator(
      function_of<OpenMpiFunction>(load(path, mpi), path, kOpenMpiFunction)());
  const int size = communicator->size();
  if (size == launch.size) return communicator;
  const std::string library = communicator->description();
  communicator.reset();
  fail(ErrorCode::kCommunication, "mpi",
       "{} finds {}, but {} has started {}: the launcher belongs to another MPI; start the program "
       "with {}, or select the launcher's MPI with {}",
       library, count_text(size, "rank"), launch.launcher, launch.size, mpi.mpirun, kChoice);
}

}  // namespace isochron::comm
