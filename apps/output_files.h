// The files that a command writes: checks that they differ from each other and from the files it reads. The
// name "-" means standard output.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace isochron::apps {

struct NamedFile {
  std::string name;            // for people: "--json", "the file to read"
  std::filesystem::path path;  // empty: there is none; need not exist yet
};

/// Throws kInvalidArgument if an output is the same file as an input or another output, under any name, link
/// or path. Devices and pipes may occur twice. At most one output may be "-".
void require_distinct(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs);

/// Whether both paths refer to the same file when written.
bool are_one_file(const std::filesystem::path& a, const std::filesystem::path& b);

/// If one of the files is "-", reserves standard output for it; everything printed then goes to standard
/// error. Call this before printing anything. Throws kIo.
void keep_standard_output_for(const std::vector<std::filesystem::path>& files);

/// Writes a file atomically or, if its name is "-", to standard output, which must have been reserved for it.
/// Does nothing for an empty path. Throws kIo.
void write_output(const std::filesystem::path& path, std::string_view content);

/// What `train --out` writes into its folder; empty for an empty path.
std::vector<NamedFile> files_of_run(const std::filesystem::path& folder);

}  // namespace isochron::apps
