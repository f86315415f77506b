#include "isochron/core/files/cache_folder.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace isochron {

namespace fs = std::filesystem;

fs::path cache_folder() {
  const auto variable = [](const char* name) -> std::string {
    const char* text = std::getenv(name);
    return text ? text : "";
  };
  if (const std::string own = variable("ISOCHRON_CACHE"); !own.empty()) return own == "off" ? "" : own;
  if (const fs::path cache = variable("XDG_CACHE_HOME"); cache.is_absolute()) return cache / "isochron";
  if (const fs::path home = variable("HOME"); home.is_absolute()) return home / ".cache" / "isochron";
  return {};
}

void keep_newest_files(const fs::path& folder, std::string_view prefix, std::string_view suffix,
                       size_t keep) {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) continue;
    std::error_code gone;
    const fs::file_time_type time = at->last_write_time(gone);
    if (!gone) files.emplace_back(time, at->path());
  }
  std::sort(files.rbegin(), files.rend());
  for (size_t i = keep; i < files.size(); ++i) fs::remove(files[i].second, error);
}

}  // namespace isochron
