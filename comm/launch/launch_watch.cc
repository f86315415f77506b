#include "isochron/comm/launch/launch_watch.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "isochron/comm/watch/wait_report.h"
#include "isochron/core/base/error.h"
#include "isochron/core/process/background_work.h"

namespace isochron::comm {
namespace {

using std::chrono::nanoseconds;
using State = LocalRank::State;

constexpr nanoseconds kTick = std::chrono::milliseconds(250);
constexpr nanoseconds kShortestTick = std::chrono::milliseconds(5);
constexpr int kTicksOfPatience = 8;
constexpr nanoseconds kLeeway = std::chrono::seconds(1);  // time for the rank that reports why the run ends

nanoseconds tick_of(const LaunchWatchOptions& options) {
  nanoseconds shortest = std::min(options.patience, options.end_after_loss);
  if (options.end_after.count() > 0) shortest = std::min(shortest, options.end_after);
  return std::clamp(shortest / kTicksOfPatience, kShortestTick, kTick);
}

/// Is a lower rank of this machine also waiting? If so, that rank reports.
bool lower_rank_tells(std::span<const LocalRank> ranks, int own) {
  return std::ranges::any_of(
      ranks, [&](const LocalRank& rank) { return rank.rank < own && rank.state == State::kRunning; });
}

}  // namespace

const char* phase_name(LaunchPhase phase) {
  return phase == LaunchPhase::kStart ? "starting MPI" : "ending MPI";
}

std::string launch_wait_text(const LaunchView& view) {
  const Launch& launch = view.launch;
  const auto known = static_cast<int>(view.ranks.size());
  std::vector<std::string> said;
  for (const LocalRank& rank : view.ranks) {
    if (rank.rank == launch.rank || rank.state == State::kRunning) continue;
    said.push_back(fmt::format("rank {} (process {}) {}", rank.rank, rank.process,
                               rank.state == State::kStopped ? "is stopped" : "has not reached this point"));
  }
  if (const int absent = absent_ranks(view); absent > 0) {
    const char* const verb = absent == 1 ? "is not" : "are not";
    std::vector<int> numbers;
    for (int rank = 0; rank < launch.size; ++rank) {
      if (std::ranges::find(view.ranks, rank, &LocalRank::rank) == view.ranks.end()) numbers.push_back(rank);
    }
    if (launch.local_size == launch.size) {
      said.push_back(fmt::format("{} {} running", list_text(numbers), verb));
    } else {
      said.push_back(
          fmt::format("of the {} ranks of this machine, {} {} running", launch.local_size, absent, verb));
    }
  }
  if (said.empty() && known > 1)
    said.push_back(fmt::format("all {} ranks of this machine have reached this point", known));
  if (const int others = launch.size - std::max(known, launch.local_size); others > 0)
    said.push_back(fmt::format("the state of the {} on other machines is unknown", others));
  if (said.empty()) said.emplace_back("the state of the others is unknown");
  return fmt::format("rank {} of {} has been {} for {}, which needs all ranks: {}", launch.rank, launch.size,
                     phase_name(view.phase), seconds_text(view.waited_s), fmt::join(said, "; "));
}

int absent_ranks(const LaunchView& view) {
  return view.ranks.empty() ? 0 : std::max(0, view.launch.local_size - static_cast<int>(view.ranks.size()));
}

LaunchWatch::LaunchWatch(LaunchPhase phase, const Launch& launch, LaunchWatchOptions options, pid_t launcher)
    : phase_(phase),
      launch_(launch),
      options_(std::move(options)),
      launcher_(launcher),
      next_tell_(options_.patience) {
  require(
      options_.patience.count() > 0 && options_.end_after.count() >= 0 && options_.end_after_loss.count() > 0,
      ErrorCode::kInvalidArgument, "join",
      "patience and end_after_loss must be above 0, and end_after at least 0, got {}, {} and {} ns",
      options_.patience.count(), options_.end_after_loss.count(), options_.end_after.count());
  if (!options_.tell) options_.tell = print_message;
  if (!options_.end) {
    options_.end = [this](const std::string& text) {
      if (!text.empty()) options_.tell(text);
      std::_Exit(exit_code(ErrorCode::kCommunication));
    };
  }
  thread_ = std::thread([this] { watch(); });
}

LaunchWatch::~LaunchWatch() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  over_.notify_one();
  thread_.join();
}

void LaunchWatch::watch() {
  const BackgroundWork background;
  prctl(PR_SET_NAME, phase_name(phase_));  // the other ranks look for this name
  const nanoseconds tick = tick_of(options_);
  nanoseconds waited{0};  // doesn't include time for which this process was stopped
  auto then = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  while (!over_.wait_for(lock, tick, [&] { return ending_; })) {
    lock.unlock();
    const auto now = std::chrono::steady_clock::now();
    waited += std::min<nanoseconds>(now - std::exchange(then, now), 2 * tick);
    const bool goes_on = look(waited);
    lock.lock();
    if (!goes_on) return;
  }
}

bool LaunchWatch::look(nanoseconds waited) {
  const std::vector<LocalRank> ranks =
      launcher_ > 0 ? local_ranks(launcher_, phase_name(phase_)) : std::vector<LocalRank>{};
  const LaunchView view{launch_, phase_, std::chrono::duration<double>(waited).count(), ranks};
  // When MPI ends, ranks leave as soon as they are done.
  if (phase_ == LaunchPhase::kEnd || absent_ranks(view) == 0) all_there_ = waited;
  const bool others_tell = lower_rank_tells(ranks, launch_.rank);
  const nanoseconds leeway = others_tell ? kLeeway : nanoseconds(0);
  const bool lost = waited - all_there_ >= options_.end_after_loss + leeway;
  const bool ends = lost || (options_.end_after.count() > 0 && waited >= options_.end_after + leeway);
  if (!ends && waited < next_tell_) return true;
  next_tell_ = 2 * waited;
  const std::string text = others_tell ? "" : launch_wait_text(view);
  if (ends) {
    options_.end(text.empty() ? text : text + ". The run ends.");
  } else if (!text.empty()) {
    options_.tell(text);
  }
  return !ends;
}

}  // namespace isochron::comm
