// Checkpoints as files: complete or absent, checked, and refused as a whole.
#include "isochron/train/checkpoints/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <thread>

#include "isochron/core/files/file.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/nn/weights/weights.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks/checkpoint_folder.h"
#include "isochron/train/checkpoints/checkpoint_writer.h"
#include "support/expect_error.h"
#include "support/failing_calls.h"
#include "support/temp_folder.h"

namespace isochron::train {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

NamedVariables some_variables(double number) {
  return {{"dense/kernel", Variable(full({3, 2}, number), "kernel")},
          {"dense/bias", Variable(full({2}, number + 0.5, DType::kF64), "bias")},
          {"optimizer/step", Variable(full({}, 7, DType::kI64), "step", false)},
          {"mask", Variable(full({3}, 1, DType::kBool), "mask", false)},
          {"none", Variable(zeros({0, 4}), "none")}};
}

std::vector<std::vector<double>> content_of(const NamedVariables& variables) {
  std::vector<std::vector<double>> all;
  for (const auto& [name, variable] : variables) all.push_back(variable.tensor().to_vector());
  return all;
}

TEST(Checkpoint, GivesBackWhatWasSaved) {
  const TempFolder folder;
  const NamedVariables saved = some_variables(0.25), loaded = some_variables(-1);
  save_checkpoint(folder / "a", saved, "a document: {\"x\": 1}");
  const Checkpoint checkpoint(folder / "a");
  EXPECT_EQ(checkpoint.document(), "a document: {\"x\": 1}");
  checkpoint.verify();
  checkpoint.restore(loaded);
  EXPECT_EQ(content_of(loaded), content_of(saved));
}

TEST(Checkpoint, ItsWeightsAreReadAsAnyWeightsFile) {
  const TempFolder folder;
  nn::Sequential model(nn::Dense(3), nn::Dense(1)), other(nn::Dense(3), nn::Dense(1));
  for (nn::Sequential* each : {&model, &other}) each->build({DType::kF32, {4, 2}});
  optim::Adam optimizer;
  optimizer.apply(model.parameters(), std::vector<Tensor>{ones({2, 3}), ones({3}), ones({3, 1}), ones({1})});
  NamedVariables all = weights_of(model);
  for (auto& slot : slots_of(optimizer)) all.push_back(slot);
  save_checkpoint(folder / "a", all, "");
  EXPECT_EQ(nn::load_weights(other, folder / "a", {.strict = false}).loaded, 4u);
  EXPECT_EQ(content_of(weights_of(other)), content_of(weights_of(model)));
}

TEST(Checkpoint, AnotherRunsIsRefusedAndNothingChanged) {
  const TempFolder folder;
  save_checkpoint(folder / "a", some_variables(0.25), "");
  NamedVariables other = some_variables(3);
  const auto before = content_of(other);
  other[0].first = "conv/kernel";
  EXPECT_ERROR(Checkpoint(folder / "a").restore(other), ErrorCode::kOutOfRange,
               "missing in the file (1): conv/kernel");
  EXPECT_ERROR(Checkpoint(folder / "a").restore(other), ErrorCode::kOutOfRange,
               "unexpected in the file (1): dense/kernel");
  other[0] = {"dense/kernel", Variable(full({2, 3}, 3), "kernel")};
  EXPECT_ERROR(Checkpoint(folder / "a").restore(other), ErrorCode::kShapeMismatch,
               "dense/kernel: the file has f32(3, 2), the run f32(2, 3)");
  EXPECT_EQ(content_of(other), before);
  nn::write_safetensors(folder / "weights", std::vector<std::pair<std::string, Tensor>>{{"x", ones({2})}});
  EXPECT_ERROR(Checkpoint(folder / "weights"), ErrorCode::kBadFormat, "so it is not a checkpoint");
}

TEST(Checkpoint, AFlippedBitIsFoundAndTheTensorNamed) {
  const TempFolder folder;
  const NamedVariables saved = some_variables(0.25);
  save_checkpoint(folder / "a", saved, "the document");
  std::vector<std::byte> bytes = read_file(folder / "a");
  const size_t data = bytes.size() - 24 - 16 - 8 - 3;  // larger elements first
  const auto damaged = [&](size_t at) {
    std::vector<std::byte> copy = bytes;
    copy[at] ^= std::byte{0x10};
    std::ofstream(folder / "b") << std::string(reinterpret_cast<const char*>(copy.data()), copy.size());
    return folder / "b";
  };
  EXPECT_ERROR(Checkpoint(damaged(data)).verify(), ErrorCode::kBadFormat,
               "tensor 'dense/bias': its checksum is");
  EXPECT_ERROR(Checkpoint(damaged(data + 16 + 8)).verify(), ErrorCode::kBadFormat, "tensor 'dense/kernel'");
  const NamedVariables loaded = some_variables(-1);
  const auto before = content_of(loaded);
  for (size_t at = 0; at < bytes.size(); ++at) {
    // A bool is any byte but 0, and blanks end the header: neither holds anything.
    if (bytes[at] == std::byte{' '} || at >= bytes.size() - 3) continue;
    try {
      Checkpoint(damaged(at)).restore(loaded);
      ADD_FAILURE() << "a flipped bit at " << at << " of " << bytes.size() << " was not found";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("b]")) << "names the file";
    }
    ASSERT_EQ(content_of(loaded), before) << at;
  }
}

