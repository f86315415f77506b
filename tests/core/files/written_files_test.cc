#include "isochron/core/files/written_files.h"

#include <gtest/gtest.h>

#include "isochron/core/telemetry/counters.h"
#include "support/temp_folder.h"

namespace isochron {
namespace {

TEST(WrittenFiles, TellsWhichAreStillThere) {
  const TempFolder folder;
  const int64_t before = written_files();
  for (const char* name : {"a", "b", "c", "a"}) {
    write_quickly(folder / name, "x");
    note_written_file(FileKind::kWeights, folder / name);
  }
  note_written_file(FileKind::kEvents, folder / "never written");
  EXPECT_EQ(written_files(), before + 5);
  std::filesystem::remove(folder / "b");
  const FilesLeft weights = files_left(FileKind::kWeights, before);
  EXPECT_EQ(weights.written, 3) << "a name counts once";
  EXPECT_EQ(weights.left, 2);
  EXPECT_EQ(files_left(FileKind::kWeights, written_files()).written, 0);
  EXPECT_EQ(files_left(FileKind::kEvents, before).left, 0);
}

TEST(WrittenFiles, RemembersTheNewestOnly) {
  const TempFolder folder;
  const int64_t before = written_files();
  for (int i = 0; i < kMaxWrittenFiles + 10; ++i)
    note_written_file(FileKind::kEvents, folder / std::to_string(i));
  EXPECT_EQ(files_left(FileKind::kEvents, before).written, kMaxWrittenFiles);
}

TEST(WrittenFiles, OfOneKindDriveOutNoneOfAnother) {
  const TempFolder folder;
  const int64_t before = written_files();
  note_written_file(FileKind::kEvents, folder / "events");
  for (int i = 0; i < 2 * kMaxWrittenFiles; ++i)
    note_written_file(FileKind::kWeights, folder / std::to_string(i));
  EXPECT_EQ(files_left(FileKind::kEvents, before).written, 1);
}

TEST(Counters, AreNamedEachDifferently) {
  for (int i = 0; i < kCounterCount; ++i) {
    EXPECT_FALSE(counter_name(static_cast<Counter>(i)).empty());
    for (int j = 0; j < i; ++j)
      EXPECT_NE(counter_name(static_cast<Counter>(i)), counter_name(static_cast<Counter>(j)));
  }
}

TEST(Counters, CountObjectsThatHoldOne) {
  const int64_t before = counter_value(Counter::kHooks);
  {
    const Counted<Counter::kHooks> one, two(one);
    EXPECT_EQ(counter_value(Counter::kHooks), before + 2);
  }
  EXPECT_EQ(counter_value(Counter::kHooks), before);
}

}  // namespace
}  // namespace isochron
