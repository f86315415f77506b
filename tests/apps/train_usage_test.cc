// What `isochron train` says about options that can't do what was asked for, or do nothing, and about what
// lies in its folders.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>

#include "apps/command.h"
#include "support/temp_folder.h"

namespace isochron::apps {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Outcome run_train(const std::string& arguments) { return run_isochron("train " + arguments); }

class TrainUsage : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string content_of(const fs::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  TempFolder folder_;
};

TEST_F(TrainUsage, AResumeWithoutACheckpointIsSaidAndOverwritesNoWeights) {
  const std::string run = "regress --epochs 1 --steps 2 --checkpoint ";
  EXPECT_THAT(run_train(run + path("new") + " --resume"),
              Ends(0, "no checkpoint in " + path("new") + ": starting from the beginning"));
  EXPECT_THAT(run_train(run + path("new") + " --resume").text, Not(HasSubstr("from the beginning")));
  EXPECT_EQ(run_train(run + path("weights") + " --weights-only").status, 0);
  const std::string weights = content_of(folder_ / "weights" / "weights.safetensors");
  EXPECT_THAT(run_train(run + path("weights") + " --resume"),
              Ends(2, "), but no checkpoint to resume from; name another folder"));
  EXPECT_EQ(content_of(folder_ / "weights" / "weights.safetensors"), weights);
}

TEST_F(TrainUsage, OptionsOfRanksNeedRanks) {
  EXPECT_THAT(run_train("regress --epochs 1 --patience 3"), Ends(2, "--patience is how long a rank waits"));
  EXPECT_THAT(run_train("regress --epochs 1 --patience-end 3"),
              Ends(2, "--patience-end is how long a rank waits"));
  EXPECT_THAT(run_train("regress --epochs 1 --bucket 64KiB"), Ends(2, "--bucket is the size in which ranks"));
}

TEST_F(TrainUsage, EarlyStoppingEndsItWhereTheValidationLossNoLongerFalls) {
  const Outcome outcome = run_train("regress --epochs 500 --early-stopping 2 --json " + path("run.json"));
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(content_of(folder_ / "run.json"),
              AllOf(HasSubstr("\"epoch\""), Not(HasSubstr("\"epoch\": 500"))));
  EXPECT_THAT(outcome.text, HasSubstr("val_loss")) << "says why it ended";
  EXPECT_THAT(run_train("regress --early-stopping 0"), Ends(2, "--early-stopping"));
}

TEST_F(TrainUsage, ClippedGradientsMakeNoHugeSteps) {
  const std::string run = "regress --epochs 1 --optimizer sgd --learning-rate 1e20";
  EXPECT_THAT(run_train(run), Ends(1, "NaN or infinite"));
  EXPECT_EQ(run_train(run + " --clip-norm 1e-22").status, 0);
  EXPECT_THAT(run_train("regress --clip-norm 0"), Ends(2, "--clip-norm"));
}

TEST_F(TrainUsage, FoldersInPlaceOfItsFilesAreSaidBeforeItTrains) {
  fs::create_directories(folder_ / "out" / "report.html");
  fs::create_directories(folder_ / "saved" / "weights.safetensors");
  for (const std::string& arguments : {"--out " + path("out"), "--checkpoint " + path("saved")}) {
    const Outcome outcome = run_train("regress --epochs 1 --steps 2 " + arguments);
    EXPECT_THAT(outcome, Ends(3, "is a folder; expected a file name"));
    EXPECT_THAT(outcome.text, Not(HasSubstr("Epoch")));
  }
}

TEST_F(TrainUsage, ADryRunSaysWhatItLeavesOut) {
  EXPECT_THAT(run_train("regress --dry-run --out " + path("out") + " --json " + path("x.json")),
              Ends(0, "a dry run writes no files: --out, --json left out"));
  EXPECT_THAT(run_train("regress --dry-run").text, Not(HasSubstr("left out")));
}

TEST_F(TrainUsage, ASaveOfTheSameStepIsCountedOnce) {
  const Outcome outcome = run_train(
      "digits --epochs 3 --steps 4 --batch 16 --checkpoint-every 1 --keep-checkpoints 0 --checkpoint " +
      path("saved"));
  EXPECT_THAT(outcome, Ends(0, "12 checkpoints written"));
  EXPECT_THAT(run_train("regress --epochs 1 --steps 2 --checkpoint " + path("one")),
              Ends(0, "1 checkpoint written"));
}

TEST_F(TrainUsage, AnEmptyValueIsNoValue) {
  EXPECT_THAT(run_train("regress --checkpoint ''"), Ends(2, "the value is empty"));
  EXPECT_THAT(run_train("regress --out="), Ends(2, ""));
}

TEST_F(TrainUsage, Tf32IsForDevicesAndSaidFirst) {
  for (const char* command : {"train regress", "bench tiny", "sweep batch"}) {
    const Outcome outcome = run_isochron(command + std::string(" --precision tf32"));
    EXPECT_THAT(outcome, Ends(2, "tf32 is for CUDA devices"));
    EXPECT_THAT(outcome.text, testing::StartsWith("isochron: [")) << "before anything is printed";
  }
}

TEST_F(TrainUsage, ADashIsStandardOutput) {
  const Outcome outcome =
      run_train("regress --epochs 1 --steps 2 --json - 2>" + path("texts") + " >" + path("data"));
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(read_json(folder_ / "data")["model"], "regress");
  EXPECT_THAT(content_of(folder_ / "texts"), AllOf(HasSubstr("Epoch 1"), HasSubstr("train regress")));
  EXPECT_FALSE(fs::exists("-"));
  EXPECT_THAT(run_train("regress --epochs 1000 --steps 2 --json - 2>&1 >/dev/full"),
              Ends(3, "standard output] could not be written completely"));
}

}  // namespace
}  // namespace isochron::apps
