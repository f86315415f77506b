// Text from a file or a user, made safe for a terminal: everything that a terminal would act upon is spelled
// out. The command prints through standard_streams.h, which does this for all its output; `quotation` is for
// the input that an error message shows.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace isochron {

/// Spells out, in a stream of text: control characters except newline and tab ("\x1b"), bytes that aren't
/// UTF-8 ("\xff"), and code points that control a terminal (C1), end lines or reorder text ("\u{202e}").
/// Everything else stays as it is. A character may be split between pieces. Allocates nothing.
class TerminalEscaper {
 public:
  /// Calls `out(std::string_view)` with the pieces of what may be printed.
  template <typename Out>
  void put(std::string_view text, Out&& out) {
    while (held_bytes_ > 0 && !text.empty()) {
      held_[held_bytes_++] = text.front();
      text.remove_prefix(1);
      while (held_bytes_ > 0 && take_held(out, false)) {
      }
    }
    size_t plain = 0;
    for (size_t at = 0; at < text.size();) {
      const Character next = first_character(text.substr(at));
      if (next.kind == Kind::kPlain) {
        at += next.bytes;
        continue;
      }
      if (at > plain) out(text.substr(plain, at - plain));
      if (next.kind == Kind::kIncomplete) {
        for (const char c : text.substr(at)) held_[held_bytes_++] = c;
        return;
      }
      out(spelled(next));
      plain = at += next.bytes;
    }
    if (plain < text.size()) out(text.substr(plain));
  }
  /// Call this at the end of the stream: passes to `out` the bytes of an incomplete last character.
  template <typename Out>
  void finish(Out&& out) {
    while (held_bytes_ > 0) take_held(out, true);
  }

 private:
  enum class Kind { kPlain, kEscaped, kInvalid, kIncomplete };
  struct Character {
    Kind kind = Kind::kPlain;
    size_t bytes = 1;
    char32_t code = 0;  // for kInvalid, the byte
  };
  /// The first character of `text`, which isn't empty. kIncomplete: all of `text` is the beginning of one
  /// character.
  static Character first_character(std::string_view text);
  std::string_view spelled(const Character& character);

  template <typename Out>
  bool take_held(Out&& out, bool last) {  // false: it is still the beginning of a character
    const std::string_view held(held_.data(), held_bytes_);
    Character next = first_character(held);
    if (next.kind == Kind::kIncomplete) {
      if (!last) return false;
      next = {Kind::kInvalid, 1, static_cast<unsigned char>(held.front())};
    }
    out(next.kind == Kind::kPlain ? held.substr(0, next.bytes) : spelled(next));
    held_bytes_ -= next.bytes;
    for (size_t i = 0; i < held_bytes_; ++i) held_[i] = held_[i + next.bytes];
    return true;
  }

  std::array<char, 4> held_{};  // the beginning of a character
  size_t held_bytes_ = 0;
  std::array<char, 16> spelling_{};
};

/// Escapes a whole text like TerminalEscaper.
std::string escape_for_terminal(std::string_view text);

/// The input as a message shows it: on one line, with newlines and tabs spelled out too. A text of more than
/// `most_bytes` is cut to its beginning, with its length: "abc... (of 70000 bytes)".
std::string quotation(std::string_view text, size_t most_bytes = 120);

/// The beginning of a text of more than `most_bytes`, with its length, cut between characters.
std::string shortened(std::string_view text, size_t most_bytes);

}  // namespace isochron
