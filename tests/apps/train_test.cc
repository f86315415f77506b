// `isochron train` as a user meets it: the built command, its exit status and what it prints.
#include <gmock/gmock.h>

#include <fstream>

#include "apps/command.h"
#include "support/temp_folder.h"

namespace isochron::apps {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

Outcome train(const std::string& arguments) { return run_isochron("train " + arguments); }

class TrainCommand : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& content) {
    const std::filesystem::path path = folder_.path() / name;
    std::ofstream(path) << content;
    return path;
  }

  TempFolder folder_;
};

TEST_F(TrainCommand, RegressPrintsTheDocumentsLines) {
  const Outcome outcome = train("regress");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  for (int epoch = 1; epoch <= 10; ++epoch) {
    EXPECT_THAT(outcome.text,
                ContainsRegex("\nEpoch " + std::to_string(epoch) + ", Time: [0-9]+\\.[0-9]{4} seconds\n"));
  }
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("adam, learning rate 0.001"), HasSubstr("inconclusive")));
}

TEST_F(TrainCommand, WritesWhatItFound) {
  const std::filesystem::path out = folder_.path() / "new" / "results", json = folder_.path() / "result.json";
  const Outcome outcome =
      train("regress --epochs 3 --optimizer momentum --out " + out.string() + " --json " + json.string());
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  const nlohmann::json result = read_json(json);
  EXPECT_EQ(result, read_json(out / "train.json"));
  EXPECT_EQ(result["epochs"].size(), 3u);
  EXPECT_EQ(result["epochs"][2]["steps"], 32);
  EXPECT_LT(result["epochs"][2]["loss"], result["epochs"][0]["loss"]);
  EXPECT_EQ(result["optimizer"], "momentum");
  EXPECT_EQ(result["learning_rate"], 0.01);
  EXPECT_EQ(result["report"]["iterations"], 2 * 32) << "the first epoch is warm-up";
  EXPECT_TRUE(std::filesystem::exists(out / "history.csv"));
  EXPECT_TRUE(std::filesystem::exists(out / "windows.csv"));
}

TEST_F(TrainCommand, SameSeedSameLosses) {
  const auto loss = [&](int seed) {
    const std::filesystem::path json = folder_.path() / "seed.json";
    const Outcome outcome = train("regress --epochs 2 --deterministic --seed " + std::to_string(seed) +
                                  " --json " + json.string());
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return read_json(json)["test"]["loss"].get<double>();
  };
  const double first = loss(4);
  EXPECT_EQ(first, loss(4));
  EXPECT_NE(first, loss(5));
}

TEST_F(TrainCommand, UsageMistakesExitWithTwo) {
  EXPECT_THAT(train("mnist"), Ends(2, "no model 'mnist'; models are digits, co2, regress"));
  EXPECT_THAT(train(""), Ends(2, "model is required"));
  EXPECT_THAT(train("regress --epoch 3"), Ends(2, "--epoch"));
  EXPECT_THAT(train("regress --epochs 0"), Ends(2, "--epochs"));
  EXPECT_THAT(train("regress --batch -4"), Ends(2, "--batch"));
  EXPECT_THAT(train("regress --learning-rate nan"), Ends(2, "expected a finite number above 0, got 'nan'"));
  EXPECT_THAT(train("regress --learning-rate -1"), Ends(2, "--learning-rate"));
  EXPECT_THAT(train("regress --optimizer adagrad"), Ends(2, "adagrad"));
  EXPECT_THAT(train("regress --data x.csv"), Ends(2, "regress draws its own data"));
  EXPECT_THAT(train("regress --threads 1000"), Ends(2, "thread"));
}

TEST_F(TrainCommand, WhatIsNotBuiltIsRefused) {
  EXPECT_THAT(train("regress --precision mixed_bf16"), Ends(2, "--precision mixed_bf16 is not built yet"));
  EXPECT_THAT(train("regress --device cuda"), Ends(2, "--device cuda is not built yet"));
  EXPECT_THAT(train("regress --accumulate 8"), Ends(2, "--accumulate is not built yet"));
  EXPECT_THAT(train("regress --checkpoint d"), Ends(2, "--checkpoint and --resume is not built yet"));
  EXPECT_THAT(train("regress --resume"), Ends(2, "--checkpoint and --resume is not built yet"));
  EXPECT_THAT(train("regress --tensorboard d"), Ends(2, "--tensorboard is not built yet"));
}

TEST_F(TrainCommand, BadDataExitsWithThree) {
  std::string row;
  for (int i = 0; i < 64; ++i) row += "3,";
  const std::string good = row + "7\n";
  EXPECT_THAT(train("digits --data " + (folder_.path() / "none.csv").string()), Ends(3, "none.csv"));
  EXPECT_THAT(train("digits --data " + write("short.csv", good + "1,2\n").string()), Ends(3, "line 2"));
  EXPECT_THAT(train("digits --data " + write("text.csv", good + row + "seven\n").string()),
              Ends(3, "'seven'"));
  EXPECT_THAT(train("digits --data " + write("label.csv", good + row + "12\n").string()),
              Ends(3, "expected a whole number in [0, 9], got 12"));
  EXPECT_THAT(train("co2 --data " + write("weeks.csv", "date,co2\n19800105,340\n19800107,341\n").string()),
              Ends(3, "weeks.csv"));
}

TEST_F(TrainCommand, FailedChecksExitWithOne) {
  EXPECT_THAT(train("regress --epochs 2 --require-flat"), Ends(1, "not found flat"));
  EXPECT_THAT(train("regress --optimizer sgd --learning-rate 1e20"),
              Ends(1, "of epoch 1 is NaN or infinite"));
}

TEST_F(TrainCommand, AnOutputThatCannotBeWrittenIsAnError) {
  const std::string blocked = write("file", "").string();
  EXPECT_THAT(train("regress --epochs 1 --out " + blocked + "/below"), Ends(3, blocked));
}

TEST_F(TrainCommand, Co2StatesBothBaselines) {
  const Outcome outcome = train("co2 --epochs 1");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(ContainsRegex("same as last week +0\\.[0-9]+ ppm RMSE"),
                                  ContainsRegex("last year plus trend +0\\.[0-9]+ ppm RMSE"),
                                  ContainsRegex("this model +[0-9.]+ ppm RMSE")));
}

TEST_F(TrainCommand, DigitsLearnsInAFewEpochs) {
  const std::filesystem::path json = folder_.path() / "digits.json";
  const Outcome outcome = train("digits --epochs 2 --json " + json.string());
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  const nlohmann::json result = read_json(json);
  EXPECT_GT(result["test"]["accuracy"], 0.9);
  EXPECT_THAT(outcome.text, ContainsRegex("Epoch 2/2  loss [0-9.]+  accuracy 0\\.[0-9]+  "));
}

}  // namespace
}  // namespace isochron::apps
