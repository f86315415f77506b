// The files that this process has written and left: checkpoints and weights, event files. Whoever writes one
// notes it; whether it is still there is looked up when somebody asks. At most `kMaxWrittenFiles` of a
// kind are remembered, in memory taken with the first; the oldest goes.
#pragma once

#include <cstdint>
#include <filesystem>

namespace isochron {

enum class FileKind { kWeights, kEvents };

inline constexpr int kMaxWrittenFiles = 256;

/// Throws nothing: what can't be remembered isn't.
void note_written_file(FileKind kind, const std::filesystem::path& path) noexcept;
/// How many were ever noted.
int64_t written_files();

struct FilesLeft {
  int64_t written = 0;  // names, of those remembered
  int64_t left = 0;     // of them, that are still there
};
/// Those of one kind that were noted after the first `since`. Looks at the disk.
FilesLeft files_left(FileKind kind, int64_t since);

}  // namespace isochron
