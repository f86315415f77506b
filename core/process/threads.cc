#include "isochron/core/process/threads.h"

#include <immintrin.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "isochron/core/base/error.h"
#include "isochron/core/process/cores.h"
#include "isochron/core/process/team.h"
#include "isochron/core/telemetry/sealed.h"
#include "isochron/core/telemetry/trace.h"

namespace isochron {
namespace {

constexpr unsigned kFlushBits = 0x8040;  // FTZ | DAZ in MXCSR

/// Respects OMP_THREAD_LIMIT, because libraries compute wrong results in a team that is smaller than
/// requested.
int most_threads() { return std::clamp(omp_get_thread_limit(), 1, kMaxComputeThreads); }

int default_threads() {
  if (const char* text = std::getenv("ISOCHRON_THREADS")) {
    int value = 0;
    const char* end = text + std::strlen(text);
    const auto [stop, error] = std::from_chars(text, end, value);
    require(error == std::errc() && stop == end && value >= 1 && value <= most_threads(),
            ErrorCode::kInvalidArgument, "ISOCHRON_THREADS", "expected an integer in [1, {}], got '{}'",
            most_threads(), text);
    return value;
  }
  return std::clamp(core_share(), 1, std::min(most_threads(), 64));
}

std::atomic<int>& thread_setting() {
  static std::atomic<int> setting{default_threads()};
  return setting;
}

thread_local int64_t t_parallel_loops = 0;
constinit TraceLabel kPart(TraceCategory::kTeam, "part of a parallel loop");

}  // namespace

int compute_threads() { return full_team() ? thread_setting().load(std::memory_order_relaxed) : 1; }

bool full_team() {
  omp_set_dynamic(0);
  return !omp_in_parallel() && omp_get_max_active_levels() >= 1;
}

void set_compute_threads(int threads) {
  require(threads >= 1 && threads <= most_threads(), ErrorCode::kInvalidArgument, "set_compute_threads",
          "expected a count in [1, {}], got {}", most_threads(), threads);
  thread_setting().store(threads);
}

void flush_subnormals_to_zero() {
  if (!subnormals_flushed()) _mm_setcsr(_mm_getcsr() | kFlushBits);  // writing takes longer than reading
}

int64_t core_wait_ns(int id) {
  std::ifstream file("/proc/self/task/" + std::to_string(id) + "/schedstat");
  std::string text;
  std::getline(file, text);
  return parse_core_wait_ns(text);
}

bool subnormals_flushed() { return (_mm_getcsr() & kFlushBits) == kFlushBits; }

int64_t parallel_loops_begun() { return t_parallel_loops; }

namespace internal {

void parallel_ranges(int threads, int64_t count, RangeFunction function, void* context) {
  make_team(threads);
  ++t_parallel_loops;
  struct Loop {
    int64_t count;
    RangeFunction function;
    void* context;
    Seal* seal;
  } loop{count, function, context, t_seal};
  const auto part = [](void* of) {
    const Loop& all = *static_cast<const Loop*>(of);
    const SealedSection section(all.seal);  // the team works for the loop's thread
    flush_subnormals_to_zero();
    const int64_t team = omp_get_num_threads();
    const int64_t rank = omp_get_thread_num();
    const int64_t begin = all.count * rank / team;
    const int64_t end = all.count * (rank + 1) / team;
    const TraceSpan span(kPart, end - begin);
    if (begin < end) all.function(all.context, begin, end);
  };
  run_on_team(threads, part, &loop);
}

}  // namespace internal
}  // namespace isochron
