#include <gmock/gmock.h>

#include <cmath>
#include <functional>

#include "isochron/observe/statistics/flatness.h"
#include "observe/statistics/synthetic.h"

namespace isochron::observe {
namespace {

using namespace synthetic;
using ::testing::HasSubstr;

TEST(EvenSpeed, MachineThatSlowsAlikeIsNamed) {
  Rng rng(1);
  std::vector<double> values;
  std::vector<double> reference;
  std::vector<double> steady;
  for (int i = 0; i < 128; ++i) {
    const double machine = 1 + 0.3 * i / 128.0;
    values.push_back(1000 * machine * gaussian(rng, 0.01));
    reference.push_back(10 * machine * gaussian(rng, 0.005));
    steady.push_back(10 * gaussian(rng, 0.005));
  }
  const FlatnessVerdict slowed = judge_flatness({.medians = values, .reference = reference});
  EXPECT_EQ(slowed.kind, Flatness::kFlat);
  EXPECT_TRUE(slowed.machine_slowed);
  EXPECT_THAT(slowed.reason, HasSubstr("the machine slowed, not the program"));
  const FlatnessVerdict guilty = judge_flatness({.medians = values, .reference = steady});
  EXPECT_EQ(guilty.kind, Flatness::kGrowing);
  EXPECT_FALSE(guilty.machine_slowed);
}

TEST(EvenSpeed, MachineThatBecomesFasterHidesNoGrowth) {
  // `wobble`: variation of the clock, which the program follows. Without it, nothing shows that the program
  // does.
  const auto judged = [](double wobble, double faster) {
    Rng rng(7);
    std::vector<double> values, reference;
    for (int i = 0; i < 160; ++i) {
      const double speed = gaussian(rng, wobble);
      values.push_back(1000 * speed * gaussian(rng, 0.003));
      reference.push_back(550 * speed * drift(i / 160.0, -faster) * gaussian(rng, 0.003));
    }
    return judge_flatness({.medians = values, .reference = reference});
  };
  const FlatnessVerdict hidden = judged(0.02, 0.12);
  EXPECT_EQ(hidden.kind, Flatness::kGrowing) << hidden.reason;
  EXPECT_THAT(hidden.reason, HasSubstr("which hides a change of the program"));
  const FlatnessVerdict unknown = judged(0, 0.12);
  EXPECT_EQ(unknown.kind, Flatness::kInconclusive) << unknown.reason;
  EXPECT_THAT(unknown.reason, HasSubstr("flat as measured, but the machine became faster"));
  EXPECT_EQ(judged(0.02, 0).kind, Flatness::kFlat);
}

TEST(EvenSpeed, ProgramThatSlowsMoreThanTheMachineIsStillGrowing) {
  Rng rng(2);
  std::vector<double> values;
  std::vector<double> reference;
  for (int i = 0; i < 128; ++i) {
    const double machine = 1 + 0.1 * i / 128.0;
    values.push_back(1000 * machine * drift(i / 128.0, 0.5) * gaussian(rng, 0.01));
    reference.push_back(10 * machine * gaussian(rng, 0.005));
  }
  const FlatnessVerdict verdict = judge_flatness({.medians = values, .reference = reference});
  EXPECT_EQ(verdict.kind, Flatness::kGrowing);
  EXPECT_FALSE(verdict.machine_slowed);
}

/// A run on a core that another program shares during parts of some windows: the kernel slows down by 125 %,
/// the program by 50 %.
struct SharedCore {
  /// `busy` decides whether the core is shared in the given window.
  SharedCore(double change, uint64_t seed, const std::function<bool(int)>& busy) {
    Rng rng(seed);
    for (int i = 0; i < 160; ++i) {
      const double share = busy(i) ? 1 : 0.05 * rng.uniform();
      values.push_back(1000 * drift(i / 160.0, change) * (1 + 0.5 * share) * gaussian(rng, 0.01));
      reference.push_back(550 * (1 + 1.25 * share) * gaussian(rng, 0.01));
    }
  }
  FlatnessVerdict judge() const {
    return judge_flatness({.medians = values, .means = values, .reference = reference});
  }

