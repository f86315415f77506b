// `isochron train` as users run it: the built command, its exit status and output.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <set>

#include "apps/command.h"
#include "isochron/apps/train/page.h"
#include "isochron/core/files/run_folder.h"
#include "isochron/observe/interleaved/ab_comparison.h"
#include "isochron/train/loop/history_log.h"
#include "support/sanitizers.h"
#include "support/temp_folder.h"

namespace isochron::apps {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Outcome train(const std::string& arguments) { return run_isochron("train " + arguments); }

TEST(TrainPage, DrawsLossesThatAreNumbers) {
  const auto plots = [](double first, double second) {
    train::HistoryLog log(2);
    log.add({.epoch = 1, .results = {{"loss", first}}});
    log.add({.epoch = 2, .results = {{"loss", second}}});
    std::vector<size_t> points;
    const observe::RunRecord record = train_record({}, "", {}, log.take(), {});
    for (const observe::Block& block : record.parts.front().blocks) {
      if (const auto* plot = std::get_if<observe::Plot>(&block))
        points.push_back(plot->series.front().y.size());
    }
    return points;
  };
  EXPECT_THAT(plots(2, 1), ElementsAre(2));
  EXPECT_THAT(plots(2, NAN), ElementsAre(1));
  EXPECT_THAT(plots(NAN, INFINITY), ElementsAre()) << "and no plot without a point, which can't be drawn";
}

class TrainCommand : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& name, const std::string& content) {
    const std::filesystem::path path = folder_.path() / name;
    std::ofstream(path) << content;
    return path;
  }

  static std::string content_of(const std::filesystem::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
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

TEST_F(TrainCommand, PlanningIsNotBlamedOnASingleEpoch) {
  const Outcome outcome = train("regress --epochs 1");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("inconclusive"), Not(HasSubstr("retraced"))));
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
  const std::string page = content_of(out / "report.html");
  EXPECT_THAT(page,
              AllOf(HasSubstr("<!doctype html>"), HasSubstr("Loss in training"), HasSubstr("always the mean"),
                    HasSubstr("prefers-color-scheme: dark"), HasSubstr("Time and memory over the run"),
                    HasSubstr("Time of an iteration over the run"), HasSubstr("Where the time goes")));
  EXPECT_THAT(page, Not(AnyOf(HasSubstr("src="), HasSubstr("href="), HasSubstr("url(")))) << "self-contained";
}

TEST_F(TrainCommand, ItsRunIsReportedAgainComparedAndWatched) {
  const std::string a = (folder_.path() / "a").string(), b = (folder_.path() / "b").string();
  ASSERT_EQ(train("regress --epochs 3 --steps 1000 --out " + a).status, 0);
  ASSERT_EQ(train("regress --epochs 3 --steps 1000 --batch 64 --out " + b).status, 0);
  const std::string page = content_of(folder_.path() / "a" / "report.html");
  std::filesystem::remove(folder_.path() / "a" / "report.html");
  const Outcome again = run_isochron("report " + a);
  EXPECT_THAT(again, Ends(0, "train regress"));
  EXPECT_EQ(content_of(folder_.path() / "a" / "report.html"), page) << "made of run.json, as the first";
  const std::filesystem::path verdicts = folder_.path() / "verdicts.json";
  EXPECT_THAT(run_isochron("report " + a + "/run.json --bound 50 --json " + verdicts.string()),
              Ends(0, "train regress"));
  EXPECT_GE(read_json(verdicts)[0]["time"]["bound"], 0.5) << "wider for steps that take little of the time";
  EXPECT_THAT(run_isochron("report " + a + " --require-flat"), Ends(1, "not found to be flat"));

  const std::filesystem::path both = folder_.path() / "both.html";
  const Outcome compared = run_isochron(fmt::format("report {} {} --out {}", a, b, both.string()));
  EXPECT_THAT(compared, Ends(0, "--batch"));
  EXPECT_THAT(compared.text, HasSubstr("median step"));
  EXPECT_THAT(content_of(both), HasSubstr("Settings that differ"));
  EXPECT_THAT(run_isochron(fmt::format("report {} {} --json x", a, b)), Ends(2, "is for one run"));
  EXPECT_THAT(run_isochron(fmt::format("report {} {} --require-flat", a, b)), Ends(2, "is for one run"));
  EXPECT_THAT(run_isochron(fmt::format("report {} {}", folder_.path().string(), b)),
              Ends(0, "over 2 and 1 runs"))
      << "a folder of runs' folders";
  EXPECT_THAT(run_isochron("report " + folder_.path().string()),
              Ends(2, "has no run.json; runs are in 2 folders"));

  EXPECT_THAT(run_isochron("watch " + a), Ends(0, "the run is over"));
  EXPECT_THAT(run_isochron("watch --once " + a), Ends(0, "epoch 3 of 3"));

  nlohmann::json live = read_json(folder_.path() / "a" / "live.json");
  live["process"] = 1e30;
  write("live.json", live.dump());
  EXPECT_THAT(run_isochron("watch " + folder_.path().string()), Ends(3, "'process' is not a whole number"));
}

