#include "isochron/apps/compare/alternate.h"

#include "isochron/core/clock.h"

namespace isochron::apps {
namespace {

constexpr double kTurnSeconds = 0.003;
/// After a change of core its caches fill again.
constexpr size_t kPairsOnCore = 8;
/// Turns in which nothing was timed.
constexpr size_t kMostInVain = 500;
/// The error of a change is that of two levels; as long as this they go on in any case, which makes it one
/// that is known.
constexpr double kErrorWanted = 0.006;
constexpr double kLeastSeconds = 0.4;

}  // namespace

void alternate(Worker& loop, Worker& twin, double seconds, Rng& random,
               std::vector<observe::TurnPair>& pairs) {
  const std::vector<int> all = cores();
  const int64_t began_ns = now_ns();
  const size_t before = pairs.size();
  for (size_t i = 0; i < kMostInVain + pairs.size() - before; ++i) {
    const double spent = static_cast<double>(now_ns() - began_ns) * 1e-9;
    if (spent > seconds && pairs.size() >= observe::kLeastTurnPairs) break;
    if (i % kPairsOnCore == 0) {
      if (spent > kLeastSeconds && observe::turn_pairs_error(pairs) <= kErrorWanted) break;
      const int core = all[i / kPairsOnCore % all.size()];
      loop.stay_on({core});
      twin.stay_on({core});
    }
    const double turn_seconds = kTurnSeconds * (0.5 + random.uniform());
    const bool loop_first = random.uniform() < 0.5;
    observe::TurnPair pair;
    if (loop_first) pair.loop = loop.run(turn_seconds);
    pair.twin = twin.run(turn_seconds);
    if (!loop_first) pair.loop = loop.run(turn_seconds);
    if (loop.ended() || twin.ended()) break;
    if (pair.loop.iterations > 0 && pair.twin.iterations > 0) pairs.push_back(pair);
  }
  loop.stay_on(all);
  twin.stay_on(all);
}

}  // namespace isochron::apps
