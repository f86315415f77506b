// Where the running program lies, for what is installed beside it.
#pragma once

#include <filesystem>

namespace isochron {

/// The folder of the running program's file, links followed. Empty where the system doesn't tell.
std::filesystem::path program_folder();

/// `folder` of the installation, e.g. "share": PREFIX/share where the program is PREFIX/bin/NAME. An absolute
/// `folder` as it is.
std::filesystem::path beside_program(const std::filesystem::path& folder);

}  // namespace isochron
