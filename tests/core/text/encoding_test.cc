#include "isochron/core/text/encoding.h"

#include <fmt/format.h>

#include <string_view>

#include "support/expect_error.h"

namespace isochron {
namespace {

using namespace std::string_view_literals;

void read(std::string_view text) { refuse_wide_text(std::as_bytes(std::span(text)), "file"); }

/// ASCII text with `bytes` bytes per character; byte `place` holds the ASCII code.
std::string widened(std::string_view text, size_t bytes, size_t place) {
  std::string wide(text.size() * bytes, '\0');
  for (size_t i = 0; i < text.size(); ++i) wide[i * bytes + place] = text[i];
  return wide;
}

TEST(Encoding, OtherTextIsTaken) {
  for (const std::string_view text :
       {""sv, "a"sv, "step,ms\n1,2.5\n"sv, "\xef\xbb\xbfstep"sv, "\xc3\xa4\xf0\x9f\x98\x80"sv, "\xff"sv,
        "step\0 1"sv, "\0\0\0\0"sv, "\xfe\xfd"sv})
    EXPECT_NO_THROW(read(text)) << text;
}

TEST(Encoding, WiderOnesAreNamedWithTheirMarkAndWithout) {
  struct Case {
    std::string_view mark;
    size_t bytes;
    size_t place;
    std::string_view marked;
    std::string_view unmarked;
  };
  for (const Case& c :
       {Case{"\xff\xfe"sv, 2, 0, "UTF-16", "UTF-16LE"}, Case{"\xfe\xff"sv, 2, 1, "UTF-16", "UTF-16BE"},
        Case{"\xff\xfe\0\0"sv, 4, 0, "UTF-32", "UTF-32LE"},
        Case{"\0\0\xfe\xff"sv, 4, 3, "UTF-32", "UTF-32BE"}}) {
    for (const std::string_view text : {"1\n"sv, "id,lower\n1,2\n"sv, "step 1: 3.2 ms\nstep 2: 3.1 ms\n"sv}) {
      const std::string wide = widened(text, c.bytes, c.place);
      EXPECT_ERROR(
          read(std::string(c.mark) + wide), ErrorCode::kBadFormat,
          fmt::format("[file] is text in {0}; expected UTF-8: convert it with `iconv -f {0} -t UTF-8`",
                      c.marked));
      if (text.size() < 4) continue;  // too short to recognize
      EXPECT_ERROR(
          read(wide), ErrorCode::kBadFormat,
          fmt::format("looks like text in {0} without a byte order mark; expected UTF-8: try `iconv -f "
                      "{0} -t UTF-8`",
                      c.unmarked));
    }
  }
}

}  // namespace
}  // namespace isochron
