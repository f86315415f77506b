// Text as tokens: what is read, in which order, and places that hold none.
#include "isochron/data/formats/text.h"

#include <gmock/gmock.h>

#include <fstream>

#include "isochron/memory/allocators/buffer.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::data {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class TextTest : public testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& content) {
    const fs::path path = folder_.path() / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  Text read(const fs::path& path, const TextOptions& options = {}) { return read_text({&path, 1}, options); }
  static std::string string_of(const Text& text, const Tensor& tokens) {
    const auto values = tokens.span<uint8_t>();
    return text.decode(std::vector<int64_t>(values.begin(), values.end()));
  }

  TempFolder folder_;
};

TEST_F(TextTest, TheBytesThatOccurAreTheTokens) {
  const Text text = read(write("a.txt", "banana\nbay"), {.validation_share = 0.3});
  EXPECT_EQ(text.vocabulary, "\nabny");
  EXPECT_EQ(string_of(text, text.train), "banana\n");
  EXPECT_EQ(string_of(text, text.validation), "bay");
  EXPECT_THAT(text.encode("any"), ElementsAre(1, 3, 4));
  EXPECT_ERROR(text.encode("x"), ErrorCode::kOutOfRange, "byte 120");
  const std::vector<int64_t> outside = {5};
  EXPECT_ERROR(text.decode(outside), ErrorCode::kOutOfRange, "token 5");
}

TEST_F(TextTest, FoldersAreReadInOrderWithoutWhatIsHiddenOrNoText) {
  write("b.txt", "bb");
  write("a/z.txt", "zz");
  write("a.md", "mm");
  write(".git/c.txt", "hidden");
  write(".hidden", "hidden");
  write("empty.txt", "");
  write("program.bin", std::string("x\0y", 3));
  fs::create_symlink(folder_.path(), folder_.path() / "loop");
  fs::create_symlink(folder_.path() / "b.txt", folder_.path() / "link.txt");
  const Text all = read(folder_.path(), {.validation_share = 0});
  EXPECT_EQ(string_of(all, all.train), "zzmmbb");
  EXPECT_EQ(all.files, 3);
  EXPECT_EQ(all.validation.elems(), 0);
  const Text some = read(folder_.path(), {.extensions = {".md"}, .validation_share = 0.5});
  EXPECT_EQ(string_of(some, some.train), "m");
}

TEST_F(TextTest, AllBytesMayBeTokensButNul) {
  std::string bytes;
  for (int byte = 1; byte < 256; ++byte) bytes += static_cast<char>(byte);
  const Text text = read(write("bytes", bytes), {.validation_share = 0});
  EXPECT_EQ(text.vocabulary, bytes);
  EXPECT_EQ(string_of(text, text.train), bytes);
}

TEST_F(TextTest, PlacesWithoutTextAreErrors) {
  EXPECT_ERROR(read(folder_ / "none"), ErrorCode::kIo, "none");
  EXPECT_ERROR(read(folder_.path()), ErrorCode::kBadFormat, "no text found");
  EXPECT_ERROR(read(write("empty", "")), ErrorCode::kBadFormat, "no text found");
  EXPECT_ERROR(read(write("nul", std::string("abc\0", 4))), ErrorCode::kBadFormat, "offset 3: a NUL byte");
  EXPECT_ERROR(read_text({}), ErrorCode::kBadFormat, "no text found");
  EXPECT_ERROR(read("/dev/zero"), ErrorCode::kIo, "/dev/zero");
  EXPECT_ERROR(read(write("ok", "abc"), {.validation_share = 1}), ErrorCode::kInvalidArgument, "[0, 1)");
}

TEST_F(TextTest, TooMuchIsRefusedBeforeItIsRead) {
  write("a", "");
  fs::resize_file(folder_ / "a", uint64_t{1} << 40);  // sparse
  EXPECT_ERROR(read(folder_ / "a"), ErrorCode::kBadFormat, "larger than 1073741824 bytes");
  EXPECT_ERROR(read(write("b", "12345"), {.limit_bytes = 4}), ErrorCode::kBadFormat, "larger than 4 bytes");
}

TEST_F(TextTest, StartsLeaveRoomForTheWindow) {
  const Text text = read(write("a", std::string(100, 'a') + "b"), {.validation_share = 0});
  const Tensor starts = random_starts(text.train, 91, 1000, 5);
  std::vector<double> values = starts.to_vector();
  EXPECT_EQ(values, random_starts(text.train, 91, 1000, 5).to_vector());
  EXPECT_NE(values, random_starts(text.train, 91, 1000, 6).to_vector());
  EXPECT_EQ(*std::ranges::min_element(values), 0);
  EXPECT_EQ(*std::ranges::max_element(values), 10) << "the last window ends with the text";
  EXPECT_THAT(even_starts(text.train, 20, 3).to_vector(), ElementsAre(0, 40, 81));
  EXPECT_THAT(even_starts(text.train, 60, 3).to_vector(), ElementsAre(0)) << "there is no room for a second";
  EXPECT_ERROR(random_starts(text.train, 102, 1, 0), ErrorCode::kInvalidArgument, "too few");
  EXPECT_ERROR(even_starts(text.train, 1, 0), ErrorCode::kInvalidArgument, "at least one");
}

}  // namespace
}  // namespace isochron::data
