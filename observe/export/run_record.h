// A run as stored on disk: the recorded data, and the text, tables and plots that its page adds. `isochron
// report` recomputes the page and the verdict from such a record, or compares two records.
//
// JSON, one object:
//   format   "isochron run 1"
//   title    text
//   settings {name: text}
//   parts    [{heading, blocks, run?, memory?, plan?, kernels?}], in the page's order; the last three as
//            memory_report.h, plan_picture.h and kernel_table.h write them
//     blocks [{kind: "result" | "text" | "small" | "code", text} |
//            {kind: "table", title, columns, rows: [[text]], own_row, says} |
//            {kind: "plot", title, x_label, y_label, log_x, log_y, whole_x, filled,
//            series: [{name, x, y, line, markers, dashed}], marks: [{x, label}]}]
//     run, times in ns, whole numbers unless said otherwise:
//       name, durations_only (another program's iterations; only times are known), allocations_counted
//       totals          {iterations, timed_iterations, warmup_iterations, warmup_ns, total_ns, elapsed_ns,
//                       min_ns, max_ns, phase_ns, between_phase_ns, heap_allocations,
//                       heap_allocations_beside, allocating_iterations, spikes, spike_excess_ns,
//                       spikes_by_owner, spike_excess_by_owner_ns}
//       quantiles_ns    {p50, p99, p999}, numbers
//       classes         [{class, total_ns,
//                       windows: [{first, last, iterations, passed, total_ns, max_ns, phase_ns,
//                       reference: [count, disturbed, total_ns, disturbed_ns], waited_ns, quantiles_ns,
//                       quiet: {iterations, total_ns, quantiles_ns}}]}]; quantiles at (i + 0.5) / 64, of
//                       quiet iterations at (i + 0.5) / 16; waited_ns is the sum over the team's
//                       threads
//       sample_iterations
//       series          [{name, cumulative, values}], one value per sample, at least one; throttled_ns is the
//                       mean over the cores that share the quota, in older records the sum over them
//       spike_factor    number; absent in older records, where it is 2
//       recent_spikes   [{iteration, duration_ns, usual_ns, owner, label}]; largest_spikes the same
//       events          [{kind, name, text, at_s, duration_ns, before, after}]
//       event_totals    {kind: {count, total_ns, longest_ns}}
//       overhead        {per_iteration_ns, timed_share, sampling_ns, bytes}
//       machine         {cpu, cores, usable_cores, core_quota, memory_bytes, memory_limit_bytes,
//                       transparent_huge_pages, governor, kernel, virtual_machine, isa}
//       turns           {before, after: [[iterations, median_ns, usual_ns, of the twin the same]]}, numbers;
//                       absent in older records
//       ranks           null, or as rank_map.h writes it; absent in older records
//       time, levels    {bound, confidence, series, min_windows, min_seconds, max_warmup, replicates, seed}:
//                       the options of the verdicts
//       facts           {name: number}, evidence that the caller had
// Lists by phase have one number per phase, in the order of windows.h.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "isochron/observe/diagnose/run_data.h"
#include "isochron/observe/export/kernel_table.h"
#include "isochron/observe/export/memory_report.h"
#include "isochron/observe/export/plan_picture.h"
#include "isochron/observe/export/plot.h"
#include "isochron/observe/export/rank_map.h"
#include "isochron/observe/export/table.h"

namespace isochron::observe {

struct Paragraph {
  enum class Style { kResult, kText, kSmall, kCode };  // kCode keeps its lines
  Style style = Style::kText;
  std::string text;
};

using Block = std::variant<Paragraph, Table, Plot>;

struct RecordPart {
  std::string heading = {};
  std::vector<Block> blocks = {};
  std::optional<RunData> run = {};
  std::vector<MemoryMoment> memory = {};
  std::optional<PlanPicture> plan = {};
  std::optional<KernelTable> kernels = {};
};

struct RunRecord {
  std::string title;
  std::vector<std::pair<std::string, std::string>> settings = {};  // settings of the run; names are unique
  std::vector<RecordPart> parts;
};

/// The file's name in a folder of results.
inline constexpr std::string_view kRunRecordFile = "run.json";

/// One line of JSON with a newline. Bytes that aren't UTF-8 become replacement characters.
std::string to_json(const RunRecord& record);
/// Throws kBadFormat, naming `where`, for invalid text and for numbers that no recorder could have written.
RunRecord parse_run_record(std::string_view text, std::string_view where);

/// Writes the file completely or not at all. Throws kIo.
void write_run_record(const std::filesystem::path& path, const RunRecord& record);
/// `path` is the file or the folder that contains it. Throws kIo and kBadFormat.
RunRecord read_run_record(const std::filesystem::path& path);

}  // namespace isochron::observe
