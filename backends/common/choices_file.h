// Where choices made by timing outlive the process: one small text file a machine in the user's cache folder.
// backends/common/choices.h decides what is kept; here are the file's place, form and limits.
//
// It lies in the user's cache folder (core/files/cache_folder.h). Its name holds a hash of what a timing
// depends on besides the call: processor, vector instructions in use (backends/common/vector_target.h),
// versions of this library and of oneDNN.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace isochron::ops {

/// Empty when switched off, or where no folder is known.
std::filesystem::path choices_path();

/// The choices in the file at `path`, call -> name of the candidate; none when there is no file. Throws kIo,
/// and kBadFormat for anything but a whole file of this machine: a checksum ends it.
std::map<std::string, std::string> read_choices_file(const std::filesystem::path& path);

/// Replaces the file at `path` as a whole, making its folder; files of other machines beyond
/// kMaxChoicesFiles go, oldest first. Calls that don't fit a line are left out. Throws kIo.
void write_choices_file(const std::filesystem::path& path, const std::map<std::string, std::string>& choices);

inline constexpr size_t kMaxChoicesFiles = 8;
/// Ends the name of a candidate that was chosen while other programs took the cores away.
inline constexpr char kDoubtful = '?';

}  // namespace isochron::ops
