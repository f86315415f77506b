#include "isochron/data/formats/text_lines.h"

#include <cstring>

#include "isochron/core/base/error.h"

namespace isochron::data {

TextLineReader::TextLineReader(const std::filesystem::path& path, const TextLineOptions& options)
    : stream_(path, {.compression = options.compression}), max_line_bytes_(options.max_line_bytes) {}

bool TextLineReader::next(std::string& line) {
  const uint64_t offset = stream_.position();
  line.clear();
  for (bool ended = false; !ended;) {
    const auto bytes = stream_.peek();
    if (bytes.empty()) {
      if (stream_.position() == offset) return false;
      break;
    }
    const auto* newline = static_cast<const std::byte*>(std::memchr(bytes.data(), '\n', bytes.size()));
    ended = newline != nullptr;
    const size_t taken = ended ? static_cast<size_t>(newline - bytes.data()) : bytes.size();
    require(taken <= max_line_bytes_ - line.size(), ErrorCode::kBadFormat, stream_.where(),
            "offset {}: line {} has more than {} bytes (max_line_bytes)", offset, lines_ + 1,
            max_line_bytes_);
    line.append(reinterpret_cast<const char*>(bytes.data()), taken);
    stream_.skip(ended ? taken + 1 : taken);
    if (ended && line.ends_with('\r')) line.pop_back();
  }
  ++lines_;
  return true;
}

void TextLineReader::seek(const Position& position) {
  stream_.seek(position.offset);
  lines_ = position.lines;
}

}  // namespace isochron::data
