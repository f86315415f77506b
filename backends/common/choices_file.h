// The file that keeps timed choices for later processes: one small text file per machine.
// backends/common/choices.h decides what is kept; this header covers the file's location, format and limits.
//
// The file lies in the user's cache folder (core/files/cache_folder.h). Its name contains a hash of
// everything that a timing depends on besides the call: the processor, the vector instructions in use
// (backends/common/vector_target.h) and the versions of this library and of oneDNN.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace isochron::ops {

/// The file's path; empty if the file is switched off or no cache folder is known.
std::filesystem::path choices_path();

/// The choices in the file at `path`, as a map from calls to candidate names; empty if there is no file.
/// Throws kIo, and kBadFormat unless the file is complete and was written for this machine. It ends with a
/// checksum.
std::map<std::string, std::string> read_choices_file(const std::filesystem::path& path);

/// Replaces the whole file at `path`, and creates its folder if needed. If there are more than
/// kMaxChoicesFiles files, files of other machines are removed, oldest first. Calls that don't fit in a line
/// are skipped. Throws kIo.
void write_choices_file(const std::filesystem::path& path, const std::map<std::string, std::string>& choices);

inline constexpr size_t kMaxChoicesFiles = 8;
/// The suffix of a candidate's name in a doubtful choice: other programs occupied the cores during timing.
inline constexpr char kDoubtful = '?';

}  // namespace isochron::ops
