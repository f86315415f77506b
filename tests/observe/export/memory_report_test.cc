#include "isochron/observe/export/memory_report.h"

#include <gmock/gmock.h>

#include "support/expect_error.h"

namespace isochron::observe {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

std::vector<MemoryMoment> moments() {
  MemoryMoment early{.name = "after warm-up", .step = 100};
  early.tags = {{"arena", 4'000'000, 1}, {"weights", 1'000'000, 8}, {"dataset", 500, 2}};
  early.live = {{"tensors", 50}, {"graph nodes", 300}};
  early.resident = {.total = 20'000'000, .planned = 4'000'000, .heap = 9'000'000, .program = 7'000'000};
  MemoryMoment late = early;
  late.name = "step <100000>";
  late.step = 100'000;
  late.tags = {{"arena", 4'000'000, 1}, {"history", 2'000'000, 1900}, {"weights", 1'000'000, 8}};
  late.live = {{"tensors", 2050}, {"graph nodes", 300}};
  late.resident.total += 2'500'000;
  late.resident.heap += 2'500'000;
  return {early, late};
}

TEST(MemoryReport, TellsTheLargestGrowthFirst) {
  const std::vector<MemoryChange> changes = difference(moments()[0], moments()[1]);
  std::vector<std::pair<std::string, int64_t>> told;
  for (const MemoryChange& change : changes) told.emplace_back(change.what, change.grown());
  EXPECT_THAT(told,
              testing::ElementsAre(std::pair("resident", 2'500'000), std::pair("heap in use", 2'500'000),
                                   std::pair("tag history", 2'000'000), std::pair("tag dataset", -500),
                                   std::pair("tag history", 1900), std::pair("tag dataset", -2),
                                   std::pair("live tensors", 2000)));
  EXPECT_TRUE(difference(moments()[0], moments()[0]).empty());
}

TEST(MemoryReport, TextHasMomentsSideBySideAndWhatGrew) {
  const std::string text = memory_text(moments());
  EXPECT_THAT(text, AllOf(ContainsRegex("^memory +after warm-up  step <100000>\n"),
                          ContainsRegex("\nresident +20\\.00 MB +22\\.50 MB\n"),
                          ContainsRegex("\n  heap in use +9\\.00 MB +11\\.50 MB\n"),
                          ContainsRegex("\ntag history +0 B +2\\.00 MB\n"),
                          ContainsRegex("\nlive tensors +50 +2050\n"), Not(HasSubstr("unexplained"))));
  EXPECT_THAT(text, HasSubstr("\nFrom step 100 (after warm-up) to step <100000> these grew:\n"
                              "  resident: +2.50 MB (20.00 MB -> 22.50 MB)\n"));
  EXPECT_THAT(text,
              HasSubstr("  tag history: +1900 blocks (0 -> 1900)\n  live tensors: +2000 (50 -> 2050)\n"));
  EXPECT_THAT(text, Not(HasSubstr("dataset: ")));
  const std::vector<MemoryMoment> level = {moments()[0], moments()[0]};
  EXPECT_THAT(memory_text(level), HasSubstr("no memory in use grew\n"));
  EXPECT_EQ(memory_text({}), "");
  EXPECT_EQ(memory_growth_text({level.data(), 1}), "");
}

TEST(MemoryReport, ComesBackFromItsJson) {
  for (const int indent : {-1, 2})
    EXPECT_EQ(memory_from_json(memory_json(moments(), indent), "x"), moments());
  EXPECT_THAT(
      memory_json(moments(), -1),
      HasSubstr(R"("growth":{"from":"after warm-up","to":"step <100000>","largest":[{"what":"resident",)"
                R"("unit":"bytes","before":20000000,"after":22500000},)"));
  EXPECT_TRUE(memory_from_json(memory_json({}), "x").empty());
  for (const std::string bad :
       {"", "[]", "{\"moments\": [{\"name\": 5}]}", "{\"moments\": [{}]}", "{\"moments\": 3}"}) {
    EXPECT_ERROR(memory_from_json(bad, "run.json"), ErrorCode::kBadFormat, "run.json");
  }
  std::string large = memory_json(moments(), -1);
  large.replace(large.find("20000000"), 8, "1.95e+28");
  EXPECT_ERROR(memory_from_json(large, "run.json"), ErrorCode::kBadFormat, "not a whole number");
}

TEST(MemoryReport, SectionIsMarkup) {
  const std::string section = memory_section(moments());
  EXPECT_THAT(section, AllOf(HasSubstr("Memory by owner: step &lt;100000&gt;"), HasSubstr("class=\"bar\""),
                             HasSubstr("<li>tag history: +2.00 MB"), Not(HasSubstr("<100000>"))));
  EXPECT_EQ(memory_section({}), "");
}

TEST(MemoryReport, TagsBeyondTheCapAreSummed) {
  std::vector<TaggedMemory> tags;
  for (int i = 0; i < 100; ++i) tags.push_back({fmt::format("tag {}", i), 1000 - i, 2});
  const std::vector<TaggedMemory> kept = largest_tags(tags, 10);
  ASSERT_EQ(kept.size(), 11u);
  EXPECT_EQ(kept[9].tag, "tag 9");
  EXPECT_EQ(kept[10].tag, "others");
  EXPECT_EQ(kept[10].blocks, 180);
  EXPECT_EQ(kept[10].bytes, 90 * 1000 - (10 + 99) * 90 / 2);
}

}  // namespace
}  // namespace isochron::observe
