#include "isochron/backends/common/choices_file.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include "isochron/backends/common/choices.h"
#include "isochron/backends/common/libraries.h"
#include "isochron/backends/common/vector_target.h"
#include "isochron/core/base/error.h"
#include "isochron/core/base/hash.h"
#include "isochron/core/files/cache_folder.h"
#include "isochron/core/files/file.h"

namespace isochron::ops {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFirstLine = "isochron choices 1";
constexpr std::string_view kPrefix = "choices-";
constexpr std::string_view kSuffix = ".txt";
constexpr size_t kMaxLineBytes = 1024;
constexpr size_t kMaxFileBytes = (kMaxRecordedChoices + 3) * kMaxLineBytes;

uint64_t hash_of(std::string_view text) { return hash_more(kHashOfNothing, text); }

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name") && !line.starts_with("CPU part")) continue;
    const size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == std::string::npos ? "" : line.substr(begin, 200);
  }
  return "unknown";
}

/// Everything that timings depend on besides the call, as text.
const std::string& machine() {
  static const auto* const text =  // must outlive the save at exit
      new std::string(fmt::format("{}, {}, isochron {}, oneDNN {} up to {}", processor_name(),
                                  vector_target(), ISOCHRON_VERSION, onednn_version(), onednn_target()));
  return *text;
}

bool fits_a_line(const std::string& call, const std::string& name) {
  const auto plain = [](char c) { return static_cast<unsigned char>(c) >= ' '; };
  return !name.empty() && call.size() + name.size() + 2 <= kMaxLineBytes &&
         std::all_of(call.begin(), call.end(), plain) && std::all_of(name.begin(), name.end(), plain);
}

/// Removes the next line from `text` and returns it. Throws kBadFormat if no complete line is left.
std::string_view take_line(std::string_view& text, const fs::path& path) {
  const size_t end = text.find('\n');
  require(end != std::string_view::npos && end <= kMaxLineBytes, ErrorCode::kBadFormat, path.string(),
          "{} bytes before the end: expected a line of at most {}", text.size(), kMaxLineBytes);
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 1);
  return line;
}

std::string last_line(std::string_view before) { return fmt::format("end {:016x}", hash_of(before)); }

}  // namespace

fs::path choices_path() {
  const fs::path in = cache_folder();
  return in.empty() ? in : in / fmt::format("{}{:016x}{}", kPrefix, hash_of(machine()), kSuffix);
}

std::map<std::string, std::string> read_choices_file(const fs::path& path) {
  std::map<std::string, std::string> choices;
  std::error_code missing;
  if (!fs::exists(path, missing)) return choices;
  const InputFile file(path);
  require(file.size_bytes() <= kMaxFileBytes, ErrorCode::kBadFormat, path.string(),
          "has {} bytes, more than {}", file.size_bytes(), kMaxFileBytes);
  std::string content(static_cast<size_t>(file.size_bytes()), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(content)));

  std::string_view text = content;
  require(take_line(text, path) == kFirstLine && take_line(text, path) == machine(), ErrorCode::kBadFormat,
          path.string(), "is not a file of choices made on this machine");
  for (;;) {
    const size_t begin = content.size() - text.size();
    const std::string_view line = take_line(text, path);
    const size_t tab = line.find('\t');
    if (tab == std::string_view::npos) {
      require(text.empty() && line == last_line(std::string_view(content).substr(0, begin)),
              ErrorCode::kBadFormat, path.string(), "byte {}: the checksum is wrong", begin);
      return choices;
    }
    require(choices.size() < kMaxRecordedChoices, ErrorCode::kBadFormat, path.string(),
            "has more than {} choices", kMaxRecordedChoices);
    choices.emplace(line.substr(tab + 1), line.substr(0, tab));
  }
}

void write_choices_file(const fs::path& path, const std::map<std::string, std::string>& choices) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  require(!error, ErrorCode::kIo, path.parent_path().string(), "cannot create the folder: {}",
          error.message());
  // A pipe wouldn't be replaced but written to, and the write would wait for a reader.
  require(!fs::exists(path, error) || fs::is_regular_file(path, error), ErrorCode::kIo, path.string(),
          "is not a regular file");
  std::string text = fmt::format("{}\n{}\n", kFirstLine, machine());
  for (const auto& [call, name] : choices) {
    if (fits_a_line(call, name)) text += fmt::format("{}\t{}\n", name, call);
  }
  write_file_atomically(path, text + last_line(text) + "\n");
  keep_newest_files(path.parent_path(), kPrefix, kSuffix, kMaxChoicesFiles);
}

}  // namespace isochron::ops
