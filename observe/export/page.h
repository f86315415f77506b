// Pages for a browser: one HTML file each that needs nothing else and no network, light or dark as the
// reader's system is, wide or narrow. `run_section` tells what a recorded loop amounts to; trainers and
// `compare` put their own text around it.
#pragma once

#include <string>
#include <string_view>

#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/export/plot.h"
#include "isochron/observe/export/run_record.h"

namespace isochron::observe {

/// A whole page. `title` is text, `body` is markup.
std::string html_page(std::string_view title, std::string_view body);

/// A plot, drawn for a desk and for a phone.
std::string html_figure(const Plot& plot);

/// A run for people: the verdict in words, causes with what fixes them, the time of an iteration over the
/// run, where it went, spikes by owner, memory over the run, what was allocated, what was traced again and at
/// which cost, checkpoints, the recorder's own cost and the machine.
std::string run_section(const RunReport& report);

/// The page of a record: every part's blocks, and what its run amounts to.
std::string record_page(const RunRecord& record);

/// The class's mark-up of a verdict: <span class="flat">flat</span>.
std::string verdict_markup(const FlatnessVerdict& verdict);

}  // namespace isochron::observe
