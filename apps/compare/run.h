// Runs the loops of chapters, each until a verdict is possible, and holds them against what they should be
// found to be.
#pragma once

#include <span>
#include <vector>

#include "isochron/apps/compare/chapter.h"

namespace isochron::apps {

/// Runs all loops in turns of 0.2 s, each in a process of its own, so that what the machine does from one
/// second to the next meets them all, and all parts of each. Every loop has `options.seconds`; one that runs
/// on is beside its twin before and after (observe/side_by_side.h), as long as `options.budget_seconds`
/// allow. Then makes the tables. Prints the documents' lines per epoch and a verdict for each. `chapters`
/// must outlive the result. Nothing may have been computed in parallel by this process before (see
/// observe/worker.h).
std::vector<ChapterResult> run_chapters(std::span<const Chapter> chapters, const CompareOptions& options);

/// The loops side by side, what they left to say, the tables, the three sentences, deviations. Ends with a
/// newline.
std::string chapter_text(const ChapterResult& result);

}  // namespace isochron::apps
