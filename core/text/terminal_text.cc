#include "isochron/core/text/terminal_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace isochron {
namespace {

unsigned char byte_at(std::string_view text, size_t i) { return static_cast<unsigned char>(text[i]); }

bool is_continuation(unsigned char byte) { return (byte & 0xc0) == 0x80; }

/// The second byte's range (Unicode 15, table 3-7): no overlong forms, no surrogates, nothing above 10FFFF.
bool fits_second(unsigned char first, unsigned char second) {
  switch (first) {
    case 0xe0:
      return second >= 0xa0 && second <= 0xbf;
    case 0xed:
      return second >= 0x80 && second <= 0x9f;
    case 0xf0:
      return second >= 0x90 && second <= 0xbf;
    case 0xf4:
      return second >= 0x80 && second <= 0x8f;
    default:
      return is_continuation(second);
  }
}

size_t length_by_first(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

/// Control characters, Unicode line separators, and characters that change the direction of text.
bool controls(char32_t code) {
  return (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7f && code <= 0x9f) || code == 0x61c ||
         code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

/// The largest number of bytes, at most `most`, that ends between two characters.
size_t whole_characters(std::string_view text, size_t most) {
  if (text.size() <= most) return text.size();
  size_t end = most;
  for (int back = 0; back < 3 && end > 0 && is_continuation(byte_at(text, end)); ++back) --end;
  return is_continuation(byte_at(text, end)) ? most : end;  // no UTF-8
}

}  // namespace

TerminalEscaper::Character TerminalEscaper::first_character(std::string_view text) {
  const unsigned char first = byte_at(text, 0);
  const size_t length = length_by_first(first);
  const Character invalid{Kind::kInvalid, 1, first};
  if (length == 0) return invalid;
  char32_t code = length == 1 ? first : first & (0x7f >> length);
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Kind::kIncomplete, text.size(), 0};
    const unsigned char byte = byte_at(text, i);
    if (i == 1 ? !fits_second(first, byte) : !is_continuation(byte)) return invalid;
    code = code << 6 | (byte & 0x3f);
  }
  return {controls(code) ? Kind::kEscaped : Kind::kPlain, length, code};
}

std::string_view TerminalEscaper::spelled(const Character& character) {
  const auto code = static_cast<uint32_t>(character.code);
  const bool byte = character.kind == Kind::kInvalid || code < 0x80;
  char* const end = byte ? fmt::format_to(spelling_.data(), "\\x{:02x}", code)
                         : fmt::format_to(spelling_.data(), "\\u{{{:x}}}", code);
  return {spelling_.data(), static_cast<size_t>(end - spelling_.data())};
}

std::string escape_for_terminal(std::string_view text) {
  std::string result;
  TerminalEscaper escaper;
  const auto append = [&result](std::string_view piece) { result += piece; };
  escaper.put(text, append);
  escaper.finish(append);
  return result;
}

std::string quotation(std::string_view text, size_t most_bytes) {
  std::string result;
  for (const char c : escape_for_terminal(text.substr(0, whole_characters(text, most_bytes)))) {
    if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else {
      result += c;
    }
  }
  if (text.size() > most_bytes) result += fmt::format("... (of {} bytes)", text.size());
  return result;
}

std::string shortened(std::string_view text, size_t most_bytes) {
  if (text.size() <= most_bytes) return std::string(text);
  return fmt::format("{}... (of {} bytes)", text.substr(0, whole_characters(text, most_bytes)), text.size());
}

}  // namespace isochron
