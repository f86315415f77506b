#include "isochron/observe/interleaved/interleaved_runner.h"

#include <atomic>
#include <exception>
#include <functional>

#include "isochron/core/base/clock.h"
#include "isochron/core/process/threads.h"

namespace isochron::observe {
namespace {

constexpr double kTurnSeconds = 0.003;
/// The number of pairs before the next change of core; after a change, the caches must refill.
constexpr size_t kPairsOnCore = 8;
/// Turns in which nothing was timed.
constexpr size_t kMaxInVain = 500;
/// The error of a change combines the errors of two levels. The turns continue for at least kMinSeconds in
/// any case, so that the error itself is well known.
constexpr double kErrorWanted = 0.004;
constexpr double kMinSeconds = 0.4;

/// For a loop in this process: the remaining time of the loop at which its second comparison with the twin
/// begins.
constexpr double kOwnSecondsLeft = 1.5;
/// Time of such a loop in the first comparison, and length of a twin's turn during warm-up.
constexpr double kOwnSecondsBefore = kBesideTwinSeconds / 2;
constexpr double kWarmUpTurnSeconds = 0.05;

/// The length of the run is estimated from this number of iterations.
constexpr int64_t kWarmIterations = 8;

/// Whether a run of this length can be judged.
bool enough(double seconds, int64_t iterations) {
  const FlatnessOptions needed;
  return seconds >= needed.min_seconds && iterations >= needed.min_windows;
}

/// Runs `body` while the other threads of this thread's team, if it has used one, sleep. Between parallel
/// loops they would spin for some ms or forever (OMP_WAIT_POLICY) on the cores of the twin's team.
void while_team_sleeps(const std::function<void()>& body) {
  std::atomic<bool> over = false;
  std::exception_ptr error;
  each_thread(parallel_loops_begun() > 0 ? compute_threads() : 1, [&](int64_t thread) {
    if (thread > 0) return over.wait(false);
    try {
      body();
    } catch (...) {
      error = std::current_exception();
    }
    over = true;
    over.notify_all();
  });
  if (error) std::rethrow_exception(error);
}

}  // namespace

InterleavedTurns::InterleavedTurns(double seconds, uint64_t seed)
    : seconds_(seconds), cores_(observe::cores()), random_(seed), began_ns_(now_ns()) {}

bool InterleavedTurns::next(const std::vector<TurnPair>& pairs, Turn& turn) {
  const double spent = static_cast<double>(now_ns() - began_ns_) * 1e-9;
  const bool move = turns_ % kPairsOnCore == 0;
  if (pairs.size() >= TwinTurns::kMaxPairs || turns_ >= kMaxInVain + pairs.size()) return false;
  if (spent > seconds_ && pairs.size() >= kMinTurnPairs) return false;
  if (move && spent > kMinSeconds && turn_pairs_error(pairs) <= kErrorWanted) return false;
  turn.seconds = kTurnSeconds * (0.5 + random_.uniform());
  turn.loop_first = random_.uniform() < 0.5;
  turn.core = move ? cores_[turns_ / kPairsOnCore % cores_.size()] : -1;
  ++turns_;
  return true;
}

void run_interleaved(Worker& loop, Worker& twin, double seconds, std::vector<TurnPair>& pairs) {
  InterleavedTurns schedule(seconds, pairs.size() + 1);
  InterleavedTurns::Turn turn;
  while (schedule.next(pairs, turn)) {
    if (turn.core >= 0) {
      loop.stay_on(turn.core, schedule.cores());
      twin.stay_on(turn.core, schedule.cores());
    }
    TurnPair pair;
    if (turn.loop_first) pair.loop = loop.run(turn.seconds);
    pair.twin = twin.run(turn.seconds);
    if (!turn.loop_first) pair.loop = loop.run(turn.seconds);
    if (loop.ended() || twin.ended()) break;
    if (pair.loop.iterations > 0 && pair.twin.iterations > 0) pairs.push_back(pair);
  }
  loop.stay_on(-1, schedule.cores());
  twin.stay_on(-1, schedule.cores());
}

BesideTwin::Mark BesideTwin::next(int64_t duration_ns, int64_t left) {
  switch (stage_) {
    case Stage::kWarmUp: {
      warm_ns_ += duration_ns;
      if (++warm_ < kWarmIterations) return Mark::kNone;
      const double seconds =
          1e-9 * static_cast<double>(warm_ns_) / kWarmIterations * static_cast<double>(left);
      if (!enough(seconds - kOwnSecondsBefore - kOwnSecondsLeft, left)) {
        stage_ = Stage::kEnd;
        return Mark::kNone;
      }
      while (!twin_.ended() && twins_turn().iterations == 0) continue;
      begin(Stage::kBefore);
      return Mark::kNone;
    }
    case Stage::kRun: {
      ran_ns_ += duration_ns;
      ++ran_;
      const double usual_ns = static_cast<double>(ran_ns_) / static_cast<double>(ran_);
      if (usual_ns * static_cast<double>(left) > kOwnSecondsLeft * 1e9) return Mark::kNone;
      if (!enough(static_cast<double>(running_ns() - run_began_ns_) * 1e-9, ran_)) {  // too short
        stage_ = Stage::kEnd;
        return Mark::kNone;
      }
      begin(Stage::kAfter);
      return Mark::kRunEnds;
    }
    case Stage::kBefore:
    case Stage::kAfter: {
      log_.add(duration_ns);
      if (running_ns() < turn_ends_ns_) return Mark::kNone;
      end_turn();
      return stage_ == Stage::kRun ? Mark::kRunBegins : Mark::kNone;
    }
    case Stage::kEnd:
      return Mark::kNone;
  }
  return Mark::kNone;
}

void BesideTwin::begin(Stage stage) {
  stage_ = twin_.ended() ? Stage::kEnd : stage;
  if (stage_ == Stage::kEnd) return;
  interleaved_turns_.emplace(kBesideTwinSeconds, stage == Stage::kBefore ? 1 : 2);
  begin_turn();
}

void BesideTwin::begin_turn() {
  if (twin_.ended() || !interleaved_turns_->next(pairs(), turn_)) {
    stay_on(-1, interleaved_turns_->cores());
    if (!twin_.ended()) twin_.stay_on(-1, interleaved_turns_->cores());
    stage_ = stage_ == Stage::kBefore && !twin_.ended() ? Stage::kRun : Stage::kEnd;
    run_began_ns_ = running_ns();
    return;
  }
  if (turn_.core >= 0) {
    stay_on(turn_.core, interleaved_turns_->cores());
    twin_.stay_on(turn_.core, interleaved_turns_->cores());
  }
  if (!turn_.loop_first) pair_.twin = twins_turn();
  log_.take();
  turn_ends_ns_ = running_ns() + static_cast<int64_t>(turn_.seconds * 1e9);
}

void BesideTwin::end_turn() {
  pair_.loop = log_.take();
  if (turn_.loop_first && !twin_.ended()) pair_.twin = twins_turn();
  if (!twin_.ended() && pair_.loop.iterations > 0 && pair_.twin.iterations > 0) pairs().push_back(pair_);
  begin_turn();
}

TurnTimes BesideTwin::twins_turn() {
  const StandStill pause;
  TurnTimes times;
  while_team_sleeps(
      [&] { times = twin_.run(stage_ == Stage::kWarmUp ? kWarmUpTurnSeconds : turn_.seconds); });
  return times;
}

}  // namespace isochron::observe
