// Where the running program is located, for files that are installed next to it.
#pragma once

#include <filesystem>

namespace isochron {

/// The folder of the running program's file, with links resolved. Empty if the system doesn't report it.
std::filesystem::path program_folder();

/// `folder` of the installation, e.g. "share": PREFIX/share where the program is PREFIX/bin/NAME. An absolute
/// `folder` as it is.
std::filesystem::path beside_program(const std::filesystem::path& folder);

}  // namespace isochron
