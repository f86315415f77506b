#include "isochron/ops/choices.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>

#include "isochron/core/clock.h"

namespace isochron::ops {
namespace {

/// Each candidate runs so many times; it is dropped when after a run its best time is more than this times
/// the best candidate's. The first run also allocates and sets up, so only the hopeless end there.
constexpr double kHopeless[] = {4, 1.25, 1};

std::atomic<bool> g_deterministic{false};
std::mutex g_mutex;

std::map<std::string, std::string>& record() {
  static auto* const choices = new std::map<std::string, std::string>;
  return *choices;
}

void remember(const std::string& call, std::string_view name) {
  const std::lock_guard lock(g_mutex);
  if (record().size() < kMaxRecordedChoices || record().contains(call)) record()[call] = name;
}

/// The recorded candidate of `call`, or names.size().
size_t recorded(const std::string& call, std::span<const std::string_view> names) {
  const std::lock_guard lock(g_mutex);
  const auto found = record().find(call);
  if (found == record().end()) return names.size();
  return static_cast<size_t>(std::find(names.begin(), names.end(), found->second) - names.begin());
}

int64_t time_once(const std::function<void()>& run) {
  const int64_t start = now_ns();
  run();
  return now_ns() - start;
}

}  // namespace

void set_deterministic(bool on) { g_deterministic = on; }
bool deterministic() { return g_deterministic; }

size_t choose(const std::string& call, std::span<const std::string_view> names,
              const std::function<std::function<void()>(size_t)>& prepare) {
  if (deterministic()) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (prepare(i)) return i;
    }
    return names.size();
  }
  if (const size_t known = recorded(call, names); known < names.size() && prepare(known)) return known;
  size_t best = names.size();
  int64_t best_ns = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < names.size(); ++i) {
    const std::function<void()> run = prepare(i);
    if (!run) continue;
    int64_t fastest = std::numeric_limits<int64_t>::max();
    for (const double hopeless : kHopeless) {
      fastest = std::min(fastest, time_once(run));
      if (best < names.size() && static_cast<double>(fastest) > hopeless * static_cast<double>(best_ns))
        break;
    }
    if (fastest < best_ns) {
      best = i;
      best_ns = fastest;
    }
  }
  if (best < names.size()) remember(call, names[best]);
  return best;
}

std::map<std::string, std::string> recorded_choices() {
  const std::lock_guard lock(g_mutex);
  return record();
}

void restore_choices(const std::map<std::string, std::string>& choices) {
  for (const auto& [call, name] : choices) remember(call, name);
}

}  // namespace isochron::ops
