#include "isochron/apps/bench/ranks.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>

#include "isochron/apps/precision_option.h"
#include "isochron/comm/group/broadcast_text.h"
#include "isochron/comm/group/world.h"
#include "isochron/core/base/clock.h"
#include "isochron/core/base/error.h"
#include "isochron/core/process/threads.h"
#include "isochron/core/text/count_text.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::apps {
namespace {

constexpr int64_t kMaxRounds = 7;
constexpr int64_t kFirstSteps = 3;
constexpr double kWarmupSeconds = 0.15;                // for each of the two ways
constexpr int64_t kMaxTimesOfTurn = int64_t{1} << 20;  // number of newest steps per turn whose times are kept

/// A case prepared for both ways of running it, each with its own model.
struct BothWays {
  std::unique_ptr<CaseRun> together;
  std::unique_ptr<CaseRun> alone;
};

struct Counts {
  int64_t rounds = 0;
  int64_t turn_steps = 0;
};

/// What one rank has measured: doubles, which ranks exchange.
struct RankResult {
  double step_us = 0;
  double alone_us = 0;
  // For one step over ranks.
  double exposed_us = 0;
  double bytes_sent = 0;
  double collectives = 0;
};

/// One of the two ways to run a case, round by round.
class Way {
 public:
  Way(CaseRun& run, const Counts& counts)
      : run_(run),
        steps_(counts.turn_steps),
        times_us_(static_cast<size_t>(std::min(steps_, kMaxTimesOfTurn))),
        waits_us_(times_us_.size()) {}

  void take_turn() {
    comm::Group& ranks = *comm::world();
    ranks.barrier();
    run_.step();  // brings the data back into the caches
    const comm::CommunicationStats before = ranks.stats();
    int64_t began_ns = now_ns(), waited_ns = before.exposed_ns;
    for (int64_t i = 0; i < steps_; ++i) {
      run_.step();
      const int64_t ended_ns = now_ns(), waited_now_ns = ranks.stats().exposed_ns;
      const size_t at = static_cast<size_t>(i) % times_us_.size();
      times_us_[at] = static_cast<double>(ended_ns - began_ns) * 1e-3;
      waits_us_[at] = static_cast<double>(waited_now_ns - waited_ns) * 1e-3;
      began_ns = ended_ns;
      waited_ns = waited_now_ns;
    }
    const comm::CommunicationStats after = ranks.stats();
    bytes_sent_ += after.bytes_sent - before.bytes_sent;
    calls_ += after.calls - before.calls;
    turn_times_us_.push_back(observe::median(times_us_));
    turn_waits_us_.push_back(observe::median(waits_us_));
  }

  double step_us() const { return observe::median(turn_times_us_); }
  double exposed_us() const { return observe::median(turn_waits_us_); }
  double bytes_sent() const { return per_step(bytes_sent_); }
  double collectives() const { return per_step(calls_); }

 private:
  double per_step(int64_t total) const {
    return static_cast<double>(total) / static_cast<double>(steps_) /
           static_cast<double>(turn_times_us_.size());
  }

