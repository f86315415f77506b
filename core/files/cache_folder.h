// The user's cache folder, for what can be made again: choices of kernels, compiled kernels.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace isochron {

/// `$ISOCHRON_CACHE`, else `$XDG_CACHE_HOME/isochron`, else `~/.cache/isochron`. Empty where
/// `ISOCHRON_CACHE=off` switches it off, and where no folder is known. It need not exist.
std::filesystem::path cache_folder();

/// Of the files in `folder` whose names begin and end so, all but the `keep` last written go. What can't be
/// removed stays.
void keep_newest_files(const std::filesystem::path& folder, std::string_view prefix, std::string_view suffix,
                       size_t keep);

}  // namespace isochron
