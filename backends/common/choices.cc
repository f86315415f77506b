#include "isochron/backends/common/choices.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "isochron/backends/common/choices_file.h"
#include "isochron/core/base/clock.h"
#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/event.h"

namespace isochron::ops {
namespace {

/// Candidates are timed in rounds, so that a temporarily busy machine slows all of them alike. After each
/// round, a candidate drops out if its best time exceeds this multiple of the overall best time. In the first
/// round, only candidates whose run the system did not interrupt can drop out.
constexpr double kTooSlow[] = {3, 2, 1.5, 1.3, 1.2, 1.2};
/// Extra time allowed in the first round, because first runs also set things up (threads, code pages,
/// caches).
constexpr double kSetUpNs = 1'000'000;
/// A candidate's time is known once two of its runs agree within this factor. On an otherwise idle machine,
/// that takes two rounds.
constexpr double kAgreement = 1.1;
constexpr int64_t kMaxNs = 100'000'000;  // no further round starts after this much time
/// Among the candidates within this factor of the fastest, the one that the rule prefers is chosen: such
/// differences may be noise, and the rule's order comes from experience.
constexpr double kNearTie = 1.12;

std::atomic<bool> g_deterministic{false};

using Choices = std::map<std::string, std::string>;

struct Record {
  std::mutex mutex;
  Choices made;    // in use: timed, taken from disk, restored
  Choices timed;   // the subset of `made` that was timed here and belongs on disk
  Choices stored;  // read from disk
  bool loaded = false;
  bool unsaved = false;
  bool writable = true;
};

Record& record() {
  static auto* const instance = new Record;  // must outlive the save at exit
  return *instance;
}

/// Arranges for new choices to be saved when the process ends and after a function has been captured and
/// planned, but at most once per second.
void save_by_itself() {
  static std::once_flag once;
  std::call_once(once, [] {
    add_event_sink([](const Event& event) {
      constexpr int64_t kPauseNs = 1'000'000'000;
      static std::atomic<int64_t> last_ns = -kPauseNs;
      if (event.kind != EventKind::kTrace || now_ns() - last_ns < kPauseNs) return;
      save_choices();
      last_ns = now_ns();
    });
    std::atexit(save_choices);
  });
}

/// Reads the file on the first call. Returns an error message, which is empty if there was no error.
std::string load(Record& r) {
  if (std::exchange(r.loaded, true)) return {};
  const std::filesystem::path path = choices_path();
  if (path.empty()) return {};
  try {
    r.stored = read_choices_file(path);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

/// Records a choice in memory. Returns false if the record is full.
bool remember(Record& r, const std::string& call, std::string_view name) {
  if (r.made.size() >= kMaxRecordedChoices && !r.made.contains(call)) return false;
  r.made[call] = name;
  return true;
}

/// Like `remember`, but also records the choice for the disk. It is marked as doubtful unless `sure` is true
/// or this is the second timing, i.e. the choice on disk is doubtful.
void remember_timed(Record& r, const std::string& call, std::string_view name, bool sure) {
  if (!remember(r, call, name)) return;
  const auto before = r.stored.find(call);
  const bool doubtful = !sure && (before == r.stored.end() || !before->second.ends_with(kDoubtful));
  r.timed[call] = doubtful ? fmt::format("{}{}", name, kDoubtful) : name;
  r.unsaved = true;
}

/// The index of the candidate recorded for `call`, or of the one on disk unless that is doubtful;
/// names.size() if there is none.
size_t recorded(const std::string& call, std::span<const std::string_view> names) {
  save_by_itself();
  Record& r = record();
  std::unique_lock lock(r.mutex);
  const std::string trouble = load(r);
  const auto index_in = [&](const Choices& choices) {
    const auto found = choices.find(call);
    if (found == choices.end()) return names.size();
    return static_cast<size_t>(std::find(names.begin(), names.end(), found->second) - names.begin());
  };
  const bool made = r.made.contains(call);
  const size_t index = index_in(made ? r.made : r.stored);
  lock.unlock();
  if (!trouble.empty()) {
    emit({EventKind::kNotice, "choices", fmt::format("choices on disk are ignored: {}", trouble)});
  }
  return index;
}

/// The number of involuntary context switches of this process's threads.
int64_t preemptions() {
  rusage usage;
  return ::getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nivcsw : 0;
}

struct Timing {
  double ns;
  bool undisturbed;
};

Timing time_once(const std::function<void()>& run) {
  const int64_t before = preemptions();
  const int64_t start = now_ns();
  run();
  return {static_cast<double>(now_ns() - start), preemptions() == before};
}

struct Candidate {
  size_t index;
  std::function<void()> run;
  double best_ns = std::numeric_limits<double>::max();
  bool undisturbed = false;  // at least one of its runs was undisturbed
  bool known = false;

  void time() {
    const double before_ns = best_ns;
    const Timing took = time_once(run);
    best_ns = std::min(best_ns, took.ns);
    undisturbed = undisturbed || took.undisturbed;
    known = undisturbed && (std::max(before_ns, took.ns) <= kAgreement * best_ns ||
                            (known && before_ns <= kAgreement * best_ns));
  }
};

struct Fastest {
  size_t index;
  bool sure = true;  // every candidate had a run that was not disturbed
};

/// The fastest of `count` candidates, or `count` if none supports the call.
Fastest fastest(size_t count, const std::function<std::function<void()>(size_t)>& prepare,
                const std::function<void()>& before_timing) {
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < count; ++i) {
    if (std::function<void()> run = prepare(i)) candidates.push_back({i, std::move(run)});
  }
  if (candidates.empty()) return {count};
  if (candidates.size() == 1) return {candidates[0].index};
  if (before_timing) before_timing();
  const int64_t start = now_ns();
  double best_ns = std::numeric_limits<double>::max();
  bool first = true;
  bool sure = true;
  for (const double too_slow : kTooSlow) {
    if (candidates.size() == 1 || std::ranges::all_of(candidates, &Candidate::known)) break;
    if (now_ns() - start > kMaxNs) break;
    for (Candidate& candidate : candidates) {
      candidate.time();
      best_ns = std::min(best_ns, candidate.best_ns);
    }
    const double most_ns = std::max(too_slow, kNearTie) * best_ns + (first ? kSetUpNs : 0);
    std::erase_if(candidates, [&](const Candidate& c) {
      const bool out = c.best_ns > most_ns && (c.undisturbed || !first);
      sure = sure && (!out || c.undisturbed);
      return out;
    });
    first = false;
  }
  sure = sure && std::ranges::all_of(candidates, &Candidate::undisturbed);
  const auto level = std::find_if(candidates.begin(), candidates.end(),
                                  [&](const Candidate& c) { return c.best_ns <= kNearTie * best_ns; });
  return {level == candidates.end() ? candidates[0].index : level->index, sure};
}

}  // namespace

void set_deterministic(bool on) { g_deterministic = on; }
bool deterministic() { return g_deterministic; }

size_t choose(const std::string& call, std::span<const std::string_view> names,
              const std::function<std::function<void()>(size_t)>& prepare,
              const std::function<void()>& before_timing) {
  if (deterministic()) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (prepare(i)) return i;
    }
    return names.size();
  }
  if (const size_t known = recorded(call, names); known < names.size() && prepare(known)) {
    const std::lock_guard lock(record().mutex);
    remember(record(), call, names[known]);
    return known;
  }
  const Fastest best = fastest(names.size(), prepare, before_timing);
  if (best.index < names.size()) {
    const std::lock_guard lock(record().mutex);
    remember_timed(record(), call, names[best.index], best.sure);
  }
  return best.index;
}

