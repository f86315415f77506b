// Runs the loops of chapters, each until a verdict is possible, and holds them against what they should be
// found to be.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "isochron/apps/compare/chapter.h"

namespace isochron::apps {

/// Runs one chapter after the other, the loops of each in turns of 0.2 s, each in a process of its own, so
/// that what the machine does from one second to the next meets them all, and all parts of each. Every loop
/// has `options.seconds`; one that runs on is beside its twin before and after (observe/side_by_side.h), as
/// long as the chapter's share of `options.budget_seconds` allows. Then makes the tables, and calls `done`.
/// `options.verbose` prints the document's lines per epoch and a verdict for each loop. `chapters` must
/// outlive the result. Throws what a loop has thrown, after what the loops had printed. Nothing may have been
/// computed in parallel by this process before (see observe/worker.h).
std::vector<ChapterResult> run_chapters(std::span<const Chapter> chapters, const CompareOptions& options,
                                        const std::function<void(const ChapterResult& result)>& done);

}  // namespace isochron::apps