  std::vector<double> values;
  std::vector<double> reference;
};

TEST(EvenSpeed, SharedCoreIsTakenOut) {
  const auto stretches = [](int i) { return i / 6 % 4 == 1; };
  const auto second_half = [](int i) { return i >= 80 && i % 10 != 0; };
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_EQ(SharedCore(0, seed, stretches).judge().kind, Flatness::kFlat) << seed;
    EXPECT_NE(SharedCore(0, seed, second_half).judge().kind, Flatness::kGrowing) << seed;
  }
}

TEST(EvenSpeed, WaitingForACoreIsTakenOutOfTheMeans) {
  Rng rng(3);
  std::vector<double> medians, means, reference, waited;
  for (int i = 0; i < 160; ++i) {
    const double preempted = i < 80 ? 0 : 300 * rng.uniform();  // other programs came in the second half
    medians.push_back(1000 * gaussian(rng, 0.005));
    means.push_back(medians.back() + preempted);
    waited.push_back(preempted * gaussian(rng, 0.05));
    reference.push_back(550 * gaussian(rng, 0.005));
  }
  const FlatnessInput known{.medians = medians, .means = means, .reference = reference, .waited = waited};
  EXPECT_EQ(judge_flatness(known).kind, Flatness::kFlat);
  const FlatnessInput unknown{.medians = medians, .means = means, .reference = reference};
  EXPECT_NE(judge_flatness(unknown).kind, Flatness::kFlat);
}

/// A run next to a neighbor that works in short bursts, more of them later on. Their effect on the program
/// can't be derived from the kernel's time in the windows. In each window, a share of the iterations was
/// quiet.
struct Bursts {
  Bursts(double change, uint64_t seed, const std::function<double(int)>& quiet_share) {
    Rng rng(seed);
    for (int i = 0; i < 160; ++i) {
      const double program = 1000 * drift(i / 160.0, change);
      const double bursts = rng.uniform() * (0.2 + 0.9 * i / 160.0);
      medians.push_back(program * (1 + 0.4 * bursts * rng.uniform()) * gaussian(rng, 0.01));
      means.push_back(program * (1 + 0.4 * bursts) * gaussian(rng, 0.01));
      reference.push_back(550 * gaussian(rng, 0.01));
      reference_means.push_back(550 * (1 + rng.uniform() * bursts));
      shares.push_back(quiet_share(i));
      quiet_medians.push_back(shares.back() > 0 ? program * gaussian(rng, 0.01) : 0);
      quiet_means.push_back(shares.back() > 0 ? program * gaussian(rng, 0.015) : 0);
    }
  }
  FlatnessVerdict judge(bool quiet_known = true) const {
    FlatnessInput input{
        .medians = medians, .means = means, .reference = reference, .reference_means = reference_means};
    if (quiet_known) {
      input.quiet_medians = quiet_medians;
      input.quiet_means = quiet_means;
      input.quiet_shares = shares;
    }
    return judge_flatness(input);
  }
  std::vector<double> medians, means, reference, reference_means, quiet_medians, quiet_means, shares;
};

/// A step on several threads. In one half, by default the second, another program runs, and the step waits
/// for a core in each iteration. `read`: how much of the measured waiting delayed the steps; the steps grow
/// by `growth`.
FlatnessVerdict beside_a_program(double read, double growth, bool in_first = false) {
  Rng rng(3);
  std::vector<double> medians, means, reference, waited;
  for (int i = 0; i < 160; ++i) {
    const double preempted = (i < 80) != in_first ? 0 : 900 * gaussian(rng, 0.1);
    medians.push_back(1000 * gaussian(rng, 0.01) * (1 + (i < 80 ? 0 : growth)) + preempted);
    means.push_back(medians.back() + 20);
    waited.push_back(preempted / read);
    reference.push_back(550 * gaussian(rng, 0.005));
  }
  return judge_flatness({.medians = medians, .means = means, .reference = reference, .waited = waited});
}

TEST(EvenSpeed, WaitingInAllIterationsIsTakenOutOfTheMedians) {
  const FlatnessVerdict healthy = beside_a_program(1, 0);
  EXPECT_EQ(healthy.kind, Flatness::kFlat) << healthy.reason;
  EXPECT_TRUE(healthy.machine_slowed);
  EXPECT_EQ(beside_a_program(1, 0.3).kind, Flatness::kGrowing);
  const FlatnessVerdict unknown = beside_a_program(0.6, 0);
  EXPECT_EQ(unknown.kind, Flatness::kInconclusive) << "more was waited than the steps took longer";
  EXPECT_THAT(unknown.reason, HasSubstr("without the time spent waiting for a core"));
  EXPECT_EQ(beside_a_program(1, 0, true).kind, Flatness::kFlat);
  const FlatnessVerdict ended = beside_a_program(0.8, 0, true);
  EXPECT_EQ(ended.kind, Flatness::kInconclusive) << ended.reason;
  EXPECT_THAT(ended.reason, HasSubstr("without the time spent waiting for a core"));
}

/// The time that its threads wait for cores is known only roughly: readings don't say which iterations
/// waited.
FlatnessVerdict beside_a_program_roughly(double waiting, double growth, uint64_t seed) {
  Rng rng(seed);
  std::vector<double> medians, means, reference, waited;
  for (int i = 0; i < 160; ++i) {
    const double preempted = waiting * (i < 100 ? 1 : 3) * gaussian(rng, 0.1);
    medians.push_back((1500 + (i < 100 ? 0 : growth)) * gaussian(rng, 0.01) +
                      preempted * gaussian(rng, 0.15));
    means.push_back(medians.back() * gaussian(rng, 0.05));
    waited.push_back(preempted * gaussian(rng, 0.3));
    reference.push_back(800 * gaussian(rng, 0.2));
  }
  return judge_flatness({.medians = medians, .means = means, .reference = reference, .waited = waited});
}

TEST(EvenSpeed, GrowthThatWaitingExplainsIsInDoubtHoweverRoughlyItIsKnown) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const FlatnessVerdict waits = beside_a_program_roughly(2000, 0, seed);
    EXPECT_NE(waits.kind, Flatness::kGrowing) << seed << ": " << waits.reason;
    const FlatnessVerdict grows = beside_a_program_roughly(100, 1500, seed);
    EXPECT_EQ(grows.kind, Flatness::kGrowing) << seed << ": " << grows.reason;
  }
}