Choices recorded_choices() {
  const std::lock_guard lock(record().mutex);
  return record().made;
}

void restore_choices(const Choices& choices) {
  const std::lock_guard lock(record().mutex);
  for (const auto& [call, name] : choices) {
    remember(record(), call, name);
    record().timed.erase(call);
  }
}

void forget_choices() {
  Record& r = record();
  const std::lock_guard lock(r.mutex);
  r.made.clear();
  r.timed.clear();
  r.stored.clear();
  r.loaded = r.unsaved = false;
  r.writable = true;
}

namespace {

/// The choices to write to disk, at most kMaxRecordedChoices: first those timed here, then those on disk that
/// were used here, then the rest.
Choices to_save(const Record& r, Choices there) {
  Choices result = r.timed;
  for (const auto& [call, name] : r.stored) there.emplace(call, name);
  for (const bool used : {true, false}) {
    for (const auto& [call, name] : there) {
      if (result.size() < kMaxRecordedChoices && r.made.contains(call) == used) result.emplace(call, name);
    }
  }
  return result;
}

}  // namespace

void save_choices() {
  Record& r = record();
  const std::lock_guard lock(r.mutex);
  const std::filesystem::path path = choices_path();
  if (!r.unsaved || !r.writable || path.empty()) return;
  r.unsaved = false;
  Choices there;
  try {
    there = read_choices_file(path);
  } catch (const Error&) {
    // An unreadable file is replaced. `load` has reported it, unless another process damaged it since then.
  }
  try {
    write_choices_file(path, to_save(r, std::move(there)));
  } catch (const Error&) {
    r.writable = false;
  }
}

}  // namespace isochron::ops
