// The page that `isochron compare --out` writes: all chapters that ran, each loop beside its cured form.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "isochron/apps/compare/chapter.h"

namespace isochron::apps {

struct ChapterResult {
  const Chapter* chapter;
  std::vector<LoopResult> loops;  // one for each of the chapter's
};

std::string compare_page(std::span<const ChapterResult> chapters);

}  // namespace isochron::apps
