// Checks that the files a command writes differ from each other and from those that it reads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace isochron::apps {

struct NamedFile {
  std::string name;            // for people: "--json", "the file to read"
  std::filesystem::path path;  // empty: there is none; need not exist yet
};

/// Throws kInvalidArgument if an output is the same file as an input or another output, under any name, link
/// or path. Devices and pipes may occur twice.
void require_distinct(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs);

/// Whether both paths refer to the same file when written.
bool are_one_file(const std::filesystem::path& a, const std::filesystem::path& b);

/// What `train --out` writes into its folder; empty for an empty path.
std::vector<NamedFile> files_of_run(const std::filesystem::path& folder);

}  // namespace isochron::apps
