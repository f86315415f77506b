#include "isochron/observe/export/kernel_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "isochron/core/base/error.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/export/plot.h"
#include "isochron/observe/record/json_numbers-inl.h"

namespace isochron::observe {
namespace {

/// The durations of each kernel in the calls of one function.
struct Tally {
  std::vector<int64_t> between_ns;                               // of each call, the time outside kernels
  std::unordered_map<uint32_t, std::vector<int64_t>> durations;  // by name
  int64_t steps() const { return static_cast<int64_t>(between_ns.size()); }
};

/// A kernel ends before the call that contains it, so its event precedes the call's. If older events were
/// overwritten, the first call may lack some of its kernels and is left out.
void add_duration(const TracedThread& thread, std::string_view function, Tally& tally) {
  std::vector<const TraceEvent*> kernels;  // since the last call
  bool whole = thread.overwritten == 0;
  for (const TraceEvent& event : thread.events) {
    if (event.kind != TraceEvent::Kind::kSpan) continue;
    const TraceName& name = trace_name_of(event.name);
    if (name.category == TraceCategory::kKernel) kernels.push_back(&event);
    if (name.category != TraceCategory::kCall) continue;
    if (name.name == function && whole) {
      int64_t between_ns = event.duration_ns;
      for (const TraceEvent* kernel : kernels) {
        if (kernel->start_ns < event.start_ns) continue;  // of an earlier, partly recorded call
        tally.durations[kernel->name].push_back(kernel->duration_ns);
        between_ns -= kernel->duration_ns;
      }
      tally.between_ns.push_back(between_ns);
    }
    kernels.clear();
    whole = true;
  }
}

double median_ns(std::vector<int64_t>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return static_cast<double>(*middle);
}

KernelRow row_of(const TraceName& name, std::vector<int64_t>& durations, int64_t steps) {
  KernelRow row{.name = name.name,
                .op = name.detail.op,
                .shapes = name.detail.shapes,
                .calls = static_cast<int64_t>(durations.size()),
                .ns_per_call = median_ns(durations),
                .flops = name.detail.flops,
                .bytes = name.detail.bytes};
  row.ns_per_step = row.ns_per_call * static_cast<double>(row.calls) / static_cast<double>(steps);
  return row;
}

struct OpTotal {
  std::string op;
  double ns_per_step = 0;
  double share = 0;
  int64_t kernels = 0;
};

std::vector<OpTotal> totals_by_op(const KernelTable& table) {
  std::map<std::string, OpTotal> totals;
  for (const KernelRow& row : table.rows) {
    const std::string op = row.op.empty() ? "copy" : row.op;
    OpTotal& total = totals[op];
    total.op = op;
    total.ns_per_step += row.ns_per_step;
    total.share += row.share;
    ++total.kernels;
  }
  std::vector<OpTotal> sorted;
  for (auto& [op, total] : totals) sorted.push_back(std::move(total));
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const OpTotal& a, const OpTotal& b) { return a.ns_per_step > b.ns_per_step; });
  return sorted;
}

/// A dash if the op's row doesn't count this.
std::string rate(double per_call, double ns) {
  return per_call > 0 && ns > 0 ? fmt::format("{:.1f}", per_call / ns) : "-";
}

/// The total of all kernels after the first `rows`.
OpTotal rest_of(const KernelTable& table, size_t rows) {
  OpTotal rest;
  for (size_t i = rows; i < table.rows.size(); ++i) {
    rest.ns_per_step += table.rows[i].ns_per_step;
    rest.share += table.rows[i].share;
    ++rest.kernels;
  }
  return rest;
}

double between_share(const KernelTable& table) {
  return table.between_ns_per_step / std::max(table.ns_per_step, 1.0);
}

}  // namespace

KernelTable kernel_table(const TraceRecorder& recorder, std::string_view function) {
  Tally tally;
  for (const TracedThread& thread : recorder.threads()) add_duration(thread, function, tally);
  KernelTable table;
  table.function = function;
  table.steps = tally.steps();
  if (table.steps == 0) return table;
  table.between_ns_per_step = table.ns_per_step = median_ns(tally.between_ns);
  for (auto& [name, durations] : tally.durations) {
    table.rows.push_back(row_of(trace_name_of(name), durations, table.steps));
    table.ns_per_step += table.rows.back().ns_per_step;
  }
  for (KernelRow& row : table.rows) row.share = row.ns_per_step / std::max(table.ns_per_step, 1.0);
  std::sort(table.rows.begin(), table.rows.end(), [](const KernelRow& a, const KernelRow& b) {
    return a.ns_per_step != b.ns_per_step ? a.ns_per_step > b.ns_per_step : a.name < b.name;
  });
  return table;
}