TEST_F(TrainCommand, ReportsOfNothingAreErrors) {
  EXPECT_THAT(run_isochron("report " + folder_.path().string()), Ends(3, "run.json"));
  EXPECT_THAT(run_isochron("watch --once " + folder_.path().string()),
              Ends(3, "no run has written here yet"));
  EXPECT_THAT(run_isochron("watch " + (folder_.path() / "none").string()), Ends(3, "live.json"));
  write("run.json", "{\"format\": \"isochron run 1\"}");
  EXPECT_THAT(run_isochron("report " + folder_.path().string()), Ends(3, "not the record of a run"));
  write("run.json", "{\"format\": \"isoch");
  EXPECT_THAT(run_isochron("report " + folder_.path().string()).text,
              AllOf(HasSubstr("parse error at line 1"), Not(HasSubstr("json.exception"))));
  write("run.json", "[]");
  EXPECT_THAT(run_isochron("report " + folder_.path().string()), Ends(3, "expected an object whose"));
  write("run.json", R"({"format": "isochron run 1", "title": "none", "settings": {}, "parts": []})");
  EXPECT_THAT(run_isochron("report --require-flat " + folder_.path().string()), Ends(3, "contains no run"));
  write("live.json", "{\"format\": \"isochron live 1\", \"step\": 1}");
  EXPECT_THAT(run_isochron("watch " + folder_.path().string()), Ends(3, "live.json"));
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

TEST_F(TrainCommand, AccumulatesBatches) {
  const std::filesystem::path json = folder_.path() / "accumulated.json";
  // 63 batches of 16 in groups of 2; the last batch of an epoch is a group of its own. These are the updates
  // of 32 batches of 32, up to rounding.
  const auto loss = [&](const std::string& options) {
    const Outcome outcome =
        train("regress --epochs 4 --deterministic " + options + " --json " + json.string());
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    return read_json(json)["test"]["loss"].get<double>();
  };
  const double large = loss("--batch 32");
  EXPECT_NEAR(loss("--batch 16 --accumulate 2"), large, 1e-4 * large);
  EXPECT_EQ(read_json(json)["accumulate"], 2);
  EXPECT_GT(std::abs(loss("--batch 16") - large), 1e-3 * large);
}

TEST_F(TrainCommand, TrainsByEveryOptimizer) {
  for (const char* name : {"adam", "amsgrad", "adamw", "adamax", "nadam", "radam", "lamb", "lion", "rprop",
                           "rmsprop", "adagrad", "adadelta", "adafactor", "sgd", "momentum", "nesterov"}) {
    const std::filesystem::path json = folder_.path() / "optimizer.json";
    const Outcome outcome =
        train("regress --epochs 5 --optimizer " + std::string(name) + " --json " + json.string());
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    const nlohmann::json epochs = read_json(json)["epochs"];
    EXPECT_LT(epochs[4]["loss"], epochs[0]["loss"]) << name;
  }
}

TEST_F(TrainCommand, ADryRunWeighsTheMemoryAndTrainsNothing) {
  const Outcome outcome = train("regress --dry-run --optimizer adafactor");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  // 1,021 parameters of 4 bytes; Adafactor's 100 + 10 + 10 and 10 + 1 + 1 numbers.
  EXPECT_THAT(outcome.text, ContainsRegex("optimizer +parameters +gradients +optimizer state"));
  EXPECT_THAT(outcome.text, ContainsRegex("sgd +0\\.004 +0\\.004 +0\\.000 +0\\.0"));
  EXPECT_THAT(outcome.text, ContainsRegex("rmsprop +0\\.004 +0\\.004 +0\\.004 +0\\.0"));
  EXPECT_THAT(outcome.text, ContainsRegex("adam +0\\.004 +0\\.004 +0\\.008 +0\\.0"));
  EXPECT_THAT(outcome.text, ContainsRegex("adafactor +0\\.004 +0\\.004 +0\\.001 +0\\.0"));
  EXPECT_THAT(outcome.text, Not(HasSubstr("Epoch")));
}

TEST_F(TrainCommand, UsageMistakesExitWithTwo) {
  EXPECT_THAT(
      train("mnist"),
      Ends(2,
           "no model 'mnist'; models are digits, mlp, lenet, resnet20, resnet50, co2, lstm, gru, tcn, "
           "gpt, regress"));
  EXPECT_THAT(train(""), Ends(2, "model is required"));
  EXPECT_THAT(train("regress --epoch 3"), Ends(2, "--epoch"));
  EXPECT_THAT(train("regress --epochs 0"), Ends(2, "--epochs"));
  EXPECT_THAT(train("regress --batch -4"), Ends(2, "--batch"));
  EXPECT_THAT(train("regress --learning-rate nan"), Ends(2, "expected a finite number above 0, got 'nan'"));
  EXPECT_THAT(train("regress --learning-rate -1"), Ends(2, "--learning-rate"));
  EXPECT_THAT(train("regress --optimizer newton"), Ends(2, "newton"));
  EXPECT_THAT(train("regress --accumulate 0"), Ends(2, "--accumulate"));
  EXPECT_THAT(train("regress --steps 0"), Ends(2, "--steps"));
  EXPECT_THAT(train("regress --precision f8"), Ends(2, "--precision"));
  EXPECT_THAT(train("regress --data x.csv"), Ends(2, "regress generates its own data"));
  EXPECT_THAT(train("regress --threads 1000"), Ends(2, "thread"));
  EXPECT_THAT(train("regress --resume"), Ends(2, "--resume requires --checkpoint"));
  EXPECT_THAT(train("regress --checkpoint d --checkpoint-every 0"), Ends(2, "--checkpoint-every"));
  EXPECT_THAT(train("regress --log-level loud"), Ends(2, "log level 'loud' does not exist"));
}

TEST_F(TrainCommand, MixedPrecisionTrainsAsWellAndEqually) {
  const auto trained = [this](const std::string& precision) {
    const std::filesystem::path json = folder_.path() / "result.json";
    const Outcome outcome = train("digits --epochs 2 --threads 1 --deterministic --precision " + precision +
                                  " --json " + json.string());
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(outcome.text.find("\n" + precision + ": ") != std::string::npos, precision != "f32");
    const nlohmann::json result = read_json(json);
    EXPECT_EQ(result["precision"], precision);
    return result["test"]["loss"].get<double>();
  };
  const double full = trained("f32");
  for (const std::string precision : {"mixed_bf16", "mixed_f16", "mixed_fp8"}) {
    if (kSanitizer && precision != "mixed_f16") continue;
    const double half = trained(precision);
    EXPECT_NEAR(half, full, 0.02 * full);
    EXPECT_NE(half, full);
    EXPECT_EQ(half, trained(precision)) << "choices by rule: equal bits";
    const nlohmann::json last = read_json(folder_.path() / "result.json")["epochs"][1];
    EXPECT_EQ(last.contains("loss_scale"), precision == "mixed_f16");
    EXPECT_EQ(last.contains("skipped_steps"), precision == "mixed_f16");
  }
}

TEST_F(TrainCommand, ADeviceThatCantBeHadIsSaidAtOnce) {
  EXPECT_THAT(train("regress --device tpu"), Ends(2, "'tpu' is not a device; devices are cpu, cuda and"));
  EXPECT_THAT(train("regress --device cuda --dry-run"), Ends(2, "--dry-run works on the CPU only so far"));
  EXPECT_THAT(train("regress --device cuda:99"), Ends(2, "[cuda]")) << "no driver, or no such device";
}

TEST_F(TrainCommand, AnInterruptedRunIsJudgedToo) {
  const std::string run = "digits --epochs 4000 --steps 4 --batch 16 --checkpoint " +
                          (folder_ / "saved").string() + " --out " + (folder_ / "out").string();
  const std::string command = "timeout --signal=TERM --preserve-status 6 " + std::string(ISOCHRON_COMMAND) +
                              " train " + run + " >" + (folder_ / "text").string() + " 2>&1";
  ASSERT_EQ(WEXITSTATUS(std::system(command.c_str())), 143) << content_of(folder_ / "text");
  EXPECT_THAT(content_of(folder_ / "text"),
              AllOf(HasSubstr("train digits"), HasSubstr("continue with --resume")));
  const nlohmann::json result = read_json(folder_ / "out" / "train.json");
  EXPECT_GT(result["epochs"].size(), 1u);
  EXPECT_GT(result["epochs"][0]["val_accuracy"].get<double>(), 0) << "measured after every epoch";
  EXPECT_GT(result["report"]["iterations"].get<int64_t>(), 4);
  EXPECT_THAT(content_of(folder_ / "out" / "report.html"), HasSubstr("interrupted"));
  EXPECT_THAT(run_isochron("report " + (folder_ / "out").string()), Ends(0, "train digits"));
}

TEST_F(TrainCommand, SavesWeightsAloneEverySoManyEpochs) {
  const std::string run = "digits --epochs 11 --steps 2 --batch 16 --weights-only --checkpoint-epochs 5";
  const std::filesystem::path folder = folder_ / "weights", named = folder_ / "named";
  const Outcome outcome = train(run + " --checkpoint " + folder.string());
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  const auto names_in = [](const std::filesystem::path& where) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(where))
      if (entry.path().extension() == ".safetensors") names.insert(entry.path().stem());
    return names;
  };
  EXPECT_THAT(names_in(folder), ElementsAre("cp-0005", "cp-0010", "weights"));
  EXPECT_THAT(outcome.text, HasSubstr("cp-0010.safetensors\n")) << "a line when it saves";
  EXPECT_LT(std::filesystem::file_size(folder / "cp-0010.safetensors"),
            std::filesystem::file_size(folder / "weights.safetensors") * 11 / 10)
      << "no state of the optimizer";
  EXPECT_EQ(
      train(run + " --keep-checkpoints 1 --checkpoint-name 'best-{epoch}' --checkpoint " + named.string())
          .status,
      0);
  EXPECT_THAT(names_in(named), ElementsAre("best-10", "weights"));
  EXPECT_THAT(train(run + " --resume --checkpoint " + folder.string()), Ends(2, "excludes"));
  EXPECT_THAT(train(run), Ends(2, "requires --checkpoint"));
  for (const char* name : {"../cp", "weights", "weights.safetensors", "a/b"}) {
    EXPECT_THAT(train(run + " --checkpoint-name " + name + " --checkpoint " + (folder_ / "new").string()),
                Ends(2, "--checkpoint-name"));
  }
  EXPECT_THAT(train(run + " --checkpoint-name 'cp-{epok}' --checkpoint " + (folder_ / "new").string()),
              Ends(2, "it may contain epoch, step"));
}

