#include "isochron/observe/interleaved/worker.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "isochron/core/base/clock.h"
#include "isochron/core/base/error.h"
#include "isochron/core/files/leftovers.h"
#include "isochron/core/process/cores.h"
#include "isochron/core/process/heap.h"

namespace isochron::observe {
namespace {

/// The message that the caller sends.
struct Order {
  int64_t turn_ns = 0;  // or kEndWork or kTellMore
  int64_t anew = 0;
};
constexpr int64_t kEndWork = 0, kTellMore = -1;

/// The worker's answer, which is followed by `bytes` of text.
enum class Answer : int64_t { kTurnIsOver, kSnapshot, kResult, kError };
struct Head {
  Answer answer{};
  TurnTimes times = {};   // for kTurnIsOver
  int64_t run_ended = 0;  // for kTurnIsOver
  int64_t code = 0;       // for kError
  int64_t bytes = 0;
};

int64_t g_paused_ns = 0, g_turn = 0;

/// False at the end of the stream.
bool read_all(int channel, void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = read(channel, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

bool write_all(int channel, const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = ::send(channel, at, bytes, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    bytes -= static_cast<size_t>(put);
  }
  return true;
}

void answer(int channel, Head head, const std::string& text = "") {
  head.bytes = static_cast<int64_t>(text.size());
  // Without a caller there is nobody to report to and no reason to continue.
  if (!write_all(channel, &head, sizeof head) || !write_all(channel, text.data(), text.size())) _exit(1);
}

void answer_error(int channel, const std::exception& error) {
  const auto* own = dynamic_cast<const Error*>(&error);
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  const std::string where = own != nullptr ? own->where() : "worker";
  std::string text = error.what();
  if (own != nullptr) text.erase(0, where.size() + 3);  // "[where] "
  if (no_memory) text = "the system has no memory left";
  const ErrorCode code = own != nullptr ? own->code()
                         : no_memory    ? ErrorCode::kOutOfMemory
                                        : ErrorCode::kUnsupported;
  answer(channel, {.answer = Answer::kError, .code = static_cast<int64_t>(code)}, where + "\n" + text);
}

/// Forks a copy of this process, which answers and exits.
void answer_from_copy(int channel, const std::function<std::string()>& snapshot) {
  const pid_t copy = fork();
  if (copy < 0) {
    return answer_error(channel, Error(ErrorCode::kIo, "worker", "cannot start a process for a snapshot"));
  }
  if (copy > 0) {
    waitpid(copy, nullptr, 0);
    return;
  }
  try {
    answer(channel, {.answer = Answer::kSnapshot}, snapshot());
  } catch (const std::exception& error) {
    answer_error(channel, error);
  }
  _exit(0);
}

/// Pins the thread with this id to `cores`.
void keep_on(pid_t thread, const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  sched_setaffinity(thread, sizeof set, &set);  // may fail
}

void place_threads(pid_t process, int core, const std::vector<int>& cores) {
  std::vector<int> others = cores;
  if (cores.size() > 1) std::erase(others, core);
  std::error_code none;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process), none)) {
    const auto thread = static_cast<pid_t>(std::stol(task.path().filename()));
    keep_on(thread, core >= 0 && thread == process ? std::vector{core} : others);
  }
}

}  // namespace

int64_t running_ns() { return now_ns() - g_paused_ns; }

StandStill::StandStill() : began_ns_(now_ns()) {}

StandStill::~StandStill() {
  g_paused_ns += now_ns() - began_ns_;
  ++g_turn;
}

void TurnSensors::read_slow(SensorReading& reading) {
  sensors_.read_slow(reading);
  const SensorReading before = std::exchange(real_, reading);
  if (std::exchange(turn_, g_turn) == g_turn) {
    own_.stolen_ns += reading.stolen_ns - before.stolen_ns;
    if (reading.thermal_throttles != kUnknownReading)
      own_.thermal_throttles += reading.thermal_throttles - before.thermal_throttles;
  }
  reading.stolen_ns = own_.stolen_ns;
  if (reading.thermal_throttles != kUnknownReading) reading.thermal_throttles = own_.thermal_throttles;
}

bool Turns::wait(const std::function<std::string()>& snapshot) {
  Order order{.turn_ns = kTellMore};
  {
    const StandStill pause;
    answer(channel_, {.answer = Answer::kTurnIsOver, .times = log_.take(), .run_ended = run_ended_});
    while (order.turn_ns == kTellMore) {
      if (!read_all(channel_, &order, sizeof order)) _exit(1);
      if (order.turn_ns == kTellMore) answer_from_copy(channel_, snapshot);
    }
  }
  until_ns_ = running_ns() + order.turn_ns;
  anew_ = order.anew != 0;
  return order.turn_ns != kEndWork;
}

