// What the command reports about memory: moments side by side, the plan as a picture, sealed runs.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "apps/command.h"
#include "isochron/observe/export/memory_report.h"
#include "isochron/observe/export/plan_picture.h"
#include "isochron/observe/export/run_record.h"
#include "support/sanitizers.h"
#include "support/temp_folder.h"

namespace isochron::apps {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string file_content(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(MemoryCommand, SealedRunsOfTheTrainersPass) {
  const std::string digits = kSanitizer ? "digits --steps 20 --epochs " : "digits --epochs ";
  for (const std::string& run : {digits + "2", std::string("co2 --epochs 2 --steps 30"),
                                 std::string("gpt --epochs 2 --steps 4 --batch 2"),
                                 std::string("regress --epochs 3 --accumulate 4"), digits + "1"}) {
    EXPECT_THAT(run_isochron("train " + run + " --enforce-sealed"), Ends(0, "test: ")) << run;
  }
  EXPECT_THAT(run_isochron("bench --case tiny --steps 200 --enforce-sealed"), Ends(0, "tiny"));
}

TEST(MemoryCommand, TrainTellsWhoOwnsTheMemoryAndDrawsThePlan) {
  const TempFolder folder;
  const Outcome outcome =
      run_isochron("train regress --epochs 3 --memory-at 40,64 --out " + folder.path().string());
  EXPECT_THAT(outcome, Ends(0, "after warm-up"));
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("step 40"), HasSubstr("step 64"), HasSubstr("\n  plans' arenas"),
                                  HasSubstr("\ntag weights"), HasSubstr("\nlive tensors"),
                                  HasSubstr("From step 32 (after warm-up) to step 96 (end)")));
  const nlohmann::json result = read_json(folder.path() / "train.json");
  const std::vector<observe::MemoryMoment> moments =
      observe::memory_from_json(result["memory"].dump(), "train.json");
  ASSERT_EQ(moments.size(), 4u);
  for (const observe::MemoryMoment& moment : moments) {
    EXPECT_GT(moment.resident.planned, 0);
    if (kSanitizer) continue;  // the sanitizer uses memory of its own
    EXPECT_LT(std::abs(moment.resident.unexplained), std::max<int64_t>(moment.resident.total / 20, 1 << 20));
  }
  const observe::RunRecord record = observe::read_run_record(folder.path());
  const auto part = std::ranges::find_if(record.parts, [](const auto& one) { return one.plan.has_value(); });
  ASSERT_NE(part, record.parts.end());
  ASSERT_EQ(part->memory.size(), moments.size());
  for (size_t i = 0; i < moments.size(); ++i) EXPECT_EQ(part->memory[i].resident, moments[i].resident);
  EXPECT_EQ(file_content(folder.path() / "plan.svg"), observe::plan_svg(*part->plan));
  EXPECT_THAT(file_content(folder.path() / "report.html"),
              AllOf(HasSubstr("Memory by owner"), HasSubstr("The memory plan"), HasSubstr("class=\"plan\"")));
}

TEST(MemoryCommand, BenchReconcilesMemoryAfterACase) {
  EXPECT_THAT(run_isochron("bench --case tiny --steps 100 --memory"), Ends(0, "\ntag arena"));
  const Outcome outcome = run_isochron("bench --case tiny --steps 100 --memory --json");
  const nlohmann::json line = nlohmann::json::parse(outcome.text);
  EXPECT_EQ(observe::memory_from_json(line["memory"].dump(), "bench").front().name, "tiny");
}

TEST(MemoryCommand, PlanDrawsAFileOfBuffers) {
  const TempFolder folder;
  const std::filesystem::path csv = folder.path() / "buffers.csv", svg = folder.path() / "plan.svg";
  std::ofstream(csv) << "id,lower,upper,size\na<b,0,2,4096\nc,1,4611686018427387904,64\n";
  EXPECT_THAT(run_isochron("plan " + csv.string() + " --picture " + svg.string()), Ends(0, "c,1,"));
  EXPECT_THAT(file_content(svg),
              AllOf(HasSubstr("<title>a&lt;b\nbuffer, 4.10 KB"), HasSubstr("buffers.csv")));
  std::ofstream(csv) << "id,lower,upper,size\n";
  EXPECT_THAT(run_isochron("plan " + csv.string() + " --picture " + svg.string()), Ends(0, "id,lower"));
  EXPECT_THAT(file_content(svg), HasSubstr("0 buffers"));
}

TEST(MemoryCommand, StepsCountFromOne) {
  EXPECT_THAT(run_isochron("train regress --memory-at 0"), Ends(2, "--memory-at"));
  EXPECT_THAT(run_isochron("train regress --memory-at 5,x"), Ends(2, "--memory-at"));
}

}  // namespace
}  // namespace isochron::apps