/// A step that isn't delayed by what its threads wait for, between the steps or beside them. The waiting ends
/// before the run does. `early`: what is in the means of the first quarter; else 20.
FlatnessVerdict beside_idle_waiting(double early, double growth, uint64_t seed) {
  Rng rng(seed);
  std::vector<double> medians, means, reference, waited;
  for (int i = 0; i < 160; ++i) {
    medians.push_back(1000 * gaussian(rng, 0.005) * drift(i / 160.0, growth));
    means.push_back(medians.back() + (i < 40 ? early : 20) * gaussian(rng, 0.3));
    waited.push_back(i < 130 ? 130 * gaussian(rng, 0.05) : 0);
    reference.push_back(550 * gaussian(rng, 0.005));
  }
  return judge_flatness({.medians = medians, .means = means, .reference = reference, .waited = waited});
}

TEST(EvenSpeed, WaitingThatDelaysNoStepIsNoGrowthWhenItEnds) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const FlatnessVerdict healthy = beside_idle_waiting(100, 0, seed);
    EXPECT_NE(healthy.kind, Flatness::kGrowing) << healthy.reason;
    EXPECT_THAT(healthy.reason, testing::Not(HasSubstr("without the time spent waiting for a core"))) << seed;
    EXPECT_EQ(beside_idle_waiting(20, 0, seed).kind, Flatness::kFlat) << seed;
    const FlatnessVerdict grown = beside_idle_waiting(20, 0.3, seed);
    EXPECT_EQ(grown.kind, Flatness::kGrowing) << grown.reason;
  }
}

TEST(EvenSpeed, WaitingThatDelaysNoStepIsNotTakenOutWhereThatBlurs) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Rng rng(seed);
    std::vector<double> medians, reference, waited;
    for (int i = 0; i < 160; ++i) {
      const double speed = gaussian(rng, 0.15);  // of the machine, which the program follows
      medians.push_back(1000 * speed * gaussian(rng, 0.005));
      reference.push_back(550 * speed * gaussian(rng, 0.005));
      waited.push_back(600 * rng.uniform());
    }
    EXPECT_EQ(judge_flatness({.medians = medians, .reference = reference}).kind, Flatness::kFlat) << seed;
    const FlatnessVerdict verdict =
        judge_flatness({.medians = medians, .means = medians, .reference = reference, .waited = waited});
    EXPECT_EQ(verdict.kind, Flatness::kFlat) << seed << ": " << verdict.reason;
  }
}

TEST(EvenSpeed, QuietIterationsDecideBesideANeighbor) {
  const auto half = [](int i) { return i % 5 == 0 ? 0 : 0.5; };
  int flat_without = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    flat_without += Bursts(0, seed, half).judge(false).kind == Flatness::kFlat;
    EXPECT_EQ(Bursts(0, seed, half).judge().kind, Flatness::kFlat) << seed;
    EXPECT_EQ(Bursts(0.12, seed, half).judge().kind, Flatness::kGrowing) << seed;
  }
  EXPECT_LE(flat_without, 3) << "the bursts are too weak";
}

