// The data that a recorder hands to the process that continues its run.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <type_traits>

#include "isochron/core/base/error.h"
#include "isochron/core/process/reserve_resident.h"
#include "isochron/observe/record/recorder.h"

namespace isochron::observe {
namespace {

static_assert(std::is_trivially_copyable_v<Window>);

/// Precedes the windows of all classes.
struct Head {
  char magic[8] = {'i', 's', 'o', 'b', 'a', 's', 'e', '4'};
  uint64_t window_bytes = sizeof(Window);
  int64_t classes = 0;
  RunTotals totals;
};
/// Precedes the windows of one class.
struct ClassHead {
  int64_t length = 0;
  int64_t windows = 0;
};

template <typename T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

[[noreturn]] void refuse(std::string_view text) {
  fail(ErrorCode::kBadFormat, "recorder", "not a baseline that this recorder can read: {}", text);
}

template <typename T>
T take(std::string_view& bytes) {
  if (bytes.size() < sizeof(T)) refuse("it is truncated");
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

bool sane(const RunTotals& totals) {
  return totals.timed_iterations >= 0 && totals.iterations >= totals.timed_iterations &&
         totals.total_ns >= 0 && totals.elapsed_ns >= 0 && totals.heap_allocations >= 0 &&
         totals.heap_allocations_beside >= 0 && totals.allocating_iterations >= 0 && totals.spikes >= 0 &&
         totals.spike_excess_ns >= 0;
}

bool ascend(std::span<const float> quantiles) {
  return std::ranges::is_sorted(quantiles) && quantiles.front() >= 0 && std::isfinite(quantiles.back()) &&
         std::ranges::none_of(quantiles, [](float ns) { return std::isnan(ns); });
}

Window take_window(std::string_view& bytes, int64_t length) {
  Window window = take<Window>(bytes);
  bool sane = window.iterations == length && window.passed >= 0 && window.first_iteration >= 0 &&
              window.total_ns >= 0 && window.last_iteration >= window.first_iteration &&
              std::isfinite(window.reference.total_ns);
  sane &= ascend(window.quantiles_ns) && ascend(window.quiet.quantiles_ns) && window.quiet.iterations >= 0 &&
          window.quiet.total_ns >= 0;
  if (!sane) refuse("a window contains impossible numbers");
  return window;
}

}  // namespace

std::string Recorder::baseline(std::string bytes) const {
  bytes.clear();
  reserve_resident(  // the size doesn't depend on the length of the run
      bytes,
      sizeof(Head) + windows_.size() * (sizeof(ClassHead) + WindowSeries::kMaxWindows / 2 * sizeof(Window)));
  Head head{.classes = options_.classes, .totals = totals_};
  head.totals.warmup_iterations = head.totals.warmup_ns = 0;  // they belong to this process only
  append(bytes, head);
  for (const WindowSeries& series : windows_) {
    append(bytes, ClassHead{series.condensed_length(), series.condensed_count()});
    for (int64_t i = 0; i < series.condensed_count(); ++i) append(bytes, series.condensed(i));
  }
  return bytes;
}

void Recorder::seal_and_continue(std::string_view bytes) {
  const Head expected, head = take<Head>(bytes);
  if (std::memcmp(head.magic, expected.magic, sizeof head.magic) != 0 ||
      head.window_bytes != expected.window_bytes) {
    refuse("it is of another version");
  }
  if (head.classes != options_.classes)
    refuse(
        "it has another number of step classes; ranks and accumulation may have divided an update "
        "differently");
  if (!sane(head.totals)) refuse("it contains impossible totals");
  std::vector<std::pair<int64_t, std::vector<Window>>> classes;
  for (int64_t c = 0; c < head.classes; ++c) {
    const auto [length, count] = take<ClassHead>(bytes);
    if (length < 1 || count < 0 || count > WindowSeries::kMaxWindows / 2)
      refuse("it contains impossible windows");
    classes.emplace_back(length, std::vector<Window>());
    for (int64_t i = 0; i < count; ++i) classes.back().second.push_back(take_window(bytes, length));
  }
  if (!bytes.empty()) refuse("unexpected bytes follow it");
  seal();
  for (size_t c = 0; c < classes.size(); ++c) {
    windows_[c].restore(classes[c].first, classes[c].second);
    steady_ns_ += windows_[c].steady_ns();
  }
  RunTotals totals = head.totals;
  totals.warmup_iterations = totals_.warmup_iterations;  // this process's own
  totals.warmup_ns = totals_.warmup_ns;
  totals_ = totals;
  // Samples from now on count iterations after those of the earlier process.
  for (Sample& sample : samples_) sample.iteration = totals_.iterations;
  // Elapsed time, from the first begin to the last end, includes the earlier process's time.
  if (totals_.timed_iterations > 0) run_begin_ns_ = options_.clock() - totals_.elapsed_ns;
}

}  // namespace isochron::observe