TEST_F(TrainCommand, AResumedRunEndsWithTheSameWeights) {
  const std::string whole = (folder_ / "whole").string(), parts = (folder_ / "parts").string();
  const std::string run = "digits --steps 20 --batch 16 --deterministic --checkpoint ";
  const Outcome uninterrupted = train(run + whole + " --epochs 3 --resume --log-level info");
  EXPECT_EQ(uninterrupted.status, 0) << uninterrupted.text;
  EXPECT_THAT(uninterrupted.text, AllOf(HasSubstr("isochron: info: cp-0003-00000060.safetensors: written"),
                                        HasSubstr("checkpoints written")));
  // A run of two epochs would have another schedule, so the first part is a run ended by a signal.
  const std::string interrupted = "timeout --signal=TERM --preserve-status 0.3 " +
                                  std::string(ISOCHRON_COMMAND) + " train " + run + parts +
                                  " --epochs 3 --checkpoint-every 4 >/dev/null 2>&1";
  const int status = std::system(interrupted.c_str());
  EXPECT_THAT(WEXITSTATUS(status), AnyOf(143, 0));
  const Outcome resumed = train(run + parts + " --epochs 3 --checkpoint-every 4 --resume");
  EXPECT_EQ(resumed.status, 0) << resumed.text;
  EXPECT_EQ(content_of(folder_ / "parts" / "weights.safetensors"),
            content_of(folder_ / "whole" / "weights.safetensors"));
  const Outcome again = train(run + whole + " --epochs 3 --resume --out " + (folder_ / "out").string());
  EXPECT_THAT(again, Ends(0, "cp-0003-00000060.safetensors (epoch 3, step 20)"));
  const nlohmann::json result = read_json(folder_ / "out" / "train.json");
  EXPECT_EQ(result["epochs"].size(), 3u) << "those of the run before";
  EXPECT_EQ(result["report"]["iterations"], 2 * 20) << "and its times";
  EXPECT_THAT(train(run + whole), Ends(2, "contains checkpoints of an earlier run"));
  const std::string weights =
      "regress --epochs 1 --steps 2 --weights-only --checkpoint " + (folder_ / "weights").string();
  EXPECT_EQ(train(weights).status, 0);
  EXPECT_THAT(train(weights), Ends(2, "contains weights of an earlier run"));
}

