#include "isochron/comm/watch/watchdog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <random>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "isochron/comm/watch/wait_report.h"
#include "isochron/core/base/clock.h"
#include "isochron/core/base/error.h"
#include "isochron/core/process/background_work.h"
#include "isochron/core/process/process_space.h"

namespace isochron::comm {
namespace {

using std::chrono::nanoseconds;

constexpr std::string_view kTemporaryPrefix = "isochron-ranks-";
constexpr int kTicksOfPatience = 8;
constexpr nanoseconds kLongestTick = std::chrono::seconds(1);
constexpr nanoseconds kShortestTick = std::chrono::milliseconds(10);
constexpr int kLooksOfWait = 16;  // a longer wait reads the other ranks' files less often
constexpr nanoseconds kLeeway = std::chrono::seconds(15);  // for the reporting rank to end all ranks

/// The settings that rank 0 has chosen for all ranks.
struct Decided {
  uint64_t run;
  int64_t patience_ns;
  int64_t end_after_ns;
  uint64_t folder_bytes;
};

std::string time_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::array<char, 32> text{};
  ::gmtime_r(&now, &parts);
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts)};
}

std::filesystem::path chosen_folder(const std::filesystem::path& wanted, uint64_t run) {
  std::error_code failed;
  if (!wanted.empty()) {
    std::filesystem::path whole = std::filesystem::absolute(wanted, failed);
    return failed ? wanted : whole;
  }
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(failed);
  const std::filesystem::path& parent = failed ? std::filesystem::path("/tmp") : temporary;
  StatusFolder::remove_old(parent, kTemporaryPrefix);
  return parent / fmt::format("{}{:016x}", kTemporaryPrefix, run);
}

}  // namespace

nanoseconds watchdog_tick(nanoseconds patience) {
  return std::clamp(patience / kTicksOfPatience, kShortestTick, kLongestTick);
}

nanoseconds looks_apart(nanoseconds waited, nanoseconds patience) {
  const nanoseconds tick = watchdog_tick(patience);
  return std::clamp(waited / kLooksOfWait, tick, std::max(tick, patience / 4));
}

