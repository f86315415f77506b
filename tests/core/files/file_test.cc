#include "isochron/core/files/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "support/expect_error.h"
#include "support/file_size_limit.h"
#include "support/temp_folder.h"

namespace isochron {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  const std::vector<std::byte> bytes = read_file(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

TEST(File, WrittenIsReadBack) {
  const TempFolder folder;
  write_file_atomically(folder / "a", std::string_view("x\0y", 3));
  EXPECT_EQ(text_of(folder / "a"), std::string("x\0y", 3));
  write_file_atomically(folder / "a", "");
  EXPECT_EQ(text_of(folder / "a"), "");
  EXPECT_THAT(names_in(folder.path()), testing::ElementsAre("a"));
}

TEST(File, WrittenInPiecesIsReadBackAndAFailureLeavesTheOld) {
  const TempFolder folder;
  write_file_atomically(folder / "a", [](const AppendFunction& append) {
    append("one ");
    append("two");
  });
  EXPECT_EQ(text_of(folder / "a"), "one two");
  const auto broken = [](const AppendFunction& append) {
    append("new");
    fail(ErrorCode::kIo, "test", "midway");
  };
  EXPECT_ERROR(write_file_atomically(folder / "a", broken), ErrorCode::kIo, "midway");
  EXPECT_EQ(text_of(folder / "a"), "one two");
  EXPECT_THAT(names_in(folder.path()), testing::ElementsAre("a"));
}

TEST(File, OfAnySizeIsWrittenWhole) {
  const TempFolder folder;
  constexpr size_t kPart = size_t{1} << 18;  // as it is written out
  std::string text(3 * kPart + 1, ' ');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i >> 7);
  for (const size_t size : {kPart - 1, kPart, kPart + 1, 2 * kPart, 3 * kPart + 1}) {
    const std::string_view whole = std::string_view(text).substr(0, size);
    write_file_atomically(folder / "a", whole);
    EXPECT_TRUE(text_of(folder / "a") == whole) << size << " bytes at once";
    write_file_atomically(folder / "b", [&](const AppendFunction& append) {
      for (size_t at = 0; at < size; at += 100'003) append(whole.substr(at, 100'003));
    });
    EXPECT_TRUE(text_of(folder / "b") == whole) << size << " bytes in pieces";
  }
}

TEST(File, IsReadAnywhere) {
  const TempFolder folder;
  write_file_atomically(folder / "a", "012345");
  const InputFile file(folder / "a");
  EXPECT_EQ(file.size_bytes(), 6u);
  std::string part(3, ' ');
  file.read_at(2, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "234");
  EXPECT_ERROR(file.read_at(4, std::as_writable_bytes(std::span(part))), ErrorCode::kIo,
               "ends at byte 6, expected 7");
  EXPECT_ERROR(InputFile(folder.path()), ErrorCode::kIo, "is not a regular file");
  EXPECT_ERROR(InputFile(folder / "none"), ErrorCode::kIo, "cannot open");
}

TEST(File, MissingFolderAndDirectoryAreErrors) {
  const TempFolder folder;
  EXPECT_ERROR(read_file(folder / "none"), ErrorCode::kIo, "none] cannot open: No such file");
  EXPECT_ERROR(read_file(folder.path()), ErrorCode::kIo, "is a directory");
  EXPECT_ERROR(write_file_atomically(folder / "none" / "a", "x"), ErrorCode::kIo,
               "cannot create: No such file");
}

TEST(File, LargerThanTheLimitIsRefusedBeforeReading) {
  const TempFolder folder;
  write_file_atomically(folder / "a", "12345");
  EXPECT_EQ(read_file(folder / "a", 5).size(), 5u);
  EXPECT_ERROR(read_file(folder / "a", 4), ErrorCode::kBadFormat, "has 5 bytes, more than the limit of 4");
}

TEST(File, FailedRenameLeavesTheOldAndNoTemporary) {
  const TempFolder folder;
  fs::create_directory(folder / "taken");
  write_file_atomically(folder / "taken" / "inside", "old");
  EXPECT_ERROR(write_file_atomically(folder / "taken", "new"), ErrorCode::kIo, "cannot rename");
  EXPECT_EQ(text_of(folder / "taken" / "inside"), "old");
  EXPECT_THAT(names_in(folder.path()), testing::ElementsAre("taken"));
}

TEST(File, RemovesWhatTheDeadLeft) {
  const TempFolder folder;
  const pid_t dead = fork();
  if (dead == 0) _exit(0);
  ASSERT_EQ(waitpid(dead, nullptr, 0), dead);
  const std::string of_dead = fmt::format("a.tmp-{}", dead), of_other = fmt::format("b.tmp-{}", dead),
                    of_living = fmt::format("a.tmp-{}", getppid());
  for (const std::string& name : {of_dead, of_other, of_living}) std::ofstream(folder / name) << "part";
  write_file_atomically(folder / "a", "whole");
  EXPECT_THAT(names_in(folder.path()), testing::UnorderedElementsAre("a", of_other, of_living));
}

