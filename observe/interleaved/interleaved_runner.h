// Runs a loop and its twin in interleaved turns of about 3 ms. The length and order of turns are random, so
// that nothing periodic favors either. The first threads of both run on the same core, with the same
// neighbors, and their other threads on other cores. ab_comparison.h explains the purpose.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "isochron/core/base/rng.h"
#include "isochron/observe/interleaved/ab_comparison.h"
#include "isochron/observe/interleaved/worker.h"

namespace isochron::observe {

/// The maximum time of one comparison, in which the loop and its twin take pairs of turns.
inline constexpr double kBesideTwinSeconds = 2;

/// Plans the turns and decides when there are enough: when they distinguish a change of 1.5 % from none, when
/// `seconds` have passed and there are kMinTurnPairs, or when nothing was timed in hundreds of turns.
class InterleavedTurns {
 public:
  explicit InterleavedTurns(double seconds, uint64_t seed = 1);

  struct Turn {
    double seconds = 0;      // of each of the two
    bool loop_first = true;  // else its twin
    int core = -1;           // both first threads move to this core before the turn; -1: they stay
  };
  /// Sets `turn` to the next turn; false if there are enough.
  bool next(const std::vector<TurnPair>& pairs, Turn& turn);
  const std::vector<int>& cores() const { return cores_; }

 private:
  double seconds_;
  std::vector<int> cores_;
  Rng random_;
  int64_t began_ns_;
  size_t turns_ = 0;
};

/// Runs the turns of both workers and adds the times to `pairs`. Returns early if one of the workers ends.
void run_interleaved(Worker& loop, Worker& twin, double seconds, std::vector<TurnPair>& pairs);

/// Compares a loop in this process with its twin. The loop calls `next` after each of its iterations. The
/// twin's turns run within these calls, and `running_ns` doesn't count their time. The two take turns before
/// the run, and again shortly before its end unless the run would then be too short to be judged.
class BesideTwin {
 public:
  /// `twin` does the same work and reports the iterations of its turns with Turns::add.
  explicit BesideTwin(Worker& twin) : twin_(twin) {}

  enum class Mark {
    kNone,
    kRunBegins,  // everything recorded so far is warm-up
    kRunEnds,    // the iterations that follow belong to the comparison
  };
  /// Must be called for the first time when the loop is warm. `left`: the number of iterations to come.
  /// Rethrows the twin's errors.
  Mark next(int64_t duration_ns, int64_t left);
  /// The turns of the loop and its twin; `after` is empty if the loop was too short.
  const TwinTurns& turns() const { return turns_; }

 private:
  enum class Stage { kWarmUp, kBefore, kRun, kAfter, kEnd };
  void begin(Stage stage);
  /// If the twin goes first, it has its turn now. Ends the stage if there is no further turn.
  void begin_turn();
  void end_turn();
  TurnTimes twins_turn();
  std::vector<TurnPair>& pairs() { return stage_ == Stage::kBefore ? turns_.before : turns_.after; }

  Worker& twin_;
  Stage stage_ = Stage::kWarmUp;
  std::optional<InterleavedTurns> interleaved_turns_;
  InterleavedTurns::Turn turn_;
  TurnPair pair_;
  TurnLog log_;
  int64_t turn_ends_ns_ = 0;
  int64_t warm_ns_ = 0, warm_ = 0;  // timed iterations before the first comparison
  int64_t run_began_ns_ = 0;
  int64_t ran_ns_ = 0, ran_ = 0;  // timed iterations of the run
  TwinTurns turns_;
};

}  // namespace isochron::observe