Watchdog::Watchdog(std::shared_ptr<Group> group, WatchdogOptions options)
    : group_(std::move(group)), options_(std::move(options)) {
  require(options_.patience.count() > 0 && options_.end_after.count() >= 0, ErrorCode::kInvalidArgument,
          "watchdog", "patience must be above 0, and end_after at least 0, got {} and {} ns",
          options_.patience.count(), options_.end_after.count());
  if (group_->size() == 1) return;
  std::string folder;
  Decided decided{};
  if (group_->rank() == 0) {
    std::random_device random;
    const uint64_t run = (uint64_t{random()} << 32) | random();
    folder = chosen_folder(options_.folder, run).string();
    StatusFolder::clear(folder);
    decided = {run, options_.patience.count(), options_.end_after.count(), folder.size()};
  }
  constexpr const char* kLabel = "the watchdog's settings";
  group_->broadcast(std::as_writable_bytes(std::span(&decided, 1)), 0, kLabel);
  folder.resize(decided.folder_bytes);
  group_->broadcast(std::as_writable_bytes(std::span(folder)), 0, kLabel);
  folder_ = folder;
  run_ = decided.run;
  options_.patience = nanoseconds(decided.patience_ns);
  options_.end_after = nanoseconds(decided.end_after_ns);
  if (!options_.tell) options_.tell = print_message;
  if (!options_.end) {
    options_.end = [this](const std::string& text) {
      options_.tell(text);
      group_->abort(exit_code(ErrorCode::kCommunication));
    };
  }
  host_ = host_name();
  shortest_ =
      options_.end_after.count() > 0 ? std::min(options_.patience, options_.end_after) : options_.patience;
  tick_ = watchdog_tick(shortest_);
  files_.emplace(folder_, run_, group_->rank(), group_->size());
  thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void Watchdog::watch() {
  const BackgroundWork background;
  before_ = group_->activity().now();
  next_tell_ns_ = options_.patience.count();
  int64_t then_ns = now_ns();
  std::unique_lock lock(mutex_);
  while (!ending_) {
    lock.unlock();
    look();
    lock.lock();
    ended_.wait_for(lock, tick_, [&] { return ending_; });
    const int64_t now = now_ns();
    watched_ns_ += std::min(now - std::exchange(then_ns, now), 2 * tick_.count());
  }
}

RankStatus Watchdog::present_status() {
  const Activity::Now now = group_->activity().now();
  const bool waits = now.entered > now.finished, waited = before_.entered > before_.finished;
  if (now.finished != before_.finished || waits != waited) progress_ns_ = change_ns_ = watched_ns_;
  if (now.changes != before_.changes) change_ns_ = watched_ns_;
  before_ = now;
  return {.run = run_,
          .rank = group_->rank(),
          .host = host_,
          .process = ::getpid(),
          .time = time_text(),
          .beat = ++beat_,
          .entered = now.entered,
          .finished = now.finished,
          .waited_s = waits ? seconds_since(progress_ns_) : 0,
          .label = now.label,
          .bytes = now.bytes,
          .doing = now.doing,
          .doing_s = seconds_since(change_ns_),
          .epoch = now.epoch,
          .step = now.step};
}

void Watchdog::look() {
  const RankStatus own = present_status();
  const int64_t waited_ns = own.waits() ? watched_ns_ - progress_ns_ : 0;
  if (told_ && own.finished > told_->finished) {
    options_.tell(fmt::format("{} has completed after {}; the run continues", collective_text(*told_),
                              seconds_text(told_->waited_s)));
    told_.reset();
  }
  if (told_) told_->waited_s = own.waited_s;
  if (waited_ns == 0) next_tell_ns_ = options_.patience.count();
  const bool looks = waited_ns >= tick_.count() && watched_ns_ >= next_look_ns_;
  if (looks) next_look_ns_ = watched_ns_ + looks_apart(nanoseconds(waited_ns), shortest_).count();
  files_->exchange(own, looks, watched_ns_);
  const int64_t end_ns = options_.end_after.count();
  if (waited_ns >= next_tell_ns_ || (end_ns > 0 && waited_ns >= end_ns)) tell_of(own);
}

void Watchdog::tell_of(const RankStatus& own) {
  std::vector<RankView> ranks;
  for (const SeenRank& seen : files_->seen())
    ranks.push_back({seen.status, seconds_since(seen.changed_ns), seen.present});
  const std::string folder = folder_.string();
  const WaitView view{.own = own,
                      .ranks = ranks,
                      .still_s = 0.5e-9 * static_cast<double>(shortest_.count()),
                      .unanswered_s = 1e-9 * static_cast<double>(files_->unanswered_ns(watched_ns_)),
                      .folder = folder};
  const int64_t waited_ns = watched_ns_ - progress_ns_, end_ns = options_.end_after.count();
  const bool others_tell = view.unanswered_s < view.still_s && lower_rank_tells(view);
  // If the reporting rank doesn't end all ranks within kLeeway, this rank does.
  if (end_ns > 0 && waited_ns >= end_ns + (others_tell ? kLeeway.count() : 0)) {
    RankStatus ending = own;
    ending.doing = kEndingTheRun;
    files_->exchange(ending, false, watched_ns_);
    options_.end(
        fmt::format("{} The run ends after waiting for {}.", wait_text(view), seconds_text(own.waited_s)));
    options_.end_after = nanoseconds(0);
    return;
  }
  if (others_tell || waited_ns < next_tell_ns_) return;
  options_.tell(wait_text(view));
  told_ = own;
  next_tell_ns_ = 2 * waited_ns;
}

}  // namespace isochron::comm
