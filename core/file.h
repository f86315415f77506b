// Files: whole reads with a cap, and writes that are either complete or absent.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isochron {

/// The bytes of `path`. Throws kIo (missing, unreadable) and kBadFormat when larger than `limit_bytes`.
std::vector<std::byte> read_file(const std::filesystem::path& path, size_t limit_bytes = size_t{1} << 40);

/// Writes `content` to a temporary sibling, fsyncs it, renames it over `path` and fsyncs the directory. On
/// any failure throws kIo, removes the temporary file and leaves what was at `path` untouched. A pipe or
/// device at `path` is written to in place.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

}  // namespace isochron