TEST(File, IsWrittenWholeByThreadsAtATime) {
  const TempFolder folder;
  const auto content = [](int thread) {
    return std::string(size_t{200'000} + static_cast<size_t>(thread) * 1000, static_cast<char>('a' + thread));
  };
  std::vector<std::thread> threads;
  std::atomic<int> torn{0};
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 25; ++i) {
        EXPECT_NO_THROW(replace_file(folder / "a", content(thread)));
        const std::string read = text_of(folder / "a");
        torn += !read.empty() && read == content(read[0] - 'a') ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0);
  EXPECT_THAT(names_in(folder.path()), testing::ElementsAre("a"));
}

TEST(File, TellsTemporariesOfItsNumberThatAreWrittenToFromThoseThatWereLeft) {
  const TempFolder folder;  // as of processes of other containers, which may have the same number
  int number = 0;
  write_file_atomically(folder / "a", [&](const AppendFunction& append) {
    append("first");
    const std::string name = names_in(folder.path())[0];
    number = std::stoi(name.substr(name.rfind('-') + 1));
  });
  const auto name = [](int of) { return fmt::format("a.tmp-{}-{}", getpid(), of); };
  std::ofstream(folder / name(number + 2)) << "left";
  std::ofstream(folder / name(number + 1)) << "theirs";
  const int theirs = open((folder / name(number + 1)).c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(theirs, LOCK_EX | LOCK_NB), 0);
  write_file_atomically(folder / "a", "second");
  EXPECT_EQ(text_of(folder / "a"), "second");
  EXPECT_EQ(text_of(folder / name(number + 1)), "theirs");
  EXPECT_THAT(names_in(folder.path()), testing::UnorderedElementsAre("a", name(number + 1)));
  close(theirs);
}

TEST(File, BehindASymbolicLinkIsWrittenAndTheLinkStays) {
  const TempFolder folder;
  fs::create_directory(folder / "there");
  fs::create_symlink("there/file", folder / "link");
  fs::create_symlink("link", folder / "outer");
  for (const char* content : {"new", "old"}) {  // what it leads to isn't there at first
    write_file_atomically(folder / "outer", content);
    EXPECT_EQ(fs::read_symlink(folder / "outer"), "link");
    EXPECT_EQ(fs::read_symlink(folder / "link"), "there/file");
    EXPECT_FALSE(fs::is_symlink(folder / "there" / "file"));
    EXPECT_EQ(text_of(folder / "there" / "file"), content);
  }
  EXPECT_THAT(names_in(folder / "there"), testing::ElementsAre("file"));
  fs::create_symlink("cycle", folder / "cycle");
  EXPECT_ERROR(write_file_atomically(folder / "cycle", "x"), ErrorCode::kIo,
               "cannot follow the symbolic link");
  fs::create_directory_symlink("there", folder / "folder");
  EXPECT_ERROR(write_file_atomically(folder / "folder", "x"), ErrorCode::kIo, "cannot rename");
  EXPECT_TRUE(fs::is_symlink(folder / "folder"));
}

TEST(File, AnOpenFileThatALinkNamesIsWrittenInPlace) {
  const TempFolder folder;
  const int open_file = ::open((folder / "file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(open_file, 0);
  ASSERT_EQ(::write(open_file, "one ", 4), 4);
  fs::create_symlink(fmt::format("/proc/self/fd/{}", open_file), folder / "link");
  write_file_atomically(folder / "link", "two ");
  write_file_atomically(fmt::format("/dev/fd/{}", open_file), "three ");
  ASSERT_EQ(::write(open_file, "four", 4), 4);
  ::close(open_file);
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(text_of(folder / "file"), "one two three four");
}

TEST(File, APipeThatNobodyReadsIsAnError) {
  const TempFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(write_file_atomically(folder / "pipe", "x"), ErrorCode::kIo, "nobody reads");
}

TEST(File, FailedWriteLeavesTheOldAndNoTemporary) {
  const TempFolder folder;
  write_file_atomically(folder / "a", "old");
  {
    const FileSizeLimit full(4096);
    EXPECT_ERROR(write_file_atomically(folder / "a", std::string(10000, 'x')), ErrorCode::kIo,
                 "cannot write");
  }
  EXPECT_EQ(text_of(folder / "a"), "old");
  EXPECT_THAT(names_in(folder.path()), testing::ElementsAre("a"));
}

TEST(File, FullDeviceIsAnErrorAndStaysADevice) {
  EXPECT_ERROR(write_file_atomically("/dev/full", "x"), ErrorCode::kIo, "No space left");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

}  // namespace
}  // namespace isochron