TEST(Checkpoint, BlobsAreTensorsAndNoPartOfTheHeader) {
  const TempFolder folder;
  std::string bytes(300'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  const NamedVariables saved = some_variables(0.25), loaded = some_variables(-1);
  save_checkpoint(folder / "a", saved, "the document", {{"data", bytes}, {"none", ""}});
  const Checkpoint checkpoint(folder / "a");
  EXPECT_EQ(checkpoint.blob("data"), bytes);
  EXPECT_EQ(checkpoint.blob("none"), "");
  EXPECT_ERROR(checkpoint.blob("other"), ErrorCode::kOutOfRange, "nothing called 'isochron.blob/other'");
  checkpoint.restore(loaded);
  EXPECT_EQ(content_of(loaded), content_of(saved));
  EXPECT_LT(fs::file_size(folder / "a"), bytes.size() + 2000) << "not as text";
  std::fstream file(folder / "a", std::ios::in | std::ios::out);
  file.seekp(-1000, std::ios::end);
  file.put('x').put('y');
  file.close();
  EXPECT_ERROR(Checkpoint(folder / "a").blob("data"), ErrorCode::kBadFormat,
               "tensor 'isochron.blob/data': its checksum is");
  EXPECT_ERROR(Checkpoint(folder / "a").verify(), ErrorCode::kBadFormat, "isochron.blob/data");
}

TEST(Checkpoint, OneOfAnotherVersionIsRefusedAndNeverPassedOver) {
  const TempFolder folder;
  save_checkpoint(folder / "a.safetensors", some_variables(0.25), "the document");
  std::vector<std::byte> bytes = read_file(folder / "a.safetensors");
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string version = "\"isochron.checkpoint\":\"4\"";
  ASSERT_NE(text.find(version), std::string::npos);
  text[text.find(version) + version.size() - 2] = '1';
  std::ofstream(folder / "a.safetensors") << text;
  EXPECT_ERROR(Checkpoint(folder / "a.safetensors"), ErrorCode::kUnsupported,
               "is a checkpoint of version '1'; this library reads version 4");
  EXPECT_ERROR(newest_checkpoint(folder.path()), ErrorCode::kUnsupported, "version '1'");
}

TEST(Checkpoint, NamesThatNoFileCanHoldAreToldOf) {
  NamedVariables variables = some_variables(0);
  check_names(variables);
  variables[3].first = "dense/bias";
  EXPECT_ERROR(check_names(variables), ErrorCode::kInvalidArgument, "two variables are called 'dense/bias'");
  variables[3].first = "mask\xff";
  EXPECT_ERROR(check_names(variables), ErrorCode::kInvalidArgument, "is not UTF-8");
}

TEST(Checkpoint, OneCutShortAtAnyByteIsRefused) {
  const TempFolder folder;
  save_checkpoint(folder / "a", some_variables(0.25), "the document");
  const auto whole = fs::file_size(folder / "a");
  for (uintmax_t size = whole; size-- > 0;) {
    fs::resize_file(folder / "a", size);
    EXPECT_ERROR(Checkpoint(folder / "a"), ErrorCode::kBadFormat, "byte ");
  }
}

TEST(Checkpoint, AnyCallThatFailsLeavesTheOldOneWhole) {
  const TempFolder folder;
  NamedVariables first = some_variables(1), second = some_variables(2), loaded = some_variables(0);
  // Large enough to be written out in several parts.
  first.emplace_back("large", Variable(full({320'000}, 1), "large"));
  second.emplace_back("large", Variable(full({320'000}, 2), "large"));
  loaded.emplace_back("large", Variable(zeros({320'000}), "large"));
  save_checkpoint(folder / "cp", first, "first");
  fs::create_directory(folder / "temporary");
  int64_t failed = 0;
  for (int64_t call = 1;; ++call) {
    bool done = false;
    try {
      const FailingCalls failing(call, ENOSPC);
      save_checkpoint(folder / "cp", second, "second", {{"data", "bytes"}}, folder / "temporary");
      done = FailingCalls::made() < call;
      // The last call makes the new name last, when the file has taken the place of the old: a system that
      // can't do that has the new file whole, or the old.
      EXPECT_GE(FailingCalls::made() + 1, call);
    } catch (const Error& error) {
      ++failed;
      EXPECT_EQ(error.code(), ErrorCode::kIo);
      EXPECT_THAT(error.what(), HasSubstr("No space left on device"));
      Checkpoint(folder / "cp").restore(loaded);
      EXPECT_EQ(content_of(loaded), content_of(first));
      EXPECT_EQ(Checkpoint(folder / "cp").document(), "first");
    }
    EXPECT_TRUE(fs::is_empty(folder / "temporary"));
    if (done) break;
  }
  EXPECT_GE(failed, 8) << "open, each part, fsync and rename";
  Checkpoint(folder / "cp").restore(loaded);
  EXPECT_EQ(content_of(loaded), content_of(second));
}

TEST(Checkpoint, OneThatIsSavedLastsWhenThePowerFails) {
  const TempFolder folder;
  fs::create_directory(folder / "temporary");
  const fs::path path = folder / "cp", temporary = folder / "temporary" / "cp";
  const FailingCalls calls(0, 0);
  save_checkpoint(path, some_variables(1), "document", {}, folder / "temporary");
  // The content is written before the name, so that no name refers to half a file. The folder that contains
  // the name comes last.
  EXPECT_THAT(FailingCalls::synced(),
              ElementsAre(StartsWith("sync " + temporary.string()),
                          AllOf(StartsWith("rename " + temporary.string()), EndsWith(" " + path.string())),
                          "sync " + folder.path().string()));
}

TEST(CheckpointWriter, SavesWhatWasThereAtTheCall) {
  const TempFolder folder;
  const NamedVariables variables = some_variables(0), loaded = some_variables(0);
  CheckpointWriter writer(variables, folder.path());
  NamedBlobs blobs;
  for (int i = 1; i <= 3; ++i) {
    variables[0].second.assign(full({3, 2}, i));
    blobs["data"] = fmt::format("blob {}", i);
    writer.save({.path = folder / fmt::format("{}.cp", i), .document = fmt::format("document {}", i)}, blobs);
    blobs["data"] += ", changed after the call";
    variables[0].second.assign(full({3, 2}, -1));
    writer.flush();
    const Checkpoint checkpoint(folder / fmt::format("{}.cp", i));
    checkpoint.restore(loaded);
    EXPECT_EQ(loaded[0].second.tensor().to_vector(), std::vector<double>(6, i));
    EXPECT_EQ(checkpoint.document(), fmt::format("document {}", i));
    EXPECT_EQ(checkpoint.blob("data"), fmt::format("blob {}", i));
  }
  EXPECT_EQ(writer.stats().saved, 3);
  EXPECT_EQ(writer.stats().coalesced, 0);
}

TEST(CheckpointWriter, EveryFileWithANameOfItsOwnIsWritten) {
  const TempFolder folder;
  const NamedVariables variables = some_variables(0), loaded = some_variables(0);
  constexpr int kSaves = 100;
  CheckpointWriter writer(variables, folder.path());
  for (int i = 0; i < kSaves; ++i) {
    variables[0].second.assign(full({3, 2}, i));
    writer.save({.path = folder / fmt::format("{}.cp", i), .document = fmt::format("{}", i)});
  }
  writer.flush();
  EXPECT_EQ(writer.stats().saved, kSaves);
  EXPECT_EQ(writer.stats().coalesced, 0);
  for (int i = 0; i < kSaves; ++i) {
    const Checkpoint checkpoint(folder / fmt::format("{}.cp", i));
    EXPECT_EQ(checkpoint.document(), fmt::format("{}", i));
    checkpoint.restore(loaded);
    EXPECT_EQ(loaded[0].second.tensor().to_vector(), std::vector<double>(6, i));
  }
}

/// A full pipe keeps the writer's thread busy until the pipe is emptied.
class BusyWriter {
 public:
  explicit BusyWriter(const fs::path& pipe) : pipe_(pipe) {
    EXPECT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    reader_ = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  }
  ~BusyWriter() { close(reader_); }
  /// Variables of which no pipe holds all.
  static NamedVariables variables() { return {{"large", Variable(ones({1 << 18}), "large")}}; }
  const fs::path& path() const { return pipe_; }
  void release() {
    std::array<char, 4096> part;
    for (bool begun = false;;) {
      const ssize_t got = read(reader_, part.data(), part.size());
      if (got == 0 && begun) return;  // the writer has closed it
      begun = begun || got > 0;
      if (got <= 0) std::this_thread::yield();
    }
  }

 private:
  fs::path pipe_;
  int reader_;
};

TEST(CheckpointWriter, CoalescesSavesWhoseFileTheNextReplacesOrRemoves) {
  const TempFolder folder;
  const NamedVariables variables = BusyWriter::variables();
  std::ofstream(folder / "old") << "x";
  BusyWriter busy(folder / "pipe");
  CheckpointWriter writer(variables, folder.path());
  writer.save({.path = busy.path(), .document = "into the pipe"});
  writer.save({.path = folder / "latest", .document = "1", .replaced = {folder / "old"}});
  // The first is already being written; each of these replaces the waiting one.
  for (const char* document : {"2", "3"}) writer.save({.path = folder / "latest", .document = document});
  writer.save({.path = folder / "named", .document = "4", .replaced = {folder / "latest"}});
  busy.release();
  writer.flush();
  EXPECT_EQ(writer.stats().coalesced, 3);
  EXPECT_EQ(writer.stats().saved, 2);
  EXPECT_EQ(Checkpoint(folder / "named").document(), "4");
  EXPECT_FALSE(fs::exists(folder / "latest"));
  EXPECT_FALSE(fs::exists(folder / "old")) << "what a coalesced save was to remove";
}

TEST(CheckpointWriter, AFileThatIsWrittenAgainIsCountedOnce) {
  const TempFolder folder;
  const NamedVariables variables = BusyWriter::variables();
  BusyWriter busy(folder / "pipe");
  CheckpointWriter writer(variables, folder.path());
  writer.save({.path = busy.path(), .document = "into the pipe"});
  writer.save({.path = folder / "a", .document = "1"});
  writer.save({.path = folder / "a", .document = "2", .again = true});  // takes its place
  busy.release();
  writer.flush();
  EXPECT_EQ(writer.stats().saved, 2);
  writer.save({.path = folder / "a", .document = "3", .again = true});
  writer.flush();
  EXPECT_EQ(writer.stats().saved, 2);
  EXPECT_EQ(Checkpoint(folder / "a").document(), "3");
}

TEST(CheckpointWriter, ASaveThatWasToBeReplacedIsNotRemovedByTheSaveOfItsName) {
  const TempFolder folder;
  const NamedVariables variables = BusyWriter::variables();
  BusyWriter busy(folder / "pipe");
  CheckpointWriter writer(variables, folder.path());
  writer.save({.path = busy.path(), .document = "into the pipe"});
  writer.save({.path = folder / "b", .document = "1", .replaced = {folder / "a"}});
  writer.save({.path = folder / "a", .document = "2", .replaced = {folder / "b"}});  // takes its place
  busy.release();
  writer.flush();
  EXPECT_EQ(writer.stats().coalesced, 1);
  EXPECT_EQ(Checkpoint(folder / "a").document(), "2");
  EXPECT_FALSE(fs::exists(folder / "b"));
}

TEST(CheckpointWriter, ASaveWithANameOfItsOwnWaitsForThatBeforeIt) {
  const TempFolder folder;
  const NamedVariables variables = BusyWriter::variables();
  BusyWriter busy(folder / "pipe");
  CheckpointWriter writer(variables, folder.path());
  writer.save({.path = busy.path(), .document = "into the pipe"});
  writer.save({.path = folder / "1", .document = "1"});
  std::atomic<bool> saved{false};
  std::thread other([&] {
    writer.save({.path = folder / "2", .document = "2"});
    saved = true;
  });
  EXPECT_FALSE(saved) << "the thread is still busy with the pipe";
  busy.release();
  other.join();
  writer.flush();
  EXPECT_EQ(writer.stats().coalesced, 0);
  EXPECT_EQ(Checkpoint(folder / "1").document(), "1");
  EXPECT_EQ(Checkpoint(folder / "2").document(), "2");
}

TEST(CheckpointWriter, AFailureReachesTheCallerOnceAndKeepsTheOldFile) {
  const TempFolder folder;
  const NamedVariables variables = some_variables(0);
  std::ofstream(folder / "old") << "x";
  CheckpointWriter writer(variables, folder.path());
  {
    const FailingCalls failing(2, EIO);
    writer.save({folder / "a.cp", "", {folder / "old"}});
    EXPECT_ERROR(writer.flush(), ErrorCode::kIo, "Input/output error");
  }
  EXPECT_TRUE(fs::exists(folder / "old"));
  EXPECT_FALSE(fs::exists(folder / "a.cp"));
  writer.flush();
  writer.save({folder / "b.cp", "", {}});
  writer.flush();
  Checkpoint(folder / "b.cp").verify();
}

TEST(CheckpointPath, FillsTheTemplate) {
  const Results results{{"loss", 0.123456}, {"val_loss", 2}, {"top-5", 1}};
  EXPECT_EQ(checkpoint_path("runs/cp-{epoch:04d}", 7, 3, 63, results), "runs/cp-0007.safetensors");
  EXPECT_EQ(checkpoint_path("cp-{val_loss:.4f}-{step}-{total_steps:08d}.safetensors", 7, 3, 63, results),
            "cp-2.0000-3-00000063.safetensors");
  EXPECT_ERROR(checkpoint_path("cp-{acc}", 7, 3, 63, results), ErrorCode::kInvalidArgument,
               "it may contain epoch, step, total_steps, loss, val_loss");
  EXPECT_ERROR(checkpoint_path("cp-{epoch:04q}", 7, 3, 63, results), ErrorCode::kInvalidArgument,
               "'cp-{epoch:04q}'");
  EXPECT_ERROR(checkpoint_path("cp-{epoch:0999999999d}", 7, 3, 63, results), ErrorCode::kInvalidArgument,
               "more characters than a file name");
  EXPECT_EQ(checkpoint_path("a:20261123/{epoch}", 7, 3, 63, results), "a:20261123/7.safetensors");
}

}  // namespace
}  // namespace isochron::train
