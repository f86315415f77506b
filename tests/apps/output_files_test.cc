// No command overwrites its inputs, and none writes two outputs to the same file.
#include "isochron/apps/output_files.h"

#include <gmock/gmock.h>

#include <fstream>

#include "apps/command.h"
#include "isochron/apps/run_files.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::apps {
namespace {

namespace fs = std::filesystem;

class OutputFiles : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name) << content;
    return path(name);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string content(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void refused(const fs::path& input, const fs::path& output) const {
    EXPECT_ERROR(require_distinct({{"the file to read", input}}, {{"--json", output}}),
                 ErrorCode::kInvalidArgument, "is also the file to read; expected a separate file");
  }

  TempFolder folder_;
};

TEST_F(OutputFiles, AreToldFromInputsByWhateverName) {
  const fs::path file = write("a", "1");
  fs::create_directory(folder_ / "b");
  fs::create_symlink(file, folder_ / "link");
  fs::create_hard_link(file, folder_ / "hard");
  fs::create_directory_symlink(folder_ / ".", folder_ / "around");
  for (const char* name : {"a", "b/../a", "link", "hard", "around/a"}) {
    SCOPED_TRACE(name);
    refused(file, folder_ / name);
  }
  refused(file, fs::relative(file));
  EXPECT_NO_THROW(require_distinct({{"the file to read", file}}, {{"--json", folder_ / "c"}, {"--out", {}}}));
}

TEST_F(OutputFiles, AreToldApartBeforeTheyAreThere) {
  fs::create_symlink("later", folder_ / "link");
  const auto both = [&](const fs::path& a, const fs::path& b) {
    require_distinct({}, {{"--out", a}, {"--json", b}});
  };
  EXPECT_ERROR(both(folder_ / "later", folder_ / "link"), ErrorCode::kInvalidArgument,
               "[--json] '" + path("link") + "' is also the file of --out");
  EXPECT_ERROR(both(folder_ / "new/x", folder_ / "new/./x"), ErrorCode::kInvalidArgument, "[--json]");
  EXPECT_ERROR(both("same", "./same"), ErrorCode::kInvalidArgument, "[--json]");
  EXPECT_NO_THROW(both(folder_ / "x", folder_ / "y"));
  EXPECT_NO_THROW(both("/dev/null", "/dev/null")) << "keeps nothing";
}

TEST_F(OutputFiles, OfAnalyzeAndPlanAreNotTheirInputs) {
  std::string table = "step_ms\n";
  for (int i = 0; i < 20; ++i) table += "5.00\n";
  const std::string csv = write("t.csv", table), same = path("same");
  EXPECT_THAT(run_isochron("analyze " + csv + " --json " + csv),
              Ends(2, "[--json] '" + csv + "' is also the file to read"));
  EXPECT_THAT(run_isochron("analyze --out " + csv + " < " + csv), Ends(2, "[--out]"));
  EXPECT_THAT(run_isochron("analyze " + csv + " --json " + same + " --out " + same),
              Ends(2, "is also the file of --out"));
  EXPECT_EQ(content("t.csv"), table);
  EXPECT_FALSE(fs::exists(same));
  const std::string buffers = write("b.csv", "id,lower,upper,size\na,0,2,64\n");
  EXPECT_THAT(run_isochron("plan " + buffers + " --picture " + buffers),
              Ends(2, "is also the file of buffers"));
  EXPECT_EQ(content("b.csv"), "id,lower,upper,size\na,0,2,64\n");
}

TEST_F(OutputFiles, OfReportLeaveTheRunAsItIs) {
  fs::create_directories(folder_ / "runs/a");
  write("runs/a/run.json", "a run");
  for (const std::string run : {"runs/a", "runs/a/run.json"}) {
    SCOPED_TRACE(run);
    for (const char* option : {" --json ", " --out "})
      EXPECT_THAT(run_isochron("report " + path(run) + option + path("runs/a/run.json")),
                  Ends(2, "is also "));
  }
  EXPECT_THAT(run_isochron("report " + path("runs/a") + " --json " + path("runs/a/history.csv")),
              Ends(2, "is also history.csv of the run"));
  EXPECT_THAT(run_isochron("report " + path("runs/a") + " --json " + path("runs/a/report.html")),
              Ends(2, "is also the page"));
  EXPECT_THAT(
      run_isochron("report " + path("runs") + " " + path("runs") + " --out " + path("runs/a/run.json")),
      Ends(2, "is also "));
  EXPECT_EQ(content("runs/a/run.json"), "a run");
}

TEST_F(OutputFiles, OfTrainAreDifferentBeforeItTrains) {
  const auto train = [](const std::string& options) {
    return run_isochron("train regress --epochs 1 " + options);
  };
  const std::string out = path("q");
  EXPECT_THAT(train("--json " + path("j") + " --trace " + path("j")), Ends(2, "[--trace]"));
  for (const std::string_view name : kRunFiles)
    EXPECT_THAT(train("--out " + out + " --trace " + out + "/" + std::string(name)),
                Ends(2, "of the run; expected a separate file"));
  EXPECT_THAT(train("--checkpoint " + out + " --json " + out + "/weights.safetensors"),
              Ends(2, "is also what --checkpoint writes"));
  EXPECT_FALSE(fs::exists(out)) << "nothing was made";
  const std::string text = write("text", "to train on");
  EXPECT_THAT(run_isochron("train gpt --data " + text + " --json " + text),
              Ends(2, "is also the data to train on"));
  EXPECT_EQ(content("text"), "to train on");
  EXPECT_THAT(train("--dry-run --out " + out + " --json " + out + "/train.json"), Ends(0, ""))
      << "the same text";
}

TEST_F(OutputFiles, EveryFileOfARunIsKnown) {
  const std::string out = path("q");
  ASSERT_THAT(run_isochron("train regress --epochs 2 --out " + out), Ends(0, "test"));
  for (const auto& entry : fs::directory_iterator(out))
    EXPECT_TRUE(std::ranges::count(kRunFiles, entry.path().filename().string()) == 1) << entry.path();
}

TEST_F(OutputFiles, ADashIsStandardOutputAlone) {
  const std::string times = write("t.csv", "time_ms\n10\n11\n10\n11\n10\n11\n");
  const Outcome json = run_isochron("analyze --json - " + times + " 2>/dev/null");
  EXPECT_EQ(nlohmann::json::parse(json.text)["report"].is_null(), true) << json.text;
  EXPECT_THAT(run_isochron("analyze --json - " + times + " 2>&1 >/dev/null"), Ends(0, "t.csv: 6 iterations"));
  EXPECT_EQ(run_isochron("analyze --json - - 2>/dev/null < " + times).status, 0) << "and standard input";
  EXPECT_THAT(run_isochron("analyze --json - --out - " + times), Ends(2, "is also the file of --out"));
  EXPECT_EQ(run_isochron("analyze --json - " + times + " 2>/dev/null | head -c 1").text, "{");
  EXPECT_FALSE(fs::exists("-"));
  EXPECT_THAT(run_isochron("plan - < " + write("b.csv", "id,lower,upper,size\na,0,2,64\n")),
              Ends(0, "id,lower,upper,size,offset\na,0,2,64,0\n"));
}

TEST_F(OutputFiles, OfCompareAreDifferent) {
  EXPECT_THAT(run_isochron("compare --out " + path("c") + " --json " + path("c/report.html")),
              Ends(2, "is also report.html of --out"));
  EXPECT_FALSE(fs::exists(folder_ / "c"));
}

}  // namespace
}  // namespace isochron::apps