  CaseRun& run_;
  const int64_t steps_;
  std::vector<double> times_us_, waits_us_;            // of a turn's steps
  std::vector<double> turn_times_us_, turn_waits_us_;  // their medians
  int64_t bytes_sent_ = 0, calls_ = 0;
};

BothWays make_rank_case(const BenchCase& entry, CaseOptions how) {
  BothWays ways;
  how.group = comm::world();
  ways.together = entry.make(how);
  how.group = std::make_shared<comm::Group>();
  ways.alone = entry.make(how);
  return ways;
}

/// Runs `steps` steps, the same number on all ranks, and returns how long they took.
int64_t time_of(CaseRun& run, int64_t steps) {
  const int64_t began = now_ns();
  for (int64_t i = 0; i < steps; ++i) run.step();
  return now_ns() - began;
}

/// Warms up both ways, and determines the number of steps per turn.
Counts warm_up(const BothWays& ways, const RanksOptions& options) {
  int64_t steps = 0, took_ns = 0;
  for (CaseRun* run : {ways.alone.get(), ways.together.get()}) {
    steps = steps_of_all(kFirstSteps, time_of(*run, kFirstSteps), kWarmupSeconds);
    took_ns = time_of(*run, steps);
  }
  Counts counts;
  counts.rounds = options.steps > 0 ? std::min(options.steps, kMaxRounds) : kMaxRounds;
  counts.turn_steps = options.steps > 0 ? (options.steps - 1) / counts.rounds + 1
                                        : steps_of_all(steps, took_ns, options.seconds / (2.0 * kMaxRounds));
  return counts;
}

RankResult measure_rank(const BothWays& ways, const Counts& counts) {
  Way together(*ways.together, counts), alone(*ways.alone, counts);
  for (int64_t round = 0; round < counts.rounds; ++round) {
    const bool together_first = round % 2 == 0;
    (together_first ? together : alone).take_turn();
    (together_first ? alone : together).take_turn();
  }
  return {together.step_us() / ways.together->units(), alone.step_us() / ways.alone->units(),
          together.exposed_us(), together.bytes_sent(), together.collectives()};
}

std::vector<RankResult> of_all_ranks(const RankResult& own) {
  std::vector<RankResult> all(static_cast<size_t>(comm::world()->size()));
  comm::world()->gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  return all;
}

double rank_mean(const std::vector<RankResult>& ranks, double RankResult::*what) {
  const double sum = std::accumulate(ranks.begin(), ranks.end(), 0.0,
                                     [&](double s, const RankResult& rank) { return s + rank.*what; });
  return sum / static_cast<double>(ranks.size());
}

void print_json(const BenchCase& entry, const RanksOptions& options, const Counts& counts,
                const std::vector<RankResult>& ranks) {
  std::vector<double> alone_us;
  for (const RankResult& rank : ranks) alone_us.push_back(rank.alone_us);
  const double step_us = rank_mean(ranks, &RankResult::step_us),
               mean_us = rank_mean(ranks, &RankResult::alone_us);
  fmt::print("{}\n", nlohmann::ordered_json{{"case", entry.name},
                                            {"precision", precision_name(options.how.precision)},
                                            {"threads", compute_threads()},
                                            {"ranks", ranks.size()},
                                            {"mpi", comm::world()->description()},
                                            {"rounds", counts.rounds},
                                            {"steps", counts.rounds * counts.turn_steps},
                                            {"step_us", step_us},
                                            {"alone_us", mean_us},
                                            {"ratio", step_us / mean_us},
                                            {"exposed_us", rank_mean(ranks, &RankResult::exposed_us)},
                                            {"bytes_sent", rank_mean(ranks, &RankResult::bytes_sent)},
                                            {"collectives", rank_mean(ranks, &RankResult::collectives)},
                                            {"alone_us_of_ranks", alone_us}}
                         .dump());
}

void print_heading() {
  const comm::Group& ranks = *comm::world();
  const int threads = compute_threads();
  fmt::print("{} ranks of {}, {}; medians over rounds, means over ranks\n", ranks.size(),
             count_text(threads, "thread"), ranks.description());
  fmt::print("{:<16} {:>9} {:>11} {:>11} {:>7} {:>11} {:>12} {:>12}\n", "case", "steps", "over ranks",
             "alone", "ratio", "exposed", "sent", "collectives");
}

void print_row(const BenchCase& entry, const Counts& counts, const std::vector<RankResult>& ranks) {
  const double step_us = rank_mean(ranks, &RankResult::step_us),
               alone_us = rank_mean(ranks, &RankResult::alone_us);
  fmt::print("{:<16} {:>9} {:>11} {:>11} {:>7.3f} {:>11} {:>12} {:>12g}\n", entry.name,
             counts.rounds * counts.turn_steps, observe::duration_text(step_us * 1e3),
             observe::duration_text(alone_us * 1e3), step_us / alone_us,
             observe::duration_text(rank_mean(ranks, &RankResult::exposed_us) * 1e3),
             observe::bytes_text(rank_mean(ranks, &RankResult::bytes_sent)),
             rank_mean(ranks, &RankResult::collectives));
}

/// Throws if the ranks measure different things; they would wait for each other forever.
void agree(const std::vector<const BenchCase*>& cases, const RanksOptions& options) {
  comm::Group& ranks = *comm::world();
  std::string own =
      fmt::format("--precision {}, --seconds {}, --steps {}, cases:", precision_name(options.how.precision),
                  options.seconds, options.steps);
  for (const BenchCase* entry : cases) own += " " + entry->name;
  const std::string firsts = comm::broadcast_text(ranks, own, "settings");
  int64_t different = own == firsts ? 0 : 1;
  ranks.sum(std::span(&different, 1));
  require(own == firsts, ErrorCode::kInvalidArgument, "bench",
          "the ranks don't agree on what to measure: rank {} has {}; rank 0 has {}; start all of them with "
          "the same options",
          ranks.rank(), own, firsts);
  require(different == 0, ErrorCode::kInvalidArgument, "bench",
          "the ranks don't agree on what to measure: {} of {} have other options than rank 0, which has {}",
          different, ranks.size(), own);
}

}  // namespace

int64_t steps_of_all(int64_t steps, int64_t took_ns, double seconds) {
  const double each_ns = static_cast<double>(std::max<int64_t>(took_ns, 1)) / static_cast<double>(steps);
  auto count = std::max<int64_t>(static_cast<int64_t>(static_cast<double>(to_ns(seconds)) / each_ns), 1);
  comm::world()->broadcast(std::as_writable_bytes(std::span(&count, 1)));
  return count;
}

void bench_ranks(const std::vector<const BenchCase*>& cases, const RanksOptions& options) {
  agree(cases, options);
  if (!options.json) print_heading();
  for (const BenchCase* entry : cases) {
    const BothWays ways = make_rank_case(*entry, options.how);
    const Counts counts = warm_up(ways, options);
    const std::vector<RankResult> ranks = of_all_ranks(measure_rank(ways, counts));
    if (options.json) {
      print_json(*entry, options, counts, ranks);
    } else {
      print_row(*entry, counts, ranks);
    }
    std::fflush(stdout);
  }
}

}  // namespace isochron::apps