TEST_F(TrainCommand, FilesMayLieInTheFoldersThatItMakes) {
  const std::string out = (folder_ / "out").string();
  EXPECT_THAT(train("regress --epochs 1 --steps 2 --out " + out + " --json " + out + "/more.json"),
              Ends(0, "test"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out" / "more.json"));
}

/// Training of the smallest model for eight epochs, a few seconds of steps.
constexpr int kStepsAnEpoch = kSanitizer ? 5'000 : 100'000;

TEST_F(TrainCommand, IsBesideItsTwinAndTrainsAsWithout) {
  const std::string run =
      fmt::format("regress --epochs 8 --steps {} --deterministic --checkpoint ", kStepsAnEpoch);
  const std::string with = (folder_ / "with").string(), without = (folder_ / "without").string();
  const Outcome beside = train(run + with + " --beside-twin --tensorboard " + (folder_ / "tb").string() +
                               " --out " + (folder_ / "out").string());
  ASSERT_EQ(beside.status, 0) << beside.text;
  EXPECT_THAT(beside.text, Not(HasSubstr("too short to alternate")));
  EXPECT_EQ(train(run + without).status, 0);
  EXPECT_EQ(content_of(folder_ / "with" / "weights.safetensors"),
            content_of(folder_ / "without" / "weights.safetensors"));
  const nlohmann::json result = read_json(folder_ / "out" / "train.json");
  EXPECT_EQ(result["epochs"].size(), 8u);
  // What is judged again later is judged beside the twin too.
  const nlohmann::json record = read_json(folder_ / "out" / "run.json");
  const nlohmann::json& turns = record["parts"][1]["run"]["turns"];
  EXPECT_GE(turns["before"].size(), observe::kMinTurnPairs);
  EXPECT_GE(turns["after"].size(), observe::kMinTurnPairs);
}

TEST_F(TrainCommand, ATwinNeedsARunOfKnownLength) {
  EXPECT_THAT(train("regress --epochs 1 --steps 20 --beside-twin"),
              Ends(2, "--beside-twin needs at least two epochs with a known number of steps"));
  EXPECT_THAT(train("regress --epochs 2 --steps 200 --beside-twin"),
              Ends(0, "too short to alternate with its twin twice"));
  EXPECT_THAT(train("regress --epochs 2 --steps 200 --require-flat"),
              Ends(1, "too short to alternate with its twin twice"));
  const Outcome alone = train("regress --epochs 2 --steps 200 --require-flat --no-beside-twin");
  EXPECT_THAT(alone, Ends(1, "the time of a step was not found to be flat"));
  EXPECT_THAT(alone.text, AllOf(HasSubstr("too short: "), Not(HasSubstr("twin"))));
  EXPECT_THAT(train("regress --beside-twin --resume --checkpoint " + (folder_ / "run").string()),
              Ends(2, "excludes"));
}

TEST_F(TrainCommand, ARunIsResumedUnderItsOwnSettingsAlone) {
  const std::string run = "regress --steps 20 --threads 1 --checkpoint " + (folder_ / "run").string();
  EXPECT_THAT(train(run + " --epochs 1 --accumulate 2"), Ends(0, ""));
  EXPECT_THAT(train(run + " --epochs 2 --resume --accumulate 5 --optimizer lamb --seed 3"),
              Ends(2, "--seed: 0 in the checkpoint, 3 here; --optimizer: adam in the checkpoint, lamb here"));
  EXPECT_THAT(train(run + " --epochs 2 --resume --accumulate 5"),
              Ends(2, "--accumulate times ranks: 2 in the checkpoint, 5 here"));
  EXPECT_THAT(train(run + " --epochs 2 --resume --accumulate 2"), Ends(0, "")) << "more epochs are welcome";
}

TEST_F(TrainCommand, ARunIsResumedOnItsOwnDataAlone) {
  std::string row;
  for (int i = 0; i < 64; ++i) row += "3,";
  const std::string one = row + "1\n", two = row + "2\n";
  std::string both;
  for (int i = 0; i < 10; ++i) both += one + two;
  const std::string run =
      "digits --batch 4 --steps 2 --checkpoint " + (folder_ / "run").string() + " --data ";
  EXPECT_THAT(train(run + write("a.csv", both).string() + " --epochs 2"), Ends(0, ""));
  EXPECT_THAT(train(run + write("b.csv", both).string() + " --epochs 2 --resume"), Ends(0, "resumed from"))
      << "the same elsewhere";
  EXPECT_THAT(train(run + write("b.csv", two + one + both.substr(one.size() + two.size())).string() +
                    " --epochs 2 --resume"),
              Ends(2, "content of the data: "));
}

TEST_F(TrainCommand, EveryKindOfModelSaysWhereItGoesOn) {
  for (const std::string model : {"regress", "mlp", "co2", "gpt"}) {
    const std::string run =
        model + " --epochs 1 --steps 3 --batch 4 --threads 1 --checkpoint " + (folder_ / model).string();
    const Outcome fresh = train(run);
    EXPECT_EQ(fresh.status, 0) << fresh.text;
    EXPECT_THAT(fresh.text, Not(HasSubstr("resumed from")));
    EXPECT_THAT(train(run + " --resume"), Ends(0, "resumed from")) << model;
  }
}

TEST_F(TrainCommand, AFolderOfCheckpointsHasOneProcess) {
  const std::filesystem::path folder = folder_ / "run";
  std::filesystem::create_directory(folder);
  const FolderLock lock(folder);
  EXPECT_THAT(train("regress --epochs 1 --steps 5 --checkpoint " + folder.string()),
              Ends(3, "is in use by another process"));
}

TEST_F(TrainCommand, AnOverflowThatWasSkippedIsNoFault) {
  EXPECT_THAT(train("regress --epochs 1 --steps 4 --batch 1 --precision mixed_f16 --accumulate 4 --threads 1 "
                    "--learning-rate 1e-4"),
              Ends(0, ""));
}

TEST_F(TrainCommand, ADryRunWeighsItsPrecisionAndLeavesNothing) {
  const std::string run = "digits --batch 256 --dry-run --checkpoint " + (folder_ / "new").string();
  const Outcome full = train(run), half = train(run + " --precision mixed_bf16");
  EXPECT_EQ(full.status, 0) << full.text;
  EXPECT_EQ(half.status, 0) << half.text;
  EXPECT_NE(full.text, half.text);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "new"));
}