TEST(EvenSpeed, TooFewQuietIterationsSayNothing) {
  const auto never_at_the_end = [](int i) { return i < 140 ? 0.5 : 0; };
  const auto seldom_at_the_end = [](int i) { return i < 144 || i % 7 == 0 ? 0.5 : 0; };
  const auto seldom_at_first = [](int i) { return i >= 16 || i % 7 == 0 ? 0.5 : 0; };
  const auto hardly = [](int) { return 0.05; };
  const auto seldom = [](int i) { return i % 4 == 0 ? 0.9 : 0; };
  for (const auto& share : std::vector<std::function<double(int)>>{never_at_the_end, seldom_at_the_end,
                                                                   seldom_at_first, hardly, seldom}) {
    const Bursts bursts(0, 1, share);
    EXPECT_EQ(bursts.judge().kind, bursts.judge(false).kind);
    EXPECT_EQ(bursts.judge().smallest_detectable_change, bursts.judge(false).smallest_detectable_change);
  }
}

/// A run during most of which the host had moved the cores apart, with a kernel whose means stray.
FlatnessVerdict judge_moved_cores(double change, uint64_t seed) {
  Rng rng(seed);
  std::vector<double> medians, means, reference, reference_means;
  for (int i = 0; i < 190; ++i) {
    const bool apart = i / 30 % 3 != 0;
    const double program = drift(i / 190.0, change);
    medians.push_back(475 * program * (apart ? 1.82 : 1) * gaussian(rng, 0.01));
    means.push_back(medians.back() * 1.03 * gaussian(rng, 0.01));
    reference.push_back(540 * (apart ? 3.1 : 1) * gaussian(rng, 0.01));
    reference_means.push_back(reference.back() *
                              (apart || rng.uniform() < 0.5 ? 1 : 1 + 0.25 * rng.uniform()));
  }
  return judge_flatness(
      {.medians = medians, .means = means, .reference = reference, .reference_means = reference_means});
}

TEST(EvenSpeed, WellCorrectedWindowsAreJudgedWithTheOthers) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const FlatnessVerdict verdict = judge_moved_cores(0, seed);
    EXPECT_EQ(verdict.kind, Flatness::kFlat) << seed << ": " << verdict.reason;
    EXPECT_EQ(judge_moved_cores(0.15, seed).kind, Flatness::kGrowing) << seed;
  }
}

TEST(EvenSpeed, SharedCoreHidesNoGrowth) {
  const auto stretches = [](int i) { return i / 6 % 4 == 1; };
  const auto always = [](int) { return true; };
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_EQ(SharedCore(0.15, seed, stretches).judge().kind, Flatness::kGrowing) << seed;
    EXPECT_EQ(SharedCore(0.15, seed, always).judge().kind, Flatness::kGrowing) << seed;
    EXPECT_EQ(SharedCore(-0.15, seed, stretches).judge().kind, Flatness::kShrinking) << seed;
  }
}

TEST(EvenSpeed, DisturbancesThroughoutDontClearAGrowingProgram) {
  std::vector<double> values;
  std::vector<double> reference;
  for (int i = 0; i < 100; ++i) {
    values.push_back(1000 * (1 + 2 * i / 100.0));
    reference.push_back(i % 10 < 4 ? 600 : 500);
  }
  const FlatnessVerdict verdict = judge_flatness({.medians = values, .reference = reference});
  EXPECT_EQ(verdict.kind, Flatness::kGrowing);
  EXPECT_FALSE(verdict.machine_slowed);
}

TEST(EvenSpeed, SteadyDriftOfTheMachineExplainsOnlyAsMuchGrowth) {
  std::vector<double> values;
  std::vector<double> reference;
  for (int i = 0; i < 128; ++i) {
    values.push_back(1000 * std::pow(1.2, i / 127.0));
    reference.push_back(500 * std::pow(1.05, i / 127.0));
  }
  EXPECT_EQ(judge_flatness({.medians = values, .reference = reference}).kind, Flatness::kGrowing);
}

TEST(EvenSpeed, ProgramThatGrowsWhileACoreIsSharedIsStillGrowing) {
  const auto second_half = [](int i) { return i >= 80; };
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_EQ(SharedCore(0.4, seed, second_half).judge().kind, Flatness::kGrowing) << seed;
  }
}

TEST(EvenSpeed, ReferenceOfAnyLengthAndValueIsHarmless) {
  const std::vector<double> zeros(6, 0.0);
  const std::vector<double> values = {1, 2, 3, 4, 5, 60};
  const std::vector<double> constant(6, 500.0);
  for (const std::vector<double>& reference : {zeros, constant}) {
    const FlatnessInput input{.medians = values, .reference = reference};
    EXPECT_NO_THROW(judge_flatness(input, {.min_windows = 2, .max_warmup = 0.5}));
  }
  const FlatnessInput no_medians{.medians = zeros, .reference = constant};
  EXPECT_NO_THROW(judge_flatness(no_medians));
}

}  // namespace
}  // namespace isochron::observe
