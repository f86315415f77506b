// Runs the loops of chapters, each until a verdict is possible, and holds them against what they should be
// found to be.
#pragma once

#include <span>
#include <vector>

#include "isochron/apps/compare/chapter.h"

namespace isochron::apps {

/// Runs all loops within `options.budget_seconds` as far as each loop's least time allows, and prints what
/// happens: the documents' lines per epoch and a verdict for each. Loops that aren't settled are run again
/// from the beginning for the time that is left. Then makes the tables. `chapters` must outlive the result.
std::vector<ChapterResult> run_chapters(std::span<const Chapter> chapters, const CompareOptions& options);

/// The loops side by side, what they left to say, the tables, the three sentences, deviations. Ends with a
/// newline.
std::string chapter_text(const ChapterResult& result);

}  // namespace isochron::apps
