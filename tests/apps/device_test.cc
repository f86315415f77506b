// The bundled trainers on a simulated device, compared with the CPU.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "apps/command.h"
#include "isochron/apps/commands.h"
#include "support/simulated/training_gpu.h"
#include "support/temp_folder.h"

namespace isochron::apps {
namespace {

struct Training {
  const char* name;
  std::string arguments;  // {}: a file of weeks
};

class TrainedOnADevice : public testing::TestWithParam<Training> {};

/// Runs the command in this process on a simulated device; returns its exit status.
int status_of(const std::string& line) {
  std::vector<std::string> words = {"isochron"};
  std::istringstream text(line);
  for (std::string word; text >> word;) words.push_back(word);
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  return run_command(static_cast<int>(argv.size()), argv.data());
}

Outcome run_on_device(const std::string& line) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status = status_of(line);
  return {status, testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr()};
}

/// The training and test losses.
std::vector<double> losses(const std::string& arguments, const std::string& device,
                           const std::filesystem::path& json) {
  const Outcome outcome =
      run_on_device("train " + arguments + " --seed 3 --device " + device + " --json " + json.string());
  EXPECT_EQ(outcome.status, 0) << arguments << " on " << device << ":\n" << outcome.text;
  if (outcome.status != 0) return {};
  const nlohmann::json document = read_json(json);
  std::vector<double> result;
  for (const auto& epoch : document["epochs"]) result.push_back(epoch["loss"].get<double>());
  if (document["test"].contains("loss")) result.push_back(document["test"]["loss"].get<double>());
  return result;
}

TEST(TrainingOnADevice, KeepsToItsMemoryLimit) {
  const TempFolder folder;
  EXPECT_THAT(run_on_device("train regress --memory-limit 4MB"), Ends(2, "name one with --device"));
  EXPECT_THAT(run_on_device("train regress --device cuda --memory-limit -4MB"),
              Ends(2, "expected a number of bytes"));
  {
    const TrainingGpu simulated;
    EXPECT_THAT(run_on_device("train regress --device cuda --memory-limit 1kB"),
                Ends(2, "takes at least 65536 at once"));
    EXPECT_THAT(run_on_device("train regress --device cuda --memory-limit 0"),
                Ends(2, "takes at least 65536 at once"));
    EXPECT_FALSE(
        losses("regress --epochs 1 --steps 3 --memory-limit 4MB", "cuda", folder / "a.json").empty());
    EXPECT_LE(cuda::gpu(SimulatedGpu::kDevice)->pool().stats().reserved_bytes, 4'000'000u);
    EXPECT_THAT(run_on_device("train regress --device cuda --memory-limit 4MB"),
                Ends(2, "limit its memory before"));
  }
  const TrainingGpu another;
  // Small batches: ways of computing are timed before.
  EXPECT_THAT(run_on_device("train digits --device cuda --epochs 1 --batch 16 --memory-limit 2200kB"),
              Ends(4, " of the 16 rows"));
}

/// Parses only the first line as JSON, because sanitizers add lines of their own.
nlohmann::json first_line(const Outcome& outcome) {
  return nlohmann::json::parse(outcome.text.substr(0, outcome.text.find('\n')));
}

TEST(OnADevice, CasesOfTheBenchAreTimed) {
  const TrainingGpu simulated;
  const Outcome outcome = run_on_device("bench --case tiny --device cuda --steps 5 --json");
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  const nlohmann::json measured = first_line(outcome);
  EXPECT_EQ(measured["device"], "Simulated Device");
  EXPECT_EQ(measured["steps"], 5);
  // Equal where steps in order were measured to be faster than independent ones side by side.
  EXPECT_LE(measured["longest_chain"], measured["instructions"]);
  EXPECT_LE(measured["instructions"], measured["device_nodes"]);
  EXPECT_LE(measured["device_nodes"], 9) << "what the driver starts at each step";
  EXPECT_EQ(measured["predicted_us"], 0) << "nobody has a data sheet of it";
  const Outcome predicted = run_on_device("bench --case tiny --device cuda --steps 5 --predict h100");
  EXPECT_THAT(predicted, Ends(0, "predicted from the data sheet of NVIDIA H100"));
  EXPECT_THAT(run_on_device("bench --case tiny --predict h100"), Ends(2, "add --device cuda"));
  const Outcome in_order = run_on_device("bench --case tiny --device cuda --steps 5 --json --in-order");
  const nlohmann::json linear = first_line(in_order);
  EXPECT_EQ(linear["longest_chain"], linear["instructions"]);
  EXPECT_THAT(run_on_device("bench --case data --device cuda"),
              Ends(2, "runs on the CPU only; leave --device out"));
}

TEST(OnADevice, PlainKernelsAreTimedWhereThatIsAskedForAlone) {
  const TrainingGpu simulated({}, false, /*libraries=*/false);
  EXPECT_THAT(run_on_device("bench --case tiny --device cuda --steps 3"),
              Ends(2, "matrix products would run in plain kernels, which are slow"));
  const Outcome plain = run_on_device("bench --case tiny --device cuda --steps 3 --plain-kernels");
  EXPECT_THAT(plain, Ends(0, "In plain kernels, without NVIDIA's libraries: matrix products."));
  EXPECT_THAT(plain.text, testing::HasSubstr("nodes  chain"));
}

TEST(OnADevice, OpsAndPartsAreVerified) {
  const TrainingGpu simulated;
  const std::string verify = "doctor --device cuda --verify ";
  EXPECT_THAT(run_on_device(verify + "--op add --part conditions transfers"),
              Ends(0, "82 calls of 1 op and 2 parts: all agree with the CPU"));
  EXPECT_THAT(run_on_device(verify + "--part nothing"),
              Ends(2, "there are conditions, side-by-side, transfers"));
  EXPECT_THAT(run_on_device("doctor --list-parts"), Ends(0, "conditions\nside-by-side\ntransfers\n"));
  simulated.controls->fail("begin_capture", 1, ErrorCode::kDevice);
  EXPECT_THAT(run_on_device(verify + "--part conditions"), Ends(1, "conditions: 1 of 1 calls differ"));
}

TEST(OnADevice, ScenariosRun) {
  const TempFolder folder;
  const TrainingGpu simulated;
  const Outcome outcome = run_on_device("compare gpu-memory transfers --device cuda --iterations 64 --out " +
                                        folder.path().string());
  EXPECT_THAT(outcome, Ends(0, "9 loops: "));
  const nlohmann::json document = read_json(folder / "compare.json");
  const auto& naive = document["scenarios"][0]["loops"][0];
  EXPECT_THAT(naive["what"].get<std::string>(), testing::HasSubstr("from the driver"));
  EXPECT_EQ(document["scenarios"][1]["loops"].size(), 5u);
}

/// Ends the process, as a lost device leaves nothing to go on with. `launch` counts the graphs of the
/// training: a first one chose the kernels, whose trials are graphs too.
[[noreturn]] void lose_device(const std::string& line, int64_t launch) {
  const TrainingGpu simulated;
  const int status = status_of("train regress --device cuda --epochs 1 --steps 1");
  if (status != 0) std::_Exit(status);
  simulated.controls->fail("launch graph", launch, ErrorCode::kDeviceLost);
  std::_Exit(status_of(line));
}

TEST(TrainingOnADevice, ALostOneLeavesTheLastCheckpoint) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const TempFolder folder;
  const std::string line = "train regress --device cuda --epochs 5 --steps 4",
                    saved = (folder / "saved").string();
  EXPECT_EXIT(lose_device(line, 2), testing::ExitedWithCode(5), "nothing was saved; to save checkpoints");
  EXPECT_EXIT(lose_device(line + " --checkpoint " + saved, 2), testing::ExitedWithCode(5),
              "there was no checkpoint in");
  EXPECT_EXIT(lose_device(line + " --checkpoint-every 1 --checkpoint " + saved, 14),
              testing::ExitedWithCode(5),
              "the last good checkpoint is .*cp-0003-00000011.safetensors; continue from it with --resume");
}

