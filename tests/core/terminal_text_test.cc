#include "isochron/core/terminal_text.h"

#include <gmock/gmock.h>

namespace isochron {
namespace {

TEST(TerminalText, OrdinaryTextStaysAsItIs) {
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
}

TEST(TerminalText, SpellsOutBytesThatAreNoUtf8) {
  EXPECT_EQ(escape_for_terminal("\x9b"
                                "31m"),
            "\\x9b31m")
      << "C1 in one byte";
  EXPECT_EQ(escape_for_terminal("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(escape_for_terminal("\xc0\xaf"), "\\xc0\\xaf") << "an overlong form";
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
  EXPECT_EQ(shortened("abc", 3), "abc");
  EXPECT_EQ(shortened("ab\ncd", 4), "ab\nc... (of 5 bytes)");
  EXPECT_EQ(quotation(std::string(8, '\x80'), 4), "\\x80\\x80\\x80\\x80... (of 8 bytes)");
}

}  // namespace
}  // namespace isochron
