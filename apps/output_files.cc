#include "isochron/apps/output_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "isochron/apps/run_files.h"
#include "isochron/core/base/error.h"
#include "isochron/core/files/file.h"
#include "isochron/core/process/standard_streams.h"

namespace isochron::apps {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStandardOutput = "-";

/// The file that a write to `path` creates or changes; also follows links to missing files.
fs::path goal_of(fs::path path) {
  constexpr int kMaxLinks = 40;
  std::error_code failed;
  for (int i = 0; i < kMaxLinks && fs::is_symlink(path, failed) && !fs::exists(path, failed); ++i) {
    const fs::path target = fs::read_symlink(path, failed);
    if (failed) break;
    path = path.parent_path() / target;
  }
  const fs::path goal = fs::weakly_canonical(fs::absolute(path, failed), failed);
  return failed ? path : goal;
}

}  // namespace

bool are_one_file(const fs::path& a, const fs::path& b) {
  std::error_code failed;
  const fs::path first = goal_of(a), second = goal_of(b);
  if (fs::is_other(a, failed)) return false;
  return first == second || fs::equivalent(first, second, failed);
}

void require_distinct(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs) {
  std::vector<NamedFile> others = inputs;
  for (const NamedFile& output : outputs) {
    if (output.path.empty()) continue;
    for (const NamedFile& other : others) {
      const bool is_input = static_cast<size_t>(&other - others.data()) < inputs.size();
      if (is_input && output.path == kStandardOutput) continue;
      require(other.path.empty() || !are_one_file(output.path, other.path), ErrorCode::kInvalidArgument,
              output.name, "'{}' is also {}{}; expected a separate file, so choose another name",
              output.path.string(), other.name.starts_with("--") ? "the file of " : "", other.name);
    }
    others.push_back(output);
  }
}

void keep_standard_output_for(const std::vector<fs::path>& files) {
  if (std::ranges::find(files, kStandardOutput) != files.end()) keep_standard_output_for_data();
}

void write_output(const fs::path& path, std::string_view content) {
  if (path == kStandardOutput)
    write_data(content);
  else if (!path.empty())
    write_file_atomically(path, content);
}

std::vector<NamedFile> files_of_run(const fs::path& folder) {
  std::vector<NamedFile> files;
  if (folder.empty()) return files;
  for (const std::string_view name : kRunFiles)
    files.push_back({fmt::format("{} of the run", name), folder / name});
  return files;
}

}  // namespace isochron::apps