/// The weeks from 1987 to 1990, few enough for a short evaluation.
void write_weeks(const std::filesystem::path& to) {
  std::ifstream all(ISOCHRON_SOURCE_DIR "/datasets/co2_weekly.csv");
  std::ofstream some(to);
  std::string line;
  std::getline(all, line);
  some << line << '\n';
  while (std::getline(all, line)) {
    if (line >= "1987" && line < "1991") some << line << '\n';
  }
}

TEST_P(TrainedOnADevice, LearnsWhatTheCpuLearns) {
  const TempFolder folder;
  const TrainingGpu simulated(cuda::simulated_device(size_t{256} << 20));
  write_weeks(folder / "weeks.csv");
  const std::string arguments =
      fmt::format(fmt::runtime(GetParam().arguments), (folder / "weeks.csv").string());
  const std::vector<double> here = losses(arguments, "cpu", folder / "cpu.json");
  const std::vector<double> there = losses(arguments, "cuda", folder / "cuda.json");
  ASSERT_EQ(there.size(), here.size());
  ASSERT_FALSE(here.empty());
  for (size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(there[i], here[i], 2e-3 * std::abs(here[i])) << i;
  EXPECT_GT(simulated.controls->calls("launch graph"), 0);
}

// The other models are slow to simulate: their layers have smaller tests (tests/train/device_models_test.cc).
INSTANTIATE_TEST_SUITE_P(Models, TrainedOnADevice,
                         testing::Values(Training{"regress", "regress --epochs 1 --steps 3"},
                                         Training{"digits", "digits --epochs 1 --steps 3 --batch 8"},
                                         Training{"tcn", "tcn --epochs 1 --steps 2 --batch 4 --data {}"}),
                         [](const auto& training) { return std::string(training.param.name); });

}  // namespace
}  // namespace isochron::apps
