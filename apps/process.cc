#include "isochron/apps/process.h"

#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>

#include "isochron/apps/commands.h"
#include "isochron/core/base/error.h"
#include "isochron/core/files/leftovers.h"
#include "isochron/core/process/standard_streams.h"
#include "isochron/core/process/stop_signals.h"

namespace isochron::apps {
namespace {

// More than libraries ask for at once, which is some MB.
constexpr size_t kSpareBytes = size_t{16} << 20;
constexpr size_t kHandlerStackBytes = size_t{64} << 10;

pid_t g_process = 0;
volatile bool g_ended = false;
alignas(16) std::array<char, kHandlerStackBytes> g_handler_stack;

/// Writes to standard error. Safe in a signal handler.
void say(std::string_view text) {
  const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
  static_cast<void>(ignored);
}

[[noreturn]] void end_out_of_memory(std::string_view sentence) {
  remove_leftovers();
  say(sentence);
  ::_exit(kOutOfMemory);
}

void end_by(int signal) {
  if (::getpid() != g_process) {  // a worker; its caller gets the signal too
    ::signal(signal, SIG_DFL);
    ::raise(signal);
    return;
  }
  remove_leftovers();
  say("isochron: ended by ");
  say(StopSignals::name(signal));
  say("\n");
  ::_exit(128 + signal);
}

/// Removes temporary files and ends the process with the status of SIGPIPE.
void end_unread() {
  if (::getpid() != g_process) return;
  remove_leftovers();
  ::_exit(128 + SIGPIPE);
}

bool memory_is_short() {
  void* spare = ::mmap(nullptr, kSpareBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (spare == MAP_FAILED) return true;
  ::munmap(spare, kSpareBytes);
  return false;
}

/// Ends the process after a fault. If memory is short, a library probably used a null pointer after a failed
/// allocation; otherwise the fault is reported as usual.
void end_by_fault(int signal) {
  ::signal(signal, SIG_DFL);
  if (memory_is_short())
    end_out_of_memory("isochron: the system has no memory left, and a library failed because of that\n");
  ::raise(signal);  // delivered when this returns
}

[[noreturn]] void end_by_exception() {
  try {
    if (const std::exception_ptr present = std::current_exception()) std::rethrow_exception(present);
  } catch (const std::bad_alloc&) {
    end_out_of_memory("isochron: the system has no memory left\n");
  } catch (const std::system_error& error) {
    if (is_want_of_memory(error.code()))
      end_out_of_memory("isochron: the system has no memory or threads left\n");
  } catch (...) {
  }
  if (memory_is_short()) end_out_of_memory("isochron: the system has no memory left\n");
  std::abort();
}

/// Called at exit. libgomp ends the process if it can't get the memory or threads that it needs.
void end_by_library() {
  if (g_ended) return;
  end_out_of_memory("isochron: a library ended the process because it could not get memory or threads\n");
}

void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);
  if ((action.sa_flags & SA_SIGINFO) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = handler;
  action.sa_flags = flags;
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

void begin_process() {
  g_process = ::getpid();
  Leftover::prepare();
  std::atexit(end_by_library);
  std::set_terminate(end_by_exception);
  ::signal(SIGXFSZ, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) handle(signal, end_by, SA_RESTART);
  stack_t stack{};
  stack.ss_sp = g_handler_stack.data();
  stack.ss_size = g_handler_stack.size();
  ::sigaltstack(&stack, nullptr);
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT}) handle(signal, end_by_fault, SA_ONSTACK);
  // Makes glibc load its unwinding library now: the end of a thread needs it, and would abort if there were
  // no memory to load it.
  void* frame = nullptr;
  static_cast<void>(::backtrace(&frame, 1));
  escape_standard_streams(end_unread);
}

void end_process() { g_ended = true; }

}  // namespace isochron::apps
