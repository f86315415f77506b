// Folders of checkpoints: the names of files from a template, and which file to go on from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "isochron/train/callbacks/run_document.h"
#include "isochron/train/checkpoints/checkpoint.h"

namespace isochron::train {

/// The name that `name_template` stands for: "cp-{epoch:04d}" with the names of `results` and "epoch", "step"
/// (in the epoch) and "total_steps", formatted as {fmt} and Python do; ".safetensors" is added where it lacks
/// it. Throws kInvalidArgument for a template that says something else, naming what there is.
std::filesystem::path checkpoint_path(const std::filesystem::path& name_template, int epoch, int64_t step,
                                      int64_t total_steps, const Results& results);

/// A checkpoint that a run can go on from.
struct FoundCheckpoint {
  std::filesystem::path path;
  RunDocument document;
};
/// The newest whole one directly in `folder`: that with most steps done, every checksum of which is right.
/// Files that are damaged are left out with an event kNotice each; weights alone and other files without.
/// None when nothing is found, or no folder. Throws kIo for a folder that can't be read, kUnsupported for a
/// checkpoint of another version in it.
std::optional<FoundCheckpoint> newest_checkpoint(const std::filesystem::path& folder);

}  // namespace isochron::train
