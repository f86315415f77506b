// Where the running program is located, for files that are installed next to it.
#pragma once

#include <filesystem>

namespace isochron {

/// The folder of the running program's file, with links resolved. Empty if the system doesn't report it.
std::filesystem::path program_folder();

/// The folder of the installation, e.g. PREFIX/share for "share" if the program is PREFIX/bin/NAME. An
/// absolute `folder` is returned unchanged.
std::filesystem::path beside_program(const std::filesystem::path& folder);

}  // namespace isochron
