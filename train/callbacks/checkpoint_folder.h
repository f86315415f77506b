// Folders of checkpoints: file names from a template, and the file to resume from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "isochron/train/callbacks/run_document.h"
#include "isochron/train/checkpoints/checkpoint.h"

namespace isochron::train {

/// The file name for `name_template`, such as "cp-{epoch:04d}". It may contain the names of `results` and
/// "epoch", "step" (in the epoch) and "total_steps", formatted as in {fmt} and Python; a missing
/// ".safetensors" is added. Throws kInvalidArgument for any other template, listing the valid names.
std::filesystem::path checkpoint_path(const std::filesystem::path& name_template, int epoch, int64_t step,
                                      int64_t total_steps, const Results& results);

/// A checkpoint that a run can be resumed from.
struct FoundCheckpoint {
  std::filesystem::path path;
  RunDocument document;
};
/// The newest complete checkpoint directly in `folder`: the one of the latest epoch and step among those
/// whose checksums all match. Damaged files are skipped with an event kNotice each. Files with only weights,
/// and other files, are skipped silently. nullopt if there is none, or no folder. Throws kIo for a folder or
/// a checkpoint that can't be read, kOutOfMemory for one that there is no memory to read, and kUnsupported
/// for one of another version.
std::optional<FoundCheckpoint> newest_checkpoint(const std::filesystem::path& folder);

}  // namespace isochron::train
