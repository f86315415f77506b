// What `isochron compare` writes for readers: the page of all chapters that ran, each loop beside its cured
// form, and each chapter's figure by itself.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "isochron/apps/compare/chapter.h"

namespace isochron::apps {

std::string compare_page(std::span<const ChapterResult> chapters);

/// The chapter's figure as an SVG file; empty where no loop has a window to draw.
std::string chapter_figure(const ChapterResult& result);

}  // namespace isochron::apps