void stay_on(int core, const std::vector<int>& cores) { place_threads(getpid(), core, cores); }

std::vector<int> cores() {
  std::vector<int> usable = usable_cores();
  if (usable.empty()) usable.push_back(0);
  return usable;
}

struct Worker::Message {
  Head head;
  std::string text;
};

Worker::Worker(const Work& work) {
  std::array<int, 2> ends{};
  const int made = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data());
  require(made == 0, ErrorCode::kIo, "worker", "cannot create a channel to the process: {}",
          std::strerror(errno));
  output_ = memfd_create("output", MFD_CLOEXEC);
  require(output_ >= 0, ErrorCode::kIo, "worker", "cannot create the file for its output: {}",
          std::strerror(errno));
  std::fflush(nullptr);  // else both processes would print it
  Leftover::prepare();
  const pid_t caller = getpid();
  process_ = fork();
  require(process_ >= 0, ErrorCode::kOutOfMemory, "worker", "cannot start another process: {}",
          std::strerror(errno));
  if (process_ > 0) {
    close(ends[1]);
    channel_ = ends[0];
    await();
    return;
  }
  close(ends[0]);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // A terminal sends these signals to both processes. The caller handles them and ends this process.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
  if (getppid() != caller) _exit(1);
  dup2(output_, STDOUT_FILENO);
  give_back_free_heap();
  try {
    Turns turns(ends[1]);
    if (!turns.wait([] { return std::string(); })) _exit(0);
    const std::string result = work(turns);
    std::fflush(nullptr);
    answer(ends[1], {.answer = Answer::kResult}, result);
  } catch (const std::exception& error) {
    std::fflush(nullptr);
    answer_error(ends[1], error);
  }
  _exit(0);  // the caller must destroy the objects that it created
}

Worker::~Worker() {
  if (process_ > 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    remove_leftovers_of(process_);
  }
  close(channel_);
  close(output_);
}

void Worker::send(int64_t turn_ns, bool anew) {
  const Order order{turn_ns, anew};
  kill(process_, SIGCONT);
  write_all(channel_, &order, sizeof order);  // a process that died is detected by its missing answer
}

Worker::Message Worker::receive() {
  Message message;
  bool whole = read_all(channel_, &message.head, sizeof message.head);
  if (whole) {
    message.text.resize(static_cast<size_t>(message.head.bytes));
    whole = read_all(channel_, message.text.data(), message.text.size());
  }
  if (!whole) {
    ended_ = true;
    int status = 0;
    waitpid(process_, &status, 0);
    remove_leftovers_of(std::exchange(process_, 0));
    require(!WIFEXITED(status) || WEXITSTATUS(status) != isochron::exit_code(ErrorCode::kOutOfMemory),
            ErrorCode::kOutOfMemory, "worker", "its process ran out of memory");
    fail(ErrorCode::kIo, "worker", "its process ended without a result{}",
         WIFSIGNALED(status) ? fmt::format(", by signal {}", WTERMSIG(status)) : std::string());
  }
  if (message.head.answer == Answer::kError) {
    ended_ = true;
    const size_t end = message.text.find('\n');  // end of the place where it was thrown
    throw Error(static_cast<ErrorCode>(message.head.code), message.text.substr(0, end),
                message.text.substr(end + 1));
  }
  return message;
}

TurnTimes Worker::await() {
  Message message = receive();
  if (message.head.answer == Answer::kResult) {
    ended_ = true;
    result_ = std::move(message.text);
    return {};
  }
  kill(process_, SIGSTOP);
  run_ended_ = message.head.run_ended != 0;
  return message.head.times;
}

TurnTimes Worker::run(double seconds, bool anew) {
  send(static_cast<int64_t>(seconds * 1e9), anew);
  return await();
}

void Worker::stay_on(int core, const std::vector<int>& cores) {
  if (process_ > 0) place_threads(process_, core, cores);
}

std::string Worker::snapshot() {
  send(kTellMore);
  std::string text = receive().text;
  kill(process_, SIGSTOP);
  return text;
}

std::string Worker::finish() {
  while (!ended_) {
    send(kEndWork);
    await();
  }
  return result_;
}

std::string Worker::printed() const {
  std::string text;
  std::array<char, 4096> part{};
  for (off_t at = 0;;) {
    const ssize_t got = pread(output_, part.data(), part.size(), at);
    if (got <= 0) return text;
    text.append(part.data(), static_cast<size_t>(got));
    at += got;
  }
}

}  // namespace isochron::observe