TEST_F(TrainCommand, WritesScalarsForTensorBoard) {
  const Outcome outcome = train("digits --epochs 1 --steps 2 --tensorboard " + (folder_ / "logs").string());
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_FALSE(std::filesystem::is_empty(folder_ / "logs" / "train"));
}

TEST_F(TrainCommand, WritesATraceTheTableOfKernelsAndTheGraphs) {
  const Outcome outcome = train(
      fmt::format("regress --epochs 2 --steps 20 --trace {0}/trace.json --graphs {0}/graphs --out {0}/out",
                  folder_.path().string()));
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("kernels of 'train step', 18 calls recorded"),
                                  HasSubstr("graphs of 'train step' for (f32(32, ")));
  EXPECT_FALSE(read_json(folder_ / "trace.json")["traceEvents"].empty());
  EXPECT_EQ(read_json(folder_ / "out" / "kernels.json")["steps"], 18) << "of the first epoch, from 3";
  EXPECT_TRUE(std::filesystem::exists(folder_ / "graphs" / "01-train_step" / "00-forward.dot"));
}

TEST_F(TrainCommand, TracedStepsMustBeARange) {
  const std::string trace = "regress --trace " + (folder_ / "trace.json").string() + " --trace-steps ";
  for (const char* steps :
       {"5:2", "0", "0:3", "-1", "-1:3", "1:", ":3", "2:x", "1:2:3", "99999999999999999999"}) {
    EXPECT_THAT(train(trace + steps), Ends(2, "expected N or FROM:TO")) << steps;
  }
  EXPECT_THAT(train("regress --trace-steps 3"), Ends(2, "--trace"));
  EXPECT_THAT(train(trace + "500:510 --steps 20"),
              Ends(0, "contains no complete step: the run had none of the steps of --trace-steps 500:510"));
  EXPECT_THAT(train("regress --trace /nowhere/trace.json"), Ends(3, "/nowhere"));
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
  EXPECT_THAT(train("regress --epochs 2 --require-flat"), Ends(1, "not found to be flat"));
  EXPECT_THAT(train("regress --optimizer sgd --learning-rate 1e20"),
              Ends(1, "of epoch 1 is NaN or infinite"));
}

