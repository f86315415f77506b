// Datasets stored in files: written once, then read as rows.
#pragma once

#include <filesystem>

#include "isochron/data/pipeline/dataset.h"

namespace isochron::data {

/// The elements of `dataset` as rows of files in `folder`, one NPY file per tensor, as from_npy reads
/// them. If the folder holds them already, nothing is run. If there is no folder, the dataset is run once, in
/// this call, and the folder appears when it is complete. Datasets are distinguished by their chain of calls,
/// signatures and `version`. Map functions can't be compared, so change the version if one of them changes.
/// Throws kInvalidArgument like Dataset::cache, kBadFormat for a folder that is damaged or belongs to
/// another dataset, kIo.
Dataset snapshot(const Dataset& dataset, const std::filesystem::path& folder, std::string_view version = "1");

}  // namespace isochron::data
