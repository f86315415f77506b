#include "isochron/observe/diagnose/straggler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "isochron/core/base/rng.h"
#include "isochron/observe/host/machine.h"

namespace isochron::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;

/// Ranks that take 1 ms per update, varied by up to a fifth at random, and communicate for a tenth of it.
struct PlayedRanks {
  int ranks = 4;
  size_t windows = 128;
  double noise = 0.2;
  /// The additional time of rank `rank` in window `window`.
  std::function<RankTimes(size_t rank, size_t window)> more = [](size_t, size_t) { return RankTimes{}; };
};

RankData played(const PlayedRanks& options, uint64_t seed = 1) {
  constexpr int64_t kUpdates = 8;
  Rng rng(seed);
  RankData data;
  data.ranks.assign(static_cast<size_t>(options.ranks), {.host = "alpha"});
  for (size_t w = 0; w < options.windows; ++w) {
    const auto first = static_cast<int64_t>(w) * kUpdates;
    RankWindow window{first, first + kUpdates - 1, kUpdates, 0, kUpdates * kMs / 10, {}};
    for (size_t r = 0; r < data.ranks.size(); ++r) {
      const double chance = 1 + options.noise * rng.normal() / 2;
      const RankTimes more = options.more(r, w);
      const auto work = static_cast<int64_t>(kMs * std::max(0.1, chance)) + more.work_ns;
      window.ranks.push_back({kUpdates * work, kUpdates * more.input_ns});
      window.longest_ns = std::max(window.longest_ns, kUpdates * work);
    }
    data.windows.push_back(std::move(window));
  }
  return data;
}

std::vector<std::string> fixes(const RankData& data, bool growing = false) {
  Evidence evidence;
  evidence.set("time.growing", growing);
  add_evidence(data, growing, evidence);
  std::vector<std::string> found;
  for (const Cause& cause : attribute(evidence)) {
    if (cause.name == kStragglingRank) found.push_back(cause.fix);
  }
  return found;
}

TEST(Straggler, NobodyIsNamedAmongRanksThatAreAlike) {
  for (const int ranks : {2, 3, 8}) {
    for (uint64_t seed = 1; seed <= 20; ++seed)
      EXPECT_THAT(fixes(played({.ranks = ranks}, seed)), ::testing::IsEmpty()) << ranks << " ranks, " << seed;
  }
}

TEST(Straggler, TheSlowRankIsFoundWithWhatMakesItSlow) {
  const auto slow = [](RankTimes more) {
    return [more](size_t rank, size_t) { return rank == 2 ? more : RankTimes{}; };
  };
  RankData data = played({.more = slow({kMs / 2, kMs / 2})});
  EXPECT_THAT(fixes(data), ElementsAre(HasSubstr("prefetch")));
  const std::optional<Straggler> found = find_straggler(data, false);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 2);
  EXPECT_NEAR(found->slower, 1.5, 0.1);
  EXPECT_NEAR(found->input_share, 1, 0.1);

  data = played({.more = slow({kMs / 2, 0})});
  EXPECT_THAT(fixes(data), ElementsAre(HasSubstr("that rank's machine")));
  const int64_t excess = 128 * 8 * kMs / 2;
  for (RankDescription& rank : data.ranks) rank.throttled_ns = rank.waited_ns = kMs;
  data.ranks[2].throttled_ns = excess;
  EXPECT_THAT(fixes(data), ElementsAre(HasSubstr("quota")));
  data.ranks[2].throttled_ns = kUnknownReading;
  data.ranks[2].waited_ns = excess;
  EXPECT_THAT(fixes(data), ElementsAre(HasSubstr("its own cores")));
}

TEST(Straggler, OneThatWaitsForCoresIsFoundWhereItsWorkIsNoLonger) {
  RankData data = played({.ranks = 2});
  data.ranks[1].waited_ns = 128 * 8 * kMs;  // as long as all of its work
  EXPECT_THAT(fixes(data), ElementsAre(HasSubstr("its own cores")));
  Evidence evidence;
  add_evidence(data, false, evidence);
  EXPECT_THAT(straggler_text(evidence, data), HasSubstr("rank 1 of 2 on alpha: it waits for a core"));
}

TEST(Straggler, ASlowLinkIsFoundWhereOthersWaitForIt) {
  const auto linked = [](int ranks, int64_t sent, int64_t received, int64_t communication) {
    RankData data = played({.ranks = ranks, .noise = 0.02});
    for (RankDescription& rank : data.ranks) rank.sent_in_ns = rank.received_in_ns = kMs / 10;
    data.ranks[1].sent_in_ns = sent;
    data.ranks[1].received_in_ns = received;
    for (RankWindow& window : data.windows) window.communication_ns = communication * window.updates;
    return data;
  };
  for (const RankData& data :
       {linked(3, kMs, kMs, kMs / 2), linked(4, kMs, kMs / 10, kMs / 2), linked(4, kMs / 10, kMs, kMs / 2)}) {
    EXPECT_THAT(fixes(data), ElementsAre(HasSubstr("network")));
    Evidence evidence;
    add_evidence(data, false, evidence);
    EXPECT_THAT(straggler_text(evidence, data), HasSubstr("on alpha: its link: messages take 10 times"));
  }
  EXPECT_THAT(fixes(linked(4, kMs, kMs, kMs / 20)), ::testing::IsEmpty()) << "nobody waits for it";
  EXPECT_THAT(fixes(linked(4, kMs / 6, kMs / 10, kMs / 2)), ::testing::IsEmpty()) << "not twice as long";
  EXPECT_THAT(fixes(linked(2, kMs, kMs, kMs / 2)), ::testing::IsEmpty()) << "it's the link of both";
}

TEST(Straggler, OneThatIsSlowNowAndThenIsNone) {
  const auto at_times = [](size_t rank, size_t window) {
    return rank == 1 && window % 16 == 3 ? RankTimes{4 * kMs, 0} : RankTimes{};
  };
  EXPECT_THAT(fixes(played({.more = at_times})), ::testing::IsEmpty());
}

TEST(Straggler, OneThatBecomesSlowIsFoundWhereTimeGrows) {
  const auto later = [](size_t rank, size_t window) {
    return rank == 1 && window >= 80 ? RankTimes{kMs, 0} : RankTimes{};
  };
  const RankData data = played({.ranks = 2, .more = later});
  EXPECT_THAT(fixes(data, true), ::testing::SizeIs(1));
}

TEST(Straggler, HalfOfTheRanksOnSlowCoresAreNoneOfThemAlone) {
  const auto half = [](size_t rank, size_t) { return rank < 4 ? RankTimes{kMs / 2, 0} : RankTimes{}; };
  const RankData data = played({.ranks = 8, .noise = 0.02, .more = half});
  const std::optional<Straggler> found = find_straggler(data, false);
  ASSERT_TRUE(found);
  EXPECT_LT(found->rank, 4);  // one of them, as good as any
  EXPECT_GT(found->share, 0.2);
}

TEST(Straggler, FewUpdatesTellNothing) {
  EXPECT_FALSE(find_straggler(played({.windows = 7}), false));
  EXPECT_FALSE(find_straggler({}, false));
}

}  // namespace
}  // namespace isochron::observe
