// Pages for a browser, each a single self-contained HTML file. They follow the reader's light or dark mode
// and any window width. `run_section` shows the report on a recorded loop; trainers and `compare` put their
// own text around it.
#pragma once

#include <string>
#include <string_view>

#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/export/plot.h"
#include "isochron/observe/export/run_record.h"

namespace isochron::observe {

/// A whole page. `title` is plain text and gets escaped; `body` is HTML.
std::string html_page(std::string_view title, std::string_view body);

/// A plot as HTML, in two sizes: for desktop and for phone screens.
std::string html_figure(const Plot& plot);

/// A readable report on a run: the verdict, the causes and their fixes, the time of an iteration over the run
/// and by phase, spikes by owner, memory over the run, allocations, new traces and their cost, checkpoints,
/// the recorder's own cost, and the machine.
std::string run_section(const RunReport& report);

/// The page of a record: for each part, its blocks and the report on its run.
std::string record_page(const RunRecord& record);

/// A verdict as HTML: <span class="flat">flat</span>.
std::string verdict_markup(const FlatnessVerdict& verdict);

}  // namespace isochron::observe
