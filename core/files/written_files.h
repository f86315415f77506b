// The files that this process has written and kept: checkpoints and weights, event files. The code that
// writes a file notes it; whether it still exists is checked only on request. At most `kMaxWrittenFiles` of a
// kind are remembered, in memory allocated with the first; the oldest is dropped.
#pragma once

#include <cstdint>
#include <filesystem>

namespace isochron {

enum class FileKind { kWeights, kEvents };

inline constexpr int kMaxWrittenFiles = 256;

/// Throws nothing: a file that can't be noted is ignored.
void note_written_file(FileKind kind, const std::filesystem::path& path) noexcept;
/// How many files were ever noted, of all kinds.
int64_t written_files();

struct FilesLeft {
  int64_t written = 0;  // different paths among the remembered files
  int64_t left = 0;     // how many of these paths still exist
};
/// The files of one kind that were noted after the first `since` files. Checks on disk which still exist.
FilesLeft files_left(FileKind kind, int64_t since);

}  // namespace isochron