TEST_F(TrainCommand, AnOutputThatCannotBeWrittenIsAnError) {
  const std::string blocked = write("file", "").string();
  EXPECT_THAT(train("regress --epochs 1 --out " + blocked + "/below"), Ends(3, blocked));
}

TEST_F(TrainCommand, ForecastersStateBothBaselines) {
  for (const std::string model : {"co2", "lstm", "gru", "tcn"}) {
    const Outcome outcome = train(model + " --epochs 1 --steps 3 --batch 8 --out " + folder_.path().string());
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_THAT(outcome.text, AllOf(HasSubstr("1 epoch of 3 steps, batch 8"),
                                    ContainsRegex("this model +[0-9.]+ ppm RMSE  [0-9.]+ ppm MAE"),
                                    HasSubstr("same as last week     0.5261 ppm RMSE"),
                                    HasSubstr("last year plus trend  0.753 ppm RMSE")));
    EXPECT_THAT(content_of(folder_ / "report.html"),
                AllOf(HasSubstr("Forecast and truth over the test years"), HasSubstr("The last two years"),
                      HasSubstr("forecast one week ahead"), HasSubstr("0.5261")));
  }
}

TEST_F(TrainCommand, ClassifiersTrainOnDigitsScaledUpAndSaySo) {
  const auto first_line = [&](const std::string& model) {
    const Outcome outcome = train(model + " --epochs 1 --steps 2 --batch 4");
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_THAT(outcome.text, AllOf(ContainsRegex("this model +0\\.[0-9]+ accuracy"),
                                    ContainsRegex("nearest class mean +0\\.8[67][0-9]+ accuracy")));
    return outcome.text.substr(0, outcome.text.find('\n'));
  };
  EXPECT_EQ(first_line("mlp"), "digits: 1437 images of 8 x 8 for training, 360 for testing");
  EXPECT_THAT(first_line("lenet"),
              HasSubstr("1437 images of 32 x 32 for training, 360 for testing (8 x 8 scaled up"));
  EXPECT_THAT(first_line("resnet20"), HasSubstr("scaled up, the gray channel three times; --data FOLDER"));
}

