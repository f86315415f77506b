#include "isochron/core/files/input_stream.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <fstream>
#include <thread>

#include "support/damage.h"
#include "support/expect_error.h"
#include "support/packed.h"
#include "support/temp_folder.h"

namespace isochron {
namespace {

std::string drained(InputStream& stream) {
  std::string text;
  for (auto next = stream.peek(); !next.empty(); next = stream.peek()) {
    text.append(reinterpret_cast<const char*>(next.data()), next.size());
    stream.skip(next.size());
  }
  return text;
}

std::string counting(int numbers) {
  std::string text;
  for (int i = 0; i < numbers; ++i) text += std::to_string(i) + " ";
  return text;
}

class InputStreams : public testing::Test {
 protected:
  std::string read(const std::string& content, const InputStreamOptions& options = {}) {
    write_quickly(path_, content);
    InputStream stream(path_, options);
    return drained(stream);
  }

  TempFolder folder_;
  std::filesystem::path path_ = folder_ / "content";
  std::string text_ = counting(20000);
};

TEST_F(InputStreams, GivePlainAndCompressedContentAlike) {
  for (const size_t buffer_bytes : {size_t{16}, size_t{1000}, size_t{1} << 20}) {
    const auto options = [&](Compression compression) {
      return InputStreamOptions{.compression = compression, .buffer_bytes = buffer_bytes};
    };
    EXPECT_EQ(read(text_, options(Compression::kAuto)), text_);
    EXPECT_EQ(read(packed(text_), options(Compression::kAuto)), text_);
    EXPECT_EQ(read(packed(text_), options(Compression::kGzip)), text_);
    EXPECT_EQ(read(packed(text_, false), options(Compression::kZlib)), text_);
    EXPECT_EQ(read(packed(text_), options(Compression::kNone)), packed(text_));
  }
  EXPECT_EQ(read(""), "");
  EXPECT_EQ(read("x"), "x");
  EXPECT_EQ(read(packed("")), "");
}

TEST_F(InputStreams, GiveMembersOneAfterTheOther) {
  EXPECT_EQ(read(packed("one, ") + packed("") + packed(text_)), "one, " + text_);
  EXPECT_ERROR(read(packed("one") + "garbage"), ErrorCode::kBadFormat, "damaged compressed data");
  EXPECT_ERROR(read(packed("one", false) + packed("two", false), {.compression = Compression::kZlib}),
               ErrorCode::kBadFormat, "unexpected data follows the end");
}

TEST_F(InputStreams, SkipZerosBehindMembers) {
  const std::string padded = packed("abc") + std::string(70'000, '\0');
  for (const size_t buffer_bytes : {size_t{16}, size_t{1000}, size_t{1} << 20}) {
    const InputStreamOptions options{.buffer_bytes = buffer_bytes};
    EXPECT_EQ(read(padded, options), "abc");
    EXPECT_EQ(read(padded + packed("def"), options), "abcdef");
    EXPECT_ERROR(read(padded + "x", options), ErrorCode::kBadFormat, "compressed data");
    EXPECT_ERROR(read(packed("abc") + "x", options), ErrorCode::kBadFormat, "compressed data");
  }
  EXPECT_ERROR(read(std::string(20, '\0') + packed("abc"), {.compression = Compression::kGzip}),
               ErrorCode::kBadFormat, "damaged compressed data");
}

TEST_F(InputStreams, GoWhereTheyAreSent) {
  for (const std::string& content :
       {text_, packed(text_), packed(text_.substr(0, 700)) + packed(text_.substr(700))}) {
    write_quickly(path_, content);
    InputStream stream(path_, {.buffer_bytes = 256});
    for (const uint64_t place : {uint64_t{100000}, uint64_t{5}, uint64_t{99}, uint64_t{699}, uint64_t{0},
                                 uint64_t{text_.size() - 1}, uint64_t{text_.size()}, uint64_t{3}}) {
      stream.seek(place);
      EXPECT_EQ(stream.position(), place);
      std::string part(50, '\0');
      part.resize(stream.read(std::as_writable_bytes(std::span(part))));
      EXPECT_EQ(part, text_.substr(place, 50));
      EXPECT_EQ(stream.position(), place + part.size());
    }
    EXPECT_ERROR(stream.seek(text_.size() + 1), ErrorCode::kBadFormat, "expected to continue at byte");
    stream.seek(0);
    EXPECT_EQ(drained(stream), text_);
  }
}

TEST_F(InputStreams, LookAtALineFromWhereTheyAre) {
  const std::string text = "0123456789\nABCDEFGHIJ\nabcdefghij\n";
  for (const std::string& content : {text, packed(text)}) {
    write_quickly(path_, content);
    InputStream stream(path_, {.buffer_bytes = 16});
    for (size_t place = 0; place < text.size(); place += 11) {
      const auto line = stream.peek_lines();  // of which the window holds a part
      ASSERT_GE(line.size(), 11u);
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(line.data()), 11), text.substr(place, 11));
      EXPECT_EQ(stream.position(), place);
      stream.skip(11);
      EXPECT_EQ(stream.position(), place + 11);
    }
    stream.seek(5);
    EXPECT_EQ(drained(stream), text.substr(5));
  }
}

TEST_F(InputStreams, LookAtSeveralLinesOfAPipe) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  std::thread writer([&] {
    std::ofstream pipe(path_);
    for (const char* piece : {"one", "\ntw", "o\n", "three\n"}) pipe << piece << std::flush;
  });
  InputStream stream(path_);
  const auto lines = stream.peek_lines(2);
  const std::string text(reinterpret_cast<const char*>(lines.data()), lines.size());
  EXPECT_TRUE(text.starts_with("one\ntwo\n")) << text;
  EXPECT_EQ(drained(stream), "one\ntwo\nthree\n");
  writer.join();
}

