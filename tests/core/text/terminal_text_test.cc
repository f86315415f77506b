#include "isochron/core/text/terminal_text.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace isochron {
namespace {

TEST(TerminalText, OrdinaryTextStaysAsItIs) {
  for (const std::string text : {"\u0800", "\ud7ff", "\ue000", "\U00010000", "\U0010ffff"})
    EXPECT_EQ(escape_for_terminal(text), text) << "the shortest and longest forms that there are";
  for (const std::string text : {"", "plain, with a\ttab and\nlines", "ä € 😀 µs ▁█", "\\x1b"}) {
    EXPECT_EQ(escape_for_terminal(text), text);
  }
}

TEST(TerminalText, SpellsOutWhatATerminalActsOn) {
  EXPECT_EQ(escape_for_terminal("\x1b[2J"), "\\x1b[2J");
  EXPECT_EQ(escape_for_terminal("\x1b]0;t\x07"), "\\x1b]0;t\\x07");
  EXPECT_EQ(escape_for_terminal("a\rb\bc\x7f"), "a\\x0db\\x08c\\x7f");
  EXPECT_EQ(escape_for_terminal(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(escape_for_terminal("\xc2\x9b"
                                "31m"),
            "\\u{9b}31m")
      << "C1: a control sequence in two bytes";
  EXPECT_EQ(escape_for_terminal("\xe2\x80\xae"), "\\u{202e}") << "text from right to left";
  EXPECT_EQ(escape_for_terminal("\xe2\x80\xa8"), "\\u{2028}") << "a line's end";
  // Both ends of each range of code points, and their neighbors outside.
  for (const auto& [text, code] : std::vector<std::pair<const char*, int>>{{"\u0080", 0x80},
                                                                           {"\u009f", 0x9f},
                                                                           {"\u061c", 0x61c},
                                                                           {"\u200e", 0x200e},
                                                                           {"\u200f", 0x200f},
                                                                           {"\u2029", 0x2029},
                                                                           {"\u2066", 0x2066},
                                                                           {"\u2069", 0x2069},
                                                                           {"\ufeff", 0xfeff}}) {
    EXPECT_EQ(escape_for_terminal(text), fmt::format("\\u{{{:x}}}", code));
  }
  for (const std::string text : {"~", "\u00a0", "\u061d", "\u200d", "\u2010", "\u2027", "\u202f", "\u2065",
                                 "\u206a", "\ufefe", "\ufffd"}) {
    EXPECT_EQ(escape_for_terminal(text), text);
  }
}

TEST(TerminalText, CharactersMayComeInPieces) {
  const std::string text = "aä\x1b€\x9b😀\u202e\xe2\x82\x1b\xf0\x9f\x98x\xf0\x9f";
  const std::string whole = escape_for_terminal(text);
  const auto of_pieces = [&text](size_t first, size_t second) {
    std::string result;
    TerminalEscaper escaper;
    const auto append = [&result](std::string_view piece) { result += piece; };
    for (const auto& [begin, end] : {std::pair(size_t{0}, first), {first, second}, {second, text.size()}})
      escaper.put(std::string_view(text).substr(begin, end - begin), append);
    escaper.finish(append);
    return result;
  };
  for (size_t first = 0; first <= text.size(); ++first) {
    for (size_t second = first; second <= text.size(); ++second)
      EXPECT_EQ(of_pieces(first, second), whole) << first << ", " << second;
  }
}

TEST(TerminalText, SpellsOutBytesThatAreNoUtf8) {
  EXPECT_EQ(escape_for_terminal("\x9b"
                                "31m"),
            "\\x9b31m")
      << "C1 in one byte";
  EXPECT_EQ(escape_for_terminal("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(escape_for_terminal("\xc0\xaf"), "\\xc0\\xaf") << "an overlong form";
  EXPECT_EQ(escape_for_terminal("\xe0\x9f\xbf"), "\\xe0\\x9f\\xbf") << "one of three bytes";
  EXPECT_EQ(escape_for_terminal("\xf0\x8f\xbf\xbf"), "\\xf0\\x8f\\xbf\\xbf") << "one of four";
  EXPECT_EQ(escape_for_terminal("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(escape_for_terminal("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond 10FFFF";
  EXPECT_EQ(escape_for_terminal("\xe2\x82"), "\\xe2\\x82") << "cut short";
  EXPECT_EQ(escape_for_terminal("\xe2\x82\x1b"), "\\xe2\\x82\\x1b")
      << "what follows is a character of its own";
}

TEST(TerminalText, QuotationsAreOneLineAndShort) {
  EXPECT_EQ(quotation("a\nb\tc"), "a\\nb\\tc");
  EXPECT_EQ(quotation(std::string(1000, 'x'), 3), "xxx... (of 1000 bytes)");
  EXPECT_EQ(quotation("aä", 2), "a... (of 3 bytes)") << "cut between characters";
  for (const size_t most : {1, 2, 3, 4}) EXPECT_EQ(quotation("a😀", most), "a... (of 5 bytes)") << most;
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("ab\ncd", 4), "ab\nc... (of 5 bytes)");
  EXPECT_EQ(quotation(std::string(8, '\x80'), 4), "\\x80\\x80\\x80\\x80... (of 8 bytes)");
}

}  // namespace
}  // namespace isochron
