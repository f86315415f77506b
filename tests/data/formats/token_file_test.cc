#include "isochron/data/formats/token_file.h"

#include <gmock/gmock.h>

#include "support/damage.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::data {
namespace {

using testing::ElementsAre;

class Tokens : public testing::Test {
 protected:
  TokenFile open(const std::string& content, const TokenFileOptions& options) {
    write_quickly(path_, content);
    return TokenFile(path_, options);
  }
  template <typename T>
  static std::vector<T> row(const TokenFile& file, int64_t row) {
    std::vector<T> values(static_cast<size_t>(file.row_spec().shape[0]));
    EXPECT_EQ(file.row_spec().dtype, dtype_of<T>);
    file.read(row, std::as_writable_bytes(std::span(values)));
    return values;
  }
  TempFolder folder_;
  std::filesystem::path path_ = folder_ / "tokens.bin";
};

TEST_F(Tokens, OfEveryTypeAreRead) {
  EXPECT_THAT(row<uint8_t>(open("ab\xff", {.type = TokenType::kU8, .window = 3}), 0),
              ElementsAre(97, 98, 255));
  EXPECT_THAT(row<int32_t>(open("\1\2\xff\xff", {.type = TokenType::kU16, .window = 2}), 0),
              ElementsAre(0x201, 65535));
  EXPECT_THAT(row<int32_t>(open("\1\2\3\4\xff\xff\xff\xff", {.type = TokenType::kI32, .window = 2}), 0),
              ElementsAre(0x4030201, -1));
  EXPECT_THAT(row<int64_t>(open("\1\2\3\4\5\6\7\x08", {.type = TokenType::kI64, .window = 1}), 0),
              ElementsAre(0x0807060504030201));
}

TEST_F(Tokens, ComeInWindowsAtAnyStart) {
  const TokenFile file = open("0123456789", {.type = TokenType::kU8, .window = 4, .stride = 3});
  EXPECT_EQ(file.tokens(), 10);
  EXPECT_EQ(file.rows(), 3);
  EXPECT_THAT(row<uint8_t>(file, 0), ElementsAre('0', '1', '2', '3'));
  EXPECT_THAT(row<uint8_t>(file, 2), ElementsAre('6', '7', '8', '9'));
  EXPECT_ERROR(row<uint8_t>(file, 3), ErrorCode::kOutOfRange, "row 3 lies outside the 3 rows");
  EXPECT_ERROR(row<uint8_t>(file, -1), ErrorCode::kOutOfRange, "row -1");
  std::array<std::byte, 2> two;
  file.read_window(8, two);
  EXPECT_EQ(two[1], std::byte{'9'});
  EXPECT_ERROR(file.read_window(9, two), ErrorCode::kOutOfRange, "token 9 and the 2 after it");
  EXPECT_ERROR(file.read_window(INT64_MAX, two), ErrorCode::kOutOfRange, "outside the 10 tokens");
  EXPECT_ERROR(file.read(0, two), ErrorCode::kInvalidArgument,
               "a row has 4 bytes, but the memory for it has 2");
}

TEST_F(Tokens, BeginBehindAHeaderAlignedOrNot) {
  const TokenFile odd =
      open(std::string("abc\1\0\2\0", 7), {.type = TokenType::kU16, .window = 2, .header_bytes = 3});
  EXPECT_THAT(row<int32_t>(odd, 0), ElementsAre(1, 2));
}

TEST_F(Tokens, OutsideTheVocabularyAreErrorsWithTheirOffset) {
  const TokenFile file =
      open(std::string("\1\0\2\0\3\0", 6), {.type = TokenType::kU16, .window = 2, .vocabulary = 3});
  EXPECT_THAT(row<int32_t>(file, 0), ElementsAre(1, 2));
  EXPECT_ERROR(row<int32_t>(file, 1), ErrorCode::kBadFormat, "tokens.bin] offset 4: token 2 lies outside");
  const TokenFile negative =
      open("\xff\xff\xff\xff", {.type = TokenType::kI32, .window = 1, .vocabulary = 1000});
  EXPECT_ERROR(row<int32_t>(negative, 0), ErrorCode::kBadFormat, "offset 0: token 0");
}

TEST_F(Tokens, OfFilesThatDontFitAreErrors) {
  const TokenFileOptions options = {.type = TokenType::kI32, .window = 2, .header_bytes = 1};
  expect_truncation_errors(
      "h12345678", [&](const std::string& cut) { open(cut, options); }, ErrorCode::kBadFormat, "tokens.bin]");
  EXPECT_ERROR(open("x", {.window = 0}), ErrorCode::kInvalidArgument, "at least 1");
  EXPECT_ERROR(TokenFile(folder_ / "none", {}), ErrorCode::kIo, "none");
  EXPECT_ERROR(TokenFile(folder_.path(), {}), ErrorCode::kIo, "not a regular file");
}

TEST_F(Tokens, OfAFileThatShrankAreAnError) {
  const TokenFile file = open(std::string(100'000, 'x'), {.type = TokenType::kU8, .window = 10});
  EXPECT_THAT(row<uint8_t>(file, 90'000)[0], 'x');
  std::filesystem::resize_file(path_, 5000);
  EXPECT_ERROR(row<uint8_t>(file, 90'000), ErrorCode::kIo, "ends at byte 90000, expected 90010");
}

}  // namespace
}  // namespace isochron::data