TEST_F(InputStreams, AreNotKeptWaitingByAPipeThatNobodyWritesTo) {
  using namespace std::chrono_literals;
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_ERROR(InputStream(path_, {.patience = 20ms}), ErrorCode::kIo,
               "is a pipe, and nobody wrote to it within 0.02 s");
  for (const auto patience : {10'000ms, -1ms}) {
    std::thread writer([&] { write_quickly(path_, text_); });
    InputStream stream(path_, {.patience = patience});
    EXPECT_EQ(drained(stream), text_);
    writer.join();
  }
}

/// A pipe between two programs has a writer, however long the writer takes.
TEST_F(InputStreams, WaitForAPipeBetweenPrograms) {
  using namespace std::chrono_literals;
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const std::string path = "/proc/self/fd/" + std::to_string(ends[0]);
  std::thread writer([&] {
    std::this_thread::sleep_for(50ms);  // longer than the patience
    EXPECT_EQ(write(ends[1], "text", 4), 4);
    close(ends[1]);
  });
  InputStream stream(path, {.patience = 1ms});
  EXPECT_EQ(drained(stream), "text");
  writer.join();
  close(ends[0]);
}

TEST_F(InputStreams, ReadPipesForward) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  std::thread writer([&] { write_quickly(path_, text_); });
  InputStream stream(path_);
  stream.seek(1000);
  EXPECT_EQ(drained(stream), text_.substr(1000));
  EXPECT_ERROR(stream.seek(0), ErrorCode::kIo, "again from the start");
  writer.join();
}

TEST_F(InputStreams, CompressedAndTruncatedAnywhereIsAnError) {
  const std::string whole = packed(counting(30)) + packed(counting(20));
  const size_t first = packed(counting(30)).size();
  for (const Compression compression : {Compression::kGzip, Compression::kAuto}) {
    expect_truncation_errors(
        whole,
        [&](const std::string& cut) {
          if (cut.size() == first) fail(ErrorCode::kBadFormat, "test", "truncated?");  // whole by itself
          read(cut, {.compression = compression, .buffer_bytes = 16});
        },
        ErrorCode::kBadFormat, "truncated?", 2);
  }
  expect_truncation_errors(
      packed(counting(30), false),
      [&](const std::string& cut) { read(cut, {.compression = Compression::kZlib}); }, ErrorCode::kBadFormat,
      "truncated?");
}

TEST_F(InputStreams, FlippedBitsOfCompressedDataNeverGiveOtherContent) {
  const std::string text = counting(40);
  const size_t refused = count_refused_flips(packed(text), [&](const std::string& flipped) {
    EXPECT_EQ(read(flipped, {.compression = Compression::kGzip}), text);
  });
  EXPECT_GT(refused, packed(text).size() * 8 - 80) << "all but time, system and the like in the header";
}

TEST_F(InputStreams, LimitsHoldAfterDecompressionToo) {
  EXPECT_ERROR(read(text_, {.limit_bytes = 1000}), ErrorCode::kBadFormat, "more than the limit of 1000");
  const std::string bomb = packed(std::string(10'000'000, 'x'));
  EXPECT_LT(bomb.size(), 20'000u);
  EXPECT_ERROR(read(bomb, {.limit_bytes = 1'000'000}), ErrorCode::kBadFormat,
               "expands to more than the limit of 1000000");
  const std::string member = packed(std::string(40, 'x'));
  write_quickly(path_, member + member + member);
  InputStream stream(path_, {.limit_bytes = 100});
  EXPECT_ERROR(stream.peek_lines(), ErrorCode::kBadFormat, "expands to more than the limit of 100");
  std::string numbered = counting(40'000);
  write_quickly(path_, packed(numbered));
  InputStream limited(path_, {.limit_bytes = 100'000, .buffer_bytes = 65536});
  const auto content = [&] {
    const auto bytes = limited.peek();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  EXPECT_EQ(content(), numbered.substr(0, 65536));
  limited.skip(65536);
  for (int time = 0; time < 2; ++time)
    EXPECT_ERROR(limited.peek(), ErrorCode::kBadFormat, "more than the limit of 100000");
  limited.seek(65000);
  EXPECT_EQ(content(), numbered.substr(65000, 536)) << "what was lost at the error isn't taken for it";
}

TEST_F(InputStreams, WhatCantBeReadIsAnError) {
  EXPECT_ERROR(InputStream(folder_ / "none"), ErrorCode::kIo, "none] cannot open");
  EXPECT_ERROR(InputStream(folder_.path()), ErrorCode::kIo, "is a directory");
  EXPECT_ERROR(read("", {.buffer_bytes = 1}), ErrorCode::kInvalidArgument, "at least 16");
}

}  // namespace
}  // namespace isochron
