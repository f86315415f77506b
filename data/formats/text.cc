#include "isochron/data/formats/text.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "isochron/core/base/error.h"
#include "isochron/core/base/rng.h"
#include "isochron/core/files/file.h"
#include "isochron/data/element/pipeline_memory.h"
#include "isochron/memory/allocators/buffer.h"

namespace isochron::data {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;

struct Source {
  fs::path path;
  bool named;  // not found in a folder
};

bool hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

void find_below(const fs::path& folder, const TextOptions& options, std::vector<Source>& found) {
  std::vector<Source> here;
  std::error_code failed;
  fs::recursive_directory_iterator at(folder, failed);
  for (; !failed && at != fs::recursive_directory_iterator(); at.increment(failed)) {
    const fs::file_status status = at->symlink_status(failed);
    if (failed) break;
    if (hidden(at->path())) {
      if (fs::is_directory(status)) at.disable_recursion_pending();
      continue;
    }
    const auto& wanted = options.extensions;
    if (fs::is_regular_file(status) &&
        (wanted.empty() || std::ranges::count(wanted, at->path().extension().string()) > 0)) {
      here.push_back({at->path(), false});
    }
  }
  require(!failed, ErrorCode::kIo, folder.string(), "cannot be listed: {}", failed.message());
  std::ranges::sort(here, {}, &Source::path);
  found.insert(found.end(), here.begin(), here.end());
}

/// The bytes of all files, and the most memory that reading them takes: for both parts, their tokens, and the
/// largest file.
struct Sizes {
  uint64_t total = 0, largest = 0;
  size_t held() const { return 2 * total + largest; }
};

std::vector<Source> find_sources(std::span<const fs::path> places, const TextOptions& options, Sizes& sizes) {
  std::vector<Source> found;
  for (const fs::path& place : places) {
    std::error_code ignored;
    if (fs::is_directory(place, ignored)) {
      find_below(place, options, found);
    } else {
      found.push_back({place, true});
    }
  }
  uint64_t& total = sizes.total;
  for (const Source& source : found) {
    const uint64_t bytes = InputFile(source.path).size_bytes();
    total += std::min<uint64_t>(bytes, UINT64_MAX - total);
    require(total <= options.limit_bytes, ErrorCode::kBadFormat, source.path.string(),
            "the text is larger than {} bytes; name a smaller part", options.limit_bytes);
    sizes.largest = std::max(sizes.largest, bytes);
  }
  return found;
}

/// Empty if the file isn't text and was only found in a folder.
std::optional<Bytes> read_source(const Source& source, const TextOptions& options) {
  Bytes bytes = read_regular_file(source.path, options.limit_bytes);
  const auto nul = std::ranges::find(bytes, std::byte{0});
  if (nul == bytes.end()) return bytes;
  require(!source.named, ErrorCode::kBadFormat, source.path.string(), "offset {}: a NUL byte; expected text",
          nul - bytes.begin());
  return std::nullopt;
}

using Numbers = std::array<uint8_t, 256>;

Tensor tokens_of(const Bytes& bytes, const Numbers& numbers) {
  Tensor tokens = empty({DType::kU8, {static_cast<int64_t>(bytes.size())}}, "dataset");
  std::ranges::transform(bytes, tokens.data<uint8_t>(),
                         [&](std::byte byte) { return numbers[std::to_integer<size_t>(byte)]; });
  return tokens;
}

int64_t room(const Tensor& tokens, int64_t length, int64_t count) {
  require(length >= 1 && count >= 1, ErrorCode::kInvalidArgument, "text",
          "expected windows of at least one token and at least one window, got {} and {}", length, count);
  require(tokens.elems() >= length, ErrorCode::kInvalidArgument, "text",
          "{} tokens are too few for a window of {}; give it more text", tokens.elems(), length);
  return tokens.elems() - length + 1;
}

}  // namespace

std::vector<int64_t> Text::encode(std::string_view text) const {
  std::vector<int64_t> tokens;
  for (const char byte : text) {
    const size_t at = vocabulary.find(byte);
    require(at != std::string::npos, ErrorCode::kOutOfRange, "text",
            "byte {} does not occur in the text, so it is not a token", static_cast<unsigned char>(byte));
    tokens.push_back(static_cast<int64_t>(at));
  }
  return tokens;
}

std::string Text::decode(std::span<const int64_t> tokens) const {
  std::string text;
  for (const int64_t token : tokens) {
    require(token >= 0 && token < static_cast<int64_t>(vocabulary.size()), ErrorCode::kOutOfRange, "text",
            "token {} is outside the vocabulary of {}", token, vocabulary.size());
    text += vocabulary[static_cast<size_t>(token)];
  }
  return text;
}

Text read_text(std::span<const fs::path> places, const TextOptions& options) {
  require(options.validation_share >= 0 && options.validation_share < 1, ErrorCode::kInvalidArgument,
          "read_text", "validation_share must lie in [0, 1), got {}", options.validation_share);
  Text text;
  Bytes train, validation;
  Sizes sizes;
  const std::vector<Source> sources = find_sources(places, options, sizes);
  const std::string where = sources.empty() ? "read_text" : sources[0].path.string();
  ReadMemory memory(where, "data::from_text_lines");
  memory.hold(sizes.held());
  train.reserve(sizes.total);  // so that no growth needs a second copy
  for (const Source& source : sources) {
    const std::optional<Bytes> bytes = read_source(source, options);
    if (!bytes || bytes->empty()) continue;
    const auto kept =
        static_cast<std::ptrdiff_t>(static_cast<double>(bytes->size()) * (1 - options.validation_share));
    train.insert(train.end(), bytes->begin(), bytes->begin() + kept);
    validation.insert(validation.end(), bytes->begin() + kept, bytes->end());
    ++text.files;
  }
  require(text.files > 0, ErrorCode::kBadFormat, places.empty() ? "read_text" : places[0].string(),
          "no text found there; expected at least one file that is not empty");
  std::array<bool, 256> occurs{};
  for (const Bytes* part : {&train, &validation}) {
    for (const std::byte byte : *part) occurs[std::to_integer<size_t>(byte)] = true;
  }
  Numbers numbers{};
  for (size_t byte = 0; byte < occurs.size(); ++byte) {
    if (!occurs[byte]) continue;
    numbers[byte] = static_cast<uint8_t>(text.vocabulary.size());
    text.vocabulary += static_cast<char>(byte);
  }
  text.train = tokens_of(train, numbers);
  text.validation = tokens_of(validation, numbers);
  return text;
}

Tensor random_starts(const Tensor& tokens, int64_t length, int64_t count, uint64_t seed) {
  const auto places = static_cast<uint64_t>(room(tokens, length, count));
  Tensor starts = empty({DType::kI64, {count}}, "dataset");
  Rng rng(seed);
  for (int64_t& start : starts.span<int64_t>()) start = static_cast<int64_t>(rng.below(places));
  return starts;
}

Tensor even_starts(const Tensor& tokens, int64_t length, int64_t count) {
  const int64_t places = room(tokens, length, count);
  count = std::min(count, tokens.elems() / length);
  Tensor starts = empty({DType::kI64, {count}}, "dataset");
  const double step = count > 1 ? static_cast<double>(places - 1) / static_cast<double>(count - 1) : 0;
  int64_t i = 0;
  for (int64_t& start : starts.span<int64_t>()) {
    start = static_cast<int64_t>(step * static_cast<double>(i++));
  }
  return starts;
}

}  // namespace isochron::data
