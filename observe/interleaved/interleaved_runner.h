// A loop and its twin in interleaved turns: turns of some 3 ms, of random length and order, so that nothing
// periodic favours one, their first threads on one core at a time, whose neighbours both have, and their
// others off it. What that is for: ab_comparison.h.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "isochron/core/base/rng.h"
#include "isochron/observe/interleaved/ab_comparison.h"
#include "isochron/observe/interleaved/worker.h"

namespace isochron::observe {

/// What a loop and its twin take at most for their pairs of turns, each time.
inline constexpr double kBesideTwinSeconds = 2;

/// Plans the turns, and says when there are enough: once these tell a change of 1.5 % from none, or when
/// `seconds` have passed and there are kLeastTurnPairs, or hundreds of turns were in vain.
class InterleavedTurns {
 public:
  explicit InterleavedTurns(double seconds, uint64_t seed = 1);

  struct Turn {
    double seconds = 0;      // of either
    bool loop_first = true;  // else its twin
    int core = -1;           // that the first thread of both goes to before; -1: they stay where they are
  };
  /// The next one; false: no more.
  bool next(const std::vector<TurnPair>& pairs, Turn& turn);
  const std::vector<int>& cores() const { return cores_; }

 private:
  double seconds_;
  std::vector<int> cores_;
  Rng random_;
  int64_t began_ns_;
  size_t turns_ = 0;
};

/// Gives both their turns and adds what they took to `pairs`. Ends early when one of them does.
void run_interleaved(Worker& loop, Worker& twin, double seconds, std::vector<TurnPair>& pairs);

/// For a loop that is this process: it calls `next` after each of its iterations, and its twin has turns
/// within these calls, on whose time `running_ns` stands still. Before the run both are beside each other,
/// then the loop runs, and shortly before its end they are again.
class BesideTwin {
 public:
  /// `twin` does the same work, its turns' iterations noted by Turns::add.
  explicit BesideTwin(Worker& twin) : twin_(twin) {}

  enum class Mark {
    kNone,
    kRunBegins,  // what was recorded so far is warm-up
    kRunEnds,    // what comes is beside the twin
  };
  /// First once the loop is warm. `left`: iterations of it that are to come. Throws what the twin has thrown.
  Mark next(int64_t duration_ns, int64_t left);
  /// What both were seen to do; nothing after where the loop was too short.
  const TwinTurns& turns() const { return turns_; }

 private:
  enum class Stage { kWarmUp, kBefore, kRun, kAfter, kEnd };
  void begin(Stage stage);
  /// Where the twin is first, it has its turn now. Else ends the stage.
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
  int64_t ran_ns_ = 0, ran_ = 0;  // iterations of the run
  TwinTurns turns_;
};

}  // namespace isochron::observe
