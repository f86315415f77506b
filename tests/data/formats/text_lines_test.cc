#include "isochron/data/formats/text_lines.h"

#include <gmock/gmock.h>

#include "support/damage.h"
#include "support/expect_error.h"
#include "support/packed.h"
#include "support/temp_folder.h"

namespace isochron::data {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

class TextLines : public testing::Test {
 protected:
  std::vector<std::string> read(const std::string& content, const TextLineOptions& options = {}) {
    write_quickly(path_, content);
    TextLineReader reader(path_, options);
    std::vector<std::string> lines;
    for (std::string line; reader.next(line);) lines.push_back(line);
    return lines;
  }
  TempFolder folder_;
  std::filesystem::path path_ = folder_ / "a.txt";
};

TEST_F(TextLines, EndInANewlineWithOrWithoutACarriageReturn) {
  EXPECT_THAT(read("one\ntwo\r\nthree"), ElementsAre("one", "two", "three"));
  EXPECT_THAT(read("one\n\n\r\nfour\n"), ElementsAre("one", "", "", "four"));
  EXPECT_THAT(read("a\rb\r\r\n"), ElementsAre("a\rb\r"));
  EXPECT_THAT(read(std::string("a\0b\n", 4)), ElementsAre(std::string("a\0b", 3)));
  EXPECT_TRUE(read("").empty());
}

TEST_F(TextLines, OfGzippedFilesAreTheSame) {
  std::string content;
  std::vector<std::string> expected;
  for (int i = 0; i < 20000; ++i) {
    expected.push_back(std::string(static_cast<size_t>(i % 37), 'x') + std::to_string(i));
    content += expected.back() + (i % 3 == 0 ? "\r\n" : "\n");
  }
  EXPECT_THAT(read(content), ElementsAreArray(expected));
  EXPECT_THAT(read(packed(content)), ElementsAreArray(expected));
}

TEST_F(TextLines, AreFoundAgainAtTheirPosition) {
  const std::string content = "zero\none\r\n\nthree\nfour";
  for (const std::string& stored : {content, packed(content)}) {
    write_quickly(path_, stored);
    TextLineReader reader(path_);
    std::vector<TextLineReader::Position> positions;
    std::vector<std::string> lines;
    std::string line;
    do {
      positions.push_back(reader.position());
      lines.push_back(line);
    } while (reader.next(line));
    ASSERT_EQ(positions.size(), 6u);
    for (const size_t i : {4, 0, 2, 3, 1}) {
      TextLineReader other(path_);
      for (TextLineReader* at : {&reader, &other}) {
        at->seek(positions[i]);
        ASSERT_TRUE(at->next(line));
        EXPECT_EQ(line, lines[i + 1]);
        EXPECT_EQ(at->position().offset, positions[i + 1].offset);
        EXPECT_EQ(at->position().lines, static_cast<int64_t>(i) + 1);
      }
    }
  }
}

TEST_F(TextLines, TooLongAreErrorsWithLineAndOffset) {
  EXPECT_THAT(read("12345\n", {.max_line_bytes = 5}), ElementsAre("12345"));
  EXPECT_ERROR(read("1\n123456", {.max_line_bytes = 5}), ErrorCode::kBadFormat,
               "a.txt] offset 2: line 2 has more than 5 bytes");
  EXPECT_ERROR(read(packed(std::string(10'000'000, 'x'))), ErrorCode::kBadFormat, "max_line_bytes");
}

TEST_F(TextLines, OfDamagedGzipAreErrors) {
  const std::string whole = packed("one\ntwo\nthree\n");
  const auto reads = [&](const std::string& text) { read(text, {.compression = Compression::kGzip}); };
  expect_truncation_errors(whole, reads, ErrorCode::kBadFormat, "truncated?");
  EXPECT_GT(count_refused_flips(whole, reads), whole.size());
  EXPECT_ERROR(TextLineReader(folder_ / "none"), ErrorCode::kIo, "none");
}

}  // namespace
}  // namespace isochron::data
