// How long the work of each rank took, as text, JSON and a map of ranks over time.
#pragma once

#include <string>
#include <string_view>

#include "isochron/observe/record/rank_series.h"

namespace isochron::observe {

/// One line per rank with its times per update: work, waiting for input, waiting for the slowest rank. If
/// there are many ranks, only those with the most work are listed. Columns are aligned; ends with a newline.
std::string ranks_text(const RankData& data);
/// {own, ranks: [{host, waited_ns, throttled_ns, stolen_ns, sent_in_ns, received_in_ns}], windows: [{first,
/// last, updates, longest_ns, communication_ns, work_ns: [one number per rank], input_ns: [one number per
/// rank]}]}; -1 means unknown. run_record.h explains waited_ns and throttled_ns. `indent` < 0 gives a single
/// line.
std::string ranks_json(const RankData& data, int indent = 2);
/// Parses the text of ranks_json. Throws kBadFormat, naming `where`, for any other text.
RankData parse_ranks(std::string_view json, std::string_view where);
/// A heading, a table and the map, for a page (observe/export/page.h).
std::string ranks_section(const RankData& data);

}  // namespace isochron::observe
