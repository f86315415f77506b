#include "isochron/apps/analyze/times/log_reader.h"

#include <algorithm>
#include <string_view>

#include "isochron/core/base/error.h"

namespace isochron::apps {
namespace {

constexpr char kEscape = '\x1b', kBell = '\x07';

bool in_range(char c, char first, char last) { return c >= first && c <= last; }

/// The end of the sequence that begins with the escape character at `at`.
size_t end_of_escape(std::string_view text, size_t at) {
  if (at + 1 == text.size()) return text.size();
  const char kind = text[at + 1];
  size_t end = at + 2;
  if (kind == '[') {  // parameter and intermediate bytes, then a final byte
    while (end < text.size() && in_range(text[end], '\x20', '\x3f')) ++end;
    return std::min(end + 1, text.size());
  }
  if (kind == ']' || kind == 'P' || kind == '_' || kind == '^' || kind == 'X') {  // a text up to BEL or ESC
    while (end < text.size() && text[end] != kBell && text[end] != kEscape) ++end;
    if (end < text.size() && text[end] == kEscape) ++end;
    return std::min(end + 1, text.size());
  }
  for (end = at + 1; end < text.size() && in_range(text[end], '\x20', '\x2f');) ++end;
  return std::min(end + 1, text.size());
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t") == std::string_view::npos; }

}  // namespace

void remove_escapes(std::string& text) {
  size_t kept = text.find(kEscape);
  if (kept == std::string::npos) return;
  for (size_t at = kept; at < text.size();) {
    if (text[at] == kEscape)
      at = end_of_escape(text, at);
    else
      text[kept++] = text[at++];
  }
  text.resize(kept);
}

/// Appends the text up to the next split to `piece`; false at the end.
bool LogReader::take_piece(std::string& piece) {
  piece.clear();
  line_ = next_line_;
  for (bool any = false;; any = true) {
    const auto bytes = stream_.peek();
    if (bytes.empty()) return any && !stream_.stopped();  // a stop may have cut the last line
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const auto splits = [](char c) { return c == '\n' || c == '\r' || c == '\b'; };
    const size_t stop = static_cast<size_t>(std::ranges::find_if(text, splits) - text.begin());
    require(stop <= kMaxBytes - piece.size(), ErrorCode::kBadFormat, stream_.where(),
            "line {} has more than {} bytes without a carriage return", line_, kMaxBytes);
    piece += text.substr(0, stop);
    const bool split = stop < text.size();
    unfinished_ = !split || text[stop] != '\n';
    next_line_ += !unfinished_;
    stream_.skip(split ? stop + 1 : stop);
    if (split) return true;
  }
}

bool LogReader::next(std::string& update) {
  while (take_piece(update)) {
    remove_escapes(update);
    if (!is_blank(update)) return true;
  }
  return false;
}

}  // namespace isochron::apps