TEST_F(TrainCommand, AFolderIsCifar) {
  std::string records;
  for (int label = 0; label < 10; ++label) {
    records += static_cast<char>(label) + std::string(3072, static_cast<char>(20 * label));
  }
  write("data_batch_1.bin", records + records);
  write("test_batch.bin", records);
  for (const std::string model : {"mlp", "resnet20"}) {
    const std::string run = fmt::format("{} --batch 8 --data {} --checkpoint {} --epochs", model,
                                        folder_.path().string(), (folder_ / ("run_" + model)).string());
    const Outcome outcome = train(run + " 2");
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_THAT(
        outcome.text,
        AllOf(HasSubstr("CIFAR-10: 20 images of 32 x 32 for training, 10 for testing\n"),
              HasSubstr("nearest class mean   1 accuracy"), HasSubstr("most frequent class  0.1 accuracy")));
    EXPECT_THAT(train(run + " 2 --resume"), Ends(0, "resumed from")) << "with the run's own files beside";
  }
  write("data_batch_1.bin", records + "1");
  EXPECT_THAT(train("resnet20 --data " + folder_.path().string()),
              Ends(3, "offset 30730: record 10 has 1 bytes of 3073"));
}

TEST_F(TrainCommand, GptLearnsAnAlternationAndWritesIt) {
  std::string text;
  while (text.size() < 4000) text += "ab";
  const std::string file = write("text.txt", text).string(), json = (folder_ / "gpt.json").string();
  const Outcome outcome = train("gpt --epochs 2 --steps 15 --batch 4 --data " + file + " --json " + json);
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, AllOf(HasSubstr("3600 characters of 1 file for training, 400 for validation, 2 "),
                                  ContainsRegex("Epoch 2/2  loss [0-9.]+  val_loss [0-9.]+  "),
                                  HasSubstr("frequencies of pairs"), HasSubstr("a sample of its text:")));
  const nlohmann::json result = read_json(json);
  EXPECT_LT(result["test"]["loss"], 0.1) << "chance is 0.69";
  EXPECT_LT(result["test"]["pair_frequencies_loss"], 0.01);
  EXPECT_NEAR(result["test"]["frequencies_loss"], 0.6931, 0.001);
  EXPECT_THAT(result["sample"].get<std::string>(), HasSubstr("abababab"));
}

