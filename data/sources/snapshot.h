// Datasets kept in files: made once, read as rows ever after.
#pragma once

#include <filesystem>

#include "isochron/data/pipeline/dataset.h"

namespace isochron::data {

/// The elements of `dataset` as rows of files in `folder`, one NPY file a tensor, mapped into memory. When
/// the folder holds them already, nothing is run; when there is none, the dataset is run once, here, and the
/// folder appears when it is complete. What tells datasets apart is the chain of calls, signatures and
/// `version`: functions of maps can't be compared, so give another version when one of them changes. Throws
/// kInvalidArgument as Dataset::cache, kBadFormat for a folder of another dataset or a damaged one, kIo.
Dataset snapshot(const Dataset& dataset, const std::filesystem::path& folder, std::string_view version = "1");

}  // namespace isochron::data
