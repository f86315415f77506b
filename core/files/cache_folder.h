// The user's cache folder, for data that can be recreated: kernel choices and compiled kernels.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace isochron {

/// `$ISOCHRON_CACHE`, else `$XDG_CACHE_HOME/isochron`, else `~/.cache/isochron`. Empty if
/// `ISOCHRON_CACHE=off` disables it, or if no folder is known. The folder need not exist.
std::filesystem::path cache_folder();

/// Removes the files in `folder` whose names begin with `prefix` and end with `suffix`, except for the `keep`
/// most recently written ones. Files that can't be removed stay.
void keep_newest_files(const std::filesystem::path& folder, std::string_view prefix, std::string_view suffix,
                       size_t keep);

}  // namespace isochron