std::string kernel_table_text(const KernelTable& table, size_t rows) {
  if (table.steps == 0) return fmt::format("no call of '{}' was recorded\n", table.function);
  std::string text = fmt::format("kernels of '{}', {} calls recorded, usually {} each\n", table.function,
                                 table.steps, duration_text(table.ns_per_step));
  text += fmt::format("  {:>10} {:>6} {:>6} {:>9} {:>8}  {}\n", "per step", "share", "calls", "GFLOP/s",
                      "GB/s", "kernel");
  for (size_t i = 0; i < std::min(rows, table.rows.size()); ++i) {
    const KernelRow& row = table.rows[i];
    text += fmt::format("  {:>10} {:5.1f}% {:>6} {:>9} {:>8}  {} {}\n", duration_text(row.ns_per_step),
                        100 * row.share, row.calls, rate(row.flops, row.ns_per_call),
                        rate(row.bytes, row.ns_per_call), row.name, row.shapes);
  }
  if (const OpTotal rest = rest_of(table, rows); rest.kernels > 0) {
    text += fmt::format("  {:>10} {:5.1f}% {:>34} {} further kernels\n", duration_text(rest.ns_per_step),
                        100 * rest.share, "", rest.kernels);
  }
  text += fmt::format("  {:>10} {:5.1f}% {:>34} between kernels, including the cost of recording\n",
                      duration_text(table.between_ns_per_step), 100 * between_share(table), "");
  text += fmt::format("  {:>10} {:>6} {:>7}  {}\n", "per step", "share", "kernels", "by op");
  for (const OpTotal& total : totals_by_op(table)) {
    text += fmt::format("  {:>10} {:5.1f}% {:>7}  {}\n", duration_text(total.ns_per_step), 100 * total.share,
                        total.kernels, total.op);
  }
  return text;
}

std::string kernel_table_json(const KernelTable& table, int indent) {
  using Json = nlohmann::ordered_json;
  Json kernels = Json::array();
  for (const KernelRow& row : table.rows) {
    kernels.push_back({{"name", row.name},
                       {"op", row.op},
                       {"shapes", row.shapes},
                       {"calls", row.calls},
                       {"ns_per_call", row.ns_per_call},
                       {"ns_per_step", row.ns_per_step},
                       {"share", row.share},
                       {"flops", row.flops},
                       {"bytes", row.bytes}});
  }
  return Json{{"function", table.function},
              {"steps", table.steps},
              {"ns_per_step", table.ns_per_step},
              {"between_ns_per_step", table.between_ns_per_step},
              {"kernels", std::move(kernels)}}
      .dump(indent, ' ', false, Json::error_handler_t::replace);
}

KernelTable parse_kernel_table(std::string_view json, std::string_view where) {
  try {
    const auto document = parse_json<nlohmann::json>(json);
    KernelTable table;
    document.at("function").get_to(table.function);
    table.steps = whole(document, "steps");
    document.at("ns_per_step").get_to(table.ns_per_step);
    document.at("between_ns_per_step").get_to(table.between_ns_per_step);
    for (const nlohmann::json& kernel : document.at("kernels")) {
      KernelRow& row = table.rows.emplace_back();
      kernel.at("name").get_to(row.name);
      kernel.at("op").get_to(row.op);
      kernel.at("shapes").get_to(row.shapes);
      row.calls = whole(kernel, "calls");
      kernel.at("ns_per_call").get_to(row.ns_per_call);
      kernel.at("ns_per_step").get_to(row.ns_per_step);
      kernel.at("share").get_to(row.share);
      kernel.at("flops").get_to(row.flops);
      kernel.at("bytes").get_to(row.bytes);
    }
    return table;
  } catch (const std::exception& error) {
    fail(ErrorCode::kBadFormat, where, "expected a table of kernels: {}", complaint(error));
  }
}

std::string kernel_table_section(const KernelTable& table, size_t rows) {
  std::string text = "<h3>The kernels of a step</h3>\n";
  if (table.steps == 0) {
    return text + fmt::format("<p>No call of {} was recorded.</p>\n", escape_markup(table.function));
  }
  text += fmt::format(
      "<p>{} calls of {}, usually {} each; {:.1f} % of that is between kernels, "
      "including the cost of recording.</p>\n<div class=\"scroll\"><table>\n"
      "<tr><th>kernel</th><th>per step</th><th>share</th><th>calls</th><th>GFLOP/s</th><th>GB/s</th></tr>\n",
      table.steps, escape_markup(table.function), duration_text(table.ns_per_step),
      100 * between_share(table));
  for (size_t i = 0; i < std::min(rows, table.rows.size()); ++i) {
    const KernelRow& row = table.rows[i];
    text += fmt::format(
        "<tr><td title=\"{}\">{}</td><td>{}</td><td>{:.1f} %</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        escape_markup(row.shapes), escape_markup(row.name), duration_text(row.ns_per_step), 100 * row.share,
        row.calls, rate(row.flops, row.ns_per_call), rate(row.bytes, row.ns_per_call));
  }
  if (const OpTotal rest = rest_of(table, rows); rest.kernels > 0) {
    text += fmt::format(
        "<tr><td>{} further kernels</td><td>{}</td><td>{:.1f} %</td><td></td><td></td><td></td></tr>\n",
        rest.kernels, duration_text(rest.ns_per_step), 100 * rest.share);
  }
  return text + "</table></div>\n";
}

}  // namespace isochron::observe