TEST_F(TrainCommand, GptPrintsASampleOfAnyBytesAsText) {
  std::string bytes;
  while (bytes.size() < 4000) bytes += "\x85\xfe";
  const Outcome outcome =
      train("gpt --epochs 1 --steps 2 --batch 2 --data " + write("bytes", bytes).string());
  EXPECT_THAT(outcome, Ends(0, "a sample of its text:"));
  EXPECT_NO_THROW(nlohmann::json(outcome.text).dump()) << "is no UTF-8";
}

TEST_F(TrainCommand, GptNeedsText) {
  EXPECT_THAT(train("gpt --data " + (folder_ / "none").string()), Ends(3, "none"));
  EXPECT_THAT(train("gpt --data " + folder_.path().string()), Ends(3, "no text found"));
  EXPECT_THAT(train("gpt --data " + write("short.txt", "too little").string()),
              Ends(3, "short.txt] 10 characters are too few"));
}

TEST_F(TrainCommand, GptReadsTheProjectsOwnTextAndHelpListsAllModels) {
  const Outcome outcome = train("gpt --epochs 1 --steps 1 --batch 2");
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_THAT(outcome.text, ContainsRegex("text: [0-9]{6,} characters of [0-9]{2,} files for training"));
  EXPECT_THAT(train("--help"), Ends(0, "resnet20: the residual network for CIFAR-10"));
}

TEST_F(TrainCommand, DigitsLearnsInAFewEpochs) {
  const Outcome outcome = train("digits --epochs 4 --json " + (folder_ / "digits.json").string());
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  const nlohmann::json result = read_json(folder_ / "digits.json");
  EXPECT_GT(result["test"]["accuracy"], 0.9);
  EXPECT_THAT(outcome.text, ContainsRegex("Epoch 4/4  loss [0-9.]+  accuracy 0\\.[0-9]+  "));
}

}  // namespace
}  // namespace isochron::apps
