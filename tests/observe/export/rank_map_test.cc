#include "isochron/observe/export/rank_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isochron/core/base/error.h"
#include "support/expect_error.h"

namespace isochron::observe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RankData two_ranks() {
  RankData data{.own = 0, .ranks = {{"alpha", 5, -1, 0}, {"<b>", 6, 7, 8}}, .windows = {}};
  data.windows.push_back({0, 9, 10, 40'000'000, 1'000'000, {{10'000'000, 0}, {40'000'000, 20'000'000}}});
  data.windows.push_back({10, 19, 10, 40'000'000, 1'000'000, {{10'000'000, 0}, {40'000'000, 0}}});
  return data;
}

TEST(RankMap, JsonComesBackAsItWas) {
  const std::string json = ranks_json(two_ranks());
  EXPECT_EQ(ranks_json(parse_ranks(json, "test")), json);
}

TEST(RankMap, WhatIsNoTimesOfRanksIsAnError) {
  const std::string good = ranks_json(two_ranks(), -1);
  const auto with = [&](const std::string& part, const std::string& other) {
    std::string text = good;
    text.replace(text.find(part), part.size(), other);
    return text;
  };
  for (const std::string& text :
       {std::string("[]"), std::string("{"), with("\"own\":0", "\"own\":2"), with("\"own\":0", "\"own\":-1"),
        with("[10000000,40000000]", "[1]"), with("\"updates\":10", "\"updates\":0"),
        with("\"waited_ns\":5", "\"waited_ns\":-2"),
        with("\"longest_ns\":40000000", "\"longest_ns\":1e300")}) {
    EXPECT_ERROR(parse_ranks(text, "run.json"), ErrorCode::kBadFormat, "run.json");
  }
}

TEST(RankMap, TextAndPageNameEachRank) {
  const std::string text = ranks_text(two_ranks());
  EXPECT_THAT(text, HasSubstr("alpha"));
  EXPECT_THAT(text, HasSubstr("4.00 ms"));
  EXPECT_THAT(text, HasSubstr("3.00 ms"));  // rank 0 waits for rank 1
  const std::string page = ranks_section(two_ranks());
  EXPECT_THAT(page, HasSubstr("rank 1</text>"));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;"));
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
  EXPECT_EQ(ranks_section({.own = 0, .ranks = {{}, {}}, .windows = {}}), "");
}

TEST(RankMap, OfManyRanksThoseWithMostWorkAreShown) {
  RankData data;
  data.ranks.resize(100);
  RankWindow window{0, 99, 100, 0, 0, {}};
  for (int64_t r = 0; r < 100; ++r) window.ranks.push_back({r * 1'000'000, 0});
  data.windows = {window};
  EXPECT_THAT(ranks_text(data), HasSubstr("Only the 16 of 100 ranks"));
  EXPECT_THAT(ranks_section(data), HasSubstr("<td>99</td>"));
  EXPECT_THAT(ranks_section(data), Not(HasSubstr("<td>3</td>")));
}

}  // namespace
}  // namespace isochron::observe
