#include "isochron/data/formats/csv_scanner.h"

#include <algorithm>

#include "isochron/core/base/error.h"
#include "isochron/core/text/encoding.h"

namespace isochron::data {
namespace {

constexpr int kEnd = -1;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

int CsvScanner::peek_char() {
  const auto bytes = stream_.peek();
  return bytes.empty() ? kEnd : std::to_integer<int>(bytes[0]);
}

/// Skips and counts empty lines up to the next row; false if there is none.
bool CsvScanner::find_row() {
  if (stream_.position() == 0) {
    const auto begin = stream_.peek();
    refuse_wide_text(begin, stream_.where());
    if (text_of(begin).starts_with(kByteOrderMark)) stream_.skip(kByteOrderMark.size());
  }
  for (blank_rows_ = 0, returns_ = 0, row_offset_ = stream_.position();;) {
    const int next = peek_char();
    if (next == kEnd) {
      blank_rows_ = 0;
      return false;
    }
    if (next != '\r' && next != '\n') return true;
    stream_.skip(1);
    require(++returns_ <= max_row_bytes_, ErrorCode::kBadFormat, stream_.where(),
            "line {} has more than {} bytes (max_row_bytes)", next_line_ + blank_rows_, max_row_bytes_);
    if (next == '\r') continue;
    ++blank_rows_;
    returns_ = 0;
    row_offset_ = stream_.position();
  }
}

bool CsvScanner::next_row() {
  if (!found_) found_ = find_row();
  if (!found_) return false;
  row_.clear();
  ends_.clear();
  line_ = next_line_++;
  ends_without_newline_ = false;
  if (blank_rows_ > 0) {
    --blank_rows_;
    ends_.push_back(0);
    return true;
  }
  found_ = false;
  row_.append(returns_, '\r');
  while (!next_field()) {
  }
  return true;
}

void CsvScanner::append(std::string_view text) {
  require(text.size() + ends_.size() <= max_row_bytes_ - std::min(row_.size(), max_row_bytes_),
          ErrorCode::kBadFormat, stream_.where(), "line {} has more than {} bytes (max_row_bytes)", line_,
          max_row_bytes_);
  row_ += text;
}

/// Reads one field; true if the row ends with it.
bool CsvScanner::next_field() {
  if (row_.size() == (ends_.empty() ? 0 : ends_.back()) && peek_char() == '"') take_quoted();
  const size_t quoted = row_.size();  // carriage returns inside of quotes belong to the field
  for (;;) {
    const std::string_view text = text_of(stream_.peek());
    const size_t stop =
        std::find_if(text.begin(), text.end(), [&](char c) { return c == separator_ || c == '\n'; }) -
        text.begin();
    append(text.substr(0, stop));
    if (stop == text.size() && !text.empty()) {
      stream_.skip(stop);
      continue;
    }
    const bool at_end = text.empty(), row_ended = at_end || text[stop] == '\n';
    while (row_ended && row_.size() > quoted && row_.back() == '\r') {
      row_.pop_back();
      if (!at_end) break;
    }
    ends_.push_back(row_.size());
    ends_without_newline_ = at_end;
    if (!at_end) stream_.skip(stop + 1);
    return row_ended;
  }
}

void CsvScanner::take_quoted() {
  stream_.skip(1);
  for (;;) {
    const std::string_view text = text_of(stream_.peek());
    require(!text.empty(), ErrorCode::kBadFormat, stream_.where(),
            "line {}: the quote that opens field {} never closes", line_, ends_.size() + 1);
    const size_t stop = std::min(text.find('"'), text.size());
    append(text.substr(0, stop));
    next_line_ += std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(stop), '\n');
    const bool quote = stop < text.size();
    stream_.skip(quote ? stop + 1 : stop);
    if (!quote) continue;
    if (peek_char() != '"') return require_end_of_field();
    append("\"");
    stream_.skip(1);
  }
}

void CsvScanner::require_end_of_field() {
  const int next = peek_char();
  const bool ends =
      next == kEnd || next == static_cast<unsigned char>(separator_) || next == '\n' || next == '\r';
  require(ends, ErrorCode::kBadFormat, stream_.where(),
          "line {}: text follows the quote that closes field {}", line_, ends_.size() + 1);
}

CsvPosition CsvScanner::position() const {
  return {found_ ? row_offset_ : stream_.position(), next_line_, found_ ? blank_rows_ : 0};
}

void CsvScanner::seek(const CsvPosition& position) {
  stream_.seek(position.offset);
  next_line_ = position.line;
  found_ = false;
  if (position.blank_rows == 0) return;
  found_ = find_row();
  blank_rows_ = found_ ? position.blank_rows : 0;
}

}  // namespace isochron::data
