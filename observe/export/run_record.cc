#include "isochron/observe/export/run_record.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "isochron/core/base/error.h"
#include "isochron/core/files/file.h"
#include "isochron/observe/record/json_numbers-inl.h"

namespace isochron::observe {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "isochron run 1";
constexpr size_t kMaxBytes = size_t{256} << 20;
constexpr std::string_view kStyles[] = {"result", "text", "small", "code"};

// --- what is written ---

/// Non-finite numbers, which JSON lacks, become null.
Json number_json(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json numbers_json(std::span<const double> values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(number_json(value));
  return list;
}

Json totals_json(const RunTotals& totals) {
  return {{"iterations", totals.iterations},
          {"timed_iterations", totals.timed_iterations},
          {"warmup_iterations", totals.warmup_iterations},
          {"warmup_ns", totals.warmup_ns},
          {"total_ns", totals.total_ns},
          {"elapsed_ns", totals.elapsed_ns},
          {"min_ns", totals.min_ns},
          {"max_ns", totals.max_ns},
          {"phase_ns", totals.phase_ns},
          {"between_phase_ns", totals.between_phase_ns},
          {"heap_allocations", totals.heap_allocations},
          {"heap_allocations_beside", totals.heap_allocations_beside},
          {"allocating_iterations", totals.allocating_iterations},
          {"spikes", totals.spikes},
          {"spike_excess_ns", totals.spike_excess_ns},
          {"spikes_by_owner", totals.spikes_by_owner},
          {"spike_excess_by_owner_ns", totals.spike_excess_by_owner_ns}};
}

Json window_json(const Window& window) {
  const ReferenceTimes& reference = window.reference;
  // As many digits as needed to distinguish floats.
  const auto floats = [](std::span<const float> values) {
    Json list = Json::array();
    for (const float value : values) list.push_back(std::stod(fmt::format("{:.9g}", value)));
    return list;
  };
  return {{"first", window.first_iteration},
          {"last", window.last_iteration},
          {"iterations", window.iterations},
          {"passed", window.passed},
          {"total_ns", window.total_ns},
          {"max_ns", window.max_ns},
          {"phase_ns", window.phase_ns},
          {"reference", {reference.count, reference.disturbed, reference.total_ns, reference.disturbed_ns}},
          {"waited_ns", window.waited_ns},
          {"quantiles_ns", floats(window.quantiles_ns)},
          {"quiet",
           {{"iterations", window.quiet.iterations},
            {"total_ns", window.quiet.total_ns},
            {"quantiles_ns", floats(window.quiet.quantiles_ns)}}}};
}

Json turns_json(const std::vector<TurnPair>& pairs) {
  Json list = Json::array();
  for (const auto& [loop, twin] : pairs) {
    list.push_back(
        {loop.iterations, loop.median_ns, loop.usual_ns, twin.iterations, twin.median_ns, twin.usual_ns});
  }
  return list;
}

Json spikes_json(const std::vector<SpikeRecord>& spikes) {
  Json list = Json::array();
  for (const SpikeRecord& spike : spikes) {
    list.push_back({{"iteration", spike.iteration},
                    {"duration_ns", spike.duration_ns},
                    {"usual_ns", spike.usual_ns},
                    {"owner", phase_name(spike.owner)},
                    {"label", spike.label}});
  }
  return list;
}

Json machine_json(const MachineDescription& machine) {
  return {
      {"cpu", machine.cpu_model},
      {"cores", machine.cores},
      {"usable_cores", machine.usable_cores},
      {"core_quota", machine.core_quota ? Json(*machine.core_quota) : Json(nullptr)},
      {"memory_bytes", machine.memory_bytes},
      {"memory_limit_bytes", machine.memory_limit_bytes ? Json(*machine.memory_limit_bytes) : Json(nullptr)},
      {"transparent_huge_pages", machine.transparent_huge_pages},
      {"governor", machine.governor},
      {"kernel", machine.kernel},
      {"virtual_machine", machine.virtual_machine},
      {"isa", machine.isa}};
}

Json options_json(const FlatnessOptions& options) {
  return {{"bound", options.bound},
          {"confidence", options.confidence},
          {"series", options.series},
          {"min_windows", options.min_windows},
          {"min_seconds", options.min_seconds},
          {"max_warmup", options.max_warmup},
          {"replicates", options.replicates},
          {"seed", options.seed}};
}

Json run_json(const RunData& data) {
  Json classes = Json::array();
  for (const ClassData& one : data.classes) {
    Json windows = Json::array();
    for (const Window& window : one.windows) windows.push_back(window_json(window));
    classes.push_back(
        {{"class", one.step_class}, {"total_ns", one.total_ns}, {"windows", std::move(windows)}});
  }
  Json series = Json::array();
  for (const NamedSeries& one : data.series) {
    series.push_back(
        {{"name", one.name}, {"cumulative", one.cumulative}, {"values", numbers_json(one.values)}});
  }
  Json events = Json::array(), event_totals = Json::object();
  for (const Event& event : data.events.events) {
    events.push_back({{"kind", event_kind_name(event.kind)},
                      {"name", event.name},
                      {"text", event.text},
                      {"at_s", static_cast<double>(event.time_ns - data.begin_ns) * 1e-9},
                      {"duration_ns", event.duration_ns},
                      {"before", event.before},
                      {"after", event.after}});
  }
  for (int k = 0; k < kEventKinds; ++k) {
    const EventTotals& totals = data.events.totals[static_cast<size_t>(k)];
    if (totals.count == 0) continue;
    event_totals[std::string(event_kind_name(static_cast<EventKind>(k)))] = {
        {"count", totals.count}, {"total_ns", totals.total_ns}, {"longest_ns", totals.longest_ns}};
  }
  return {{"name", data.name},
          {"durations_only", data.durations_only},
          {"allocations_counted", data.allocations_counted},
          {"totals", totals_json(data.totals)},
          {"quantiles_ns", {{"p50", data.p50_ns}, {"p99", data.p99_ns}, {"p999", data.p999_ns}}},
          {"classes", std::move(classes)},
          {"sample_iterations", data.sample_iterations},
          {"series", std::move(series)},
          {"spike_factor", data.spike_factor},
          {"recent_spikes", spikes_json(data.recent_spikes)},
          {"largest_spikes", spikes_json(data.largest_spikes)},
          {"events", std::move(events)},
          {"event_totals", std::move(event_totals)},
          {"overhead",
           {{"per_iteration_ns", data.overhead.per_iteration_ns},
            {"timed_share", data.overhead.timed_share},
            {"sampling_ns", data.overhead.sampling_ns},
            {"bytes", data.overhead.bytes}}},
          {"machine", machine_json(data.machine)},
          {"turns", {{"before", turns_json(data.turns.before)}, {"after", turns_json(data.turns.after)}}},
          {"ranks", data.ranks ? Json::parse(ranks_json(*data.ranks, -1)) : Json(nullptr)},
          {"time", options_json(data.options.time)},
          {"levels", options_json(data.options.levels)},
          {"facts", data.options.facts.values()}};
}

Json block_json(const Paragraph& paragraph) {
  return {{"kind", kStyles[static_cast<size_t>(paragraph.style)]}, {"text", paragraph.text}};
}

Json block_json(const Table& table) {
  return {{"kind", "table"},    {"title", table.title},     {"columns", table.columns},
          {"rows", table.rows}, {"own_row", table.own_row}, {"says", table.says}};
}

Json block_json(const Plot& plot) {
  Json series = Json::array();
  for (const PlotSeries& one : plot.series) {
    series.push_back({{"name", one.name},
                      {"x", numbers_json(one.x)},
                      {"y", numbers_json(one.y)},
                      {"line", one.line},
                      {"markers", one.markers},
                      {"dashed", one.dashed},
                      {"colour", one.color}});
  }
  Json marks = Json::array();
  for (const PlotMark& mark : plot.marks) marks.push_back({{"x", mark.x}, {"label", mark.label}});
  return {{"kind", "plot"},           {"title", plot.title},   {"x_label", plot.x_label},
          {"y_label", plot.y_label},  {"log_x", plot.log_x},   {"log_y", plot.log_y},
          {"whole_x", plot.whole_x},  {"filled", plot.filled}, {"series", std::move(series)},
          {"marks", std::move(marks)}};
}

// --- what is read ---

int small(const Json& json, const char* name, int64_t low, int64_t high) {
  const int64_t value = whole(json, name, low);
  expect(value <= high, fmt::format("'{}' is {}, more than {}", name, value, high));
  return static_cast<int>(value);
}

double number_of(const Json& value, const char* name) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  expect(value.is_number() && std::isfinite(value.get<double>()),
         fmt::format("'{}': expected a finite number", name));
  return value.get<double>();
}

/// A finite number that isn't negative.
double amount(const Json& json, const char* name) {
  const double value = number_of(json.at(name), name);
  expect(value >= 0, fmt::format("'{}' is not a number of at least 0", name));
  return value;
}

std::vector<double> numbers_of(const Json& json, const char* name) {
  const Json& list = json.at(name);
  expect(list.is_array(), fmt::format("'{}' is not a list", name));
  std::vector<double> result;
  for (const Json& value : list) result.push_back(number_of(value, name));
  return result;
}

std::string text_of(const Json& json, const char* name) { return json.at(name).get<std::string>(); }

template <size_t kSize>
void fill(std::array<int64_t, kSize>& values, const Json& json, const char* name) {
  const Json& list = json.at(name);
  expect(list.is_array() && list.size() == kSize, fmt::format("'{}' does not have {} numbers", name, kSize));
  for (size_t i = 0; i < kSize; ++i) values[i] = whole_of(list[i], name);
}

/// Like fill, but also accepts older records, which lack the phases kCommunication and kRankWait.
void fill_phases(PhaseTimes& values, const Json& json, const char* name) {
  constexpr auto kOfRanks = static_cast<size_t>(Phase::kCommunication);
  std::array<int64_t, kPhaseCount - 2> older{};
  if (json.at(name).size() != older.size()) return fill(values, json, name);
  fill(older, json, name);
  std::copy_n(older.begin(), kOfRanks, values.begin());
  values.back() = older.back();
}

Phase phase_of(const std::string& name) {
  for (size_t p = 0; p < kPhaseCount; ++p) {
    if (phase_name(static_cast<Phase>(p)) == name) return static_cast<Phase>(p);
  }
  throw std::invalid_argument(fmt::format("no phase is called '{}'", name.substr(0, 40)));
}

EventKind event_kind_of(const std::string& name) {
  for (int k = 0; k < kEventKinds; ++k) {
    if (event_kind_name(static_cast<EventKind>(k)) == name) return static_cast<EventKind>(k);
  }
  throw std::invalid_argument(fmt::format("no event is called '{}'", name.substr(0, 40)));
}

RunTotals totals_of(const Json& json) {
  RunTotals totals;
  totals.iterations = whole(json, "iterations", 1);
  totals.timed_iterations = whole(json, "timed_iterations", 1);
  totals.warmup_iterations = whole(json, "warmup_iterations");
  totals.warmup_ns = whole(json, "warmup_ns");
  totals.total_ns = whole(json, "total_ns");
  totals.elapsed_ns = whole(json, "elapsed_ns");
  totals.min_ns = whole(json, "min_ns");
  totals.max_ns = whole(json, "max_ns");
  fill_phases(totals.phase_ns, json, "phase_ns");
  fill_phases(totals.between_phase_ns, json, "between_phase_ns");
  totals.heap_allocations = whole(json, "heap_allocations");
  totals.heap_allocations_beside = whole(json, "heap_allocations_beside");
  totals.allocating_iterations = whole(json, "allocating_iterations");
  totals.spikes = whole(json, "spikes");
  totals.spike_excess_ns = whole(json, "spike_excess_ns");
  fill_phases(totals.spikes_by_owner, json, "spikes_by_owner");
  constexpr const char* kExcess = "spike_excess_by_owner_ns";  // older files lack it
  if (json.contains(kExcess)) fill_phases(totals.spike_excess_by_owner_ns, json, kExcess);
  return totals;
}

void fill_quantiles(std::span<float> quantiles, const Json& json) {
  const std::vector<double> numbers = numbers_of(json, "quantiles_ns");
  expect(numbers.size() == quantiles.size(),
         fmt::format("'quantiles_ns' does not have {} numbers", quantiles.size()));
  for (size_t i = 0; i < numbers.size(); ++i) {
    expect(numbers[i] >= (i == 0 ? 0 : numbers[i - 1]) && numbers[i] <= kLargestWhole,
           "'quantiles_ns' are not ascending numbers of at least 0");
    quantiles[i] = static_cast<float>(numbers[i]);
  }
}

Window window_of(const Json& json) {
  Window window;
  window.first_iteration = whole(json, "first");
  window.last_iteration = whole(json, "last", window.first_iteration);
  window.iterations = whole(json, "iterations", 1);
  window.passed = whole(json, "passed");
  window.total_ns = whole(json, "total_ns");
  window.max_ns = whole(json, "max_ns");
  fill_phases(window.phase_ns, json, "phase_ns");
  const std::vector<double> reference = numbers_of(json, "reference");
  expect(reference.size() == 4, "'reference' does not have four numbers");
  for (const double value : reference) {
    expect(value >= 0 && value <= kLargestWhole,
           "'reference' contains a value that is not a number in [0, 2^62]");
  }
  window.reference = {static_cast<int64_t>(reference[0]), static_cast<int64_t>(reference[1]), reference[2],
                      reference[3]};
  expect(window.reference.disturbed <= window.reference.count,
         "'reference' counts more disturbed runs than timed ones");
  window.waited_ns = whole(json, "waited_ns");
  fill_quantiles(window.quantiles_ns, json);
  const Json& quiet = json.at("quiet");
  window.quiet.iterations = whole(quiet, "iterations");
  window.quiet.total_ns = whole(quiet, "total_ns");
  fill_quantiles(window.quiet.quantiles_ns, quiet);
  return window;
}

/// Checks that the times and counts of windows, which are added up later, can't overflow.
void add_window(Window& sum, const Window& window) {
  add_up(sum.iterations, window.iterations, "iterations");
  add_up(sum.iterations, window.passed, "passed");
  add_up(sum.total_ns, window.total_ns, "total_ns");
  add_up(sum.waited_ns, window.waited_ns, "waited_ns");
  add_up(sum.quiet.iterations, window.quiet.iterations, "iterations");
  add_up(sum.quiet.total_ns, window.quiet.total_ns, "total_ns");
  for (size_t p = 0; p < kPhaseCount; ++p) add_up(sum.phase_ns[p], window.phase_ns[p], "phase_ns");
}

std::vector<TurnPair> turns_of(const Json& json, const char* name) {
  std::vector<TurnPair> pairs;
  for (const Json& one : json.at(name)) {
    expect(one.is_array() && one.size() == 6, fmt::format("a turn of '{}' does not have six numbers", name));
    std::array<double, 6> numbers{};
    for (size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = number_of(one[i], name);
      expect(numbers[i] >= 1e-3 && numbers[i] <= kLargestWhole,
             fmt::format("a turn of '{}' contains an impossible time", name));
    }
    pairs.push_back({{static_cast<int64_t>(numbers[0]), numbers[1], numbers[2]},
                     {static_cast<int64_t>(numbers[3]), numbers[4], numbers[5]}});
  }
  expect(pairs.size() <= TwinTurns::kMaxPairs, fmt::format("more than {} turns", TwinTurns::kMaxPairs));
  return pairs;
}

std::vector<SpikeRecord> spikes_of(const Json& json) {
  std::vector<SpikeRecord> spikes;
  for (const Json& one : json) {
    spikes.push_back({whole(one, "iteration"), whole(one, "duration_ns"), whole(one, "usual_ns"),
                      phase_of(text_of(one, "owner")), text_of(one, "label")});
  }
  return spikes;
}

MachineDescription machine_of(const Json& json) {
  MachineDescription machine;
  machine.cpu_model = text_of(json, "cpu");
  machine.cores = small(json, "cores", 0, 1 << 20);
  machine.usable_cores = small(json, "usable_cores", 0, 1 << 20);
  if (!json.at("core_quota").is_null()) machine.core_quota = amount(json, "core_quota");
  machine.memory_bytes = whole(json, "memory_bytes");
  if (!json.at("memory_limit_bytes").is_null())
    machine.memory_limit_bytes = whole(json, "memory_limit_bytes");
  machine.transparent_huge_pages = text_of(json, "transparent_huge_pages");
  machine.governor = text_of(json, "governor");
  machine.kernel = text_of(json, "kernel");
  machine.virtual_machine = json.at("virtual_machine").get<bool>();
  machine.isa = json.at("isa").get<std::vector<std::string>>();
  return machine;
}

FlatnessOptions options_of(const Json& json) {
  FlatnessOptions options;
  options.bound = amount(json, "bound");
  options.confidence = amount(json, "confidence");
  options.series = small(json, "series", 1, 1 << 20);
  options.min_windows = small(json, "min_windows", 0, 1 << 20);
  options.min_seconds = amount(json, "min_seconds");
  options.max_warmup = amount(json, "max_warmup");
  options.replicates = small(json, "replicates", 39, 100'000);
  options.seed = json.at("seed").is_number_unsigned() ? json.at("seed").get<uint64_t>()
                                                      : static_cast<uint64_t>(whole(json, "seed"));
  expect(options.bound > 0, "'bound' is not above 0");
  expect(options.confidence > 0.5 && options.confidence < 1, "'confidence' does not lie in (0.5, 1)");
  expect(options.max_warmup <= 0.5, "'max_warmup' is above 0.5");
  return options;
}

RunData run_of(const Json& json) {
  RunData data;
  data.name = text_of(json, "name");
  data.durations_only = json.at("durations_only").get<bool>();
  data.allocations_counted = json.at("allocations_counted").get<bool>();
  data.totals = totals_of(json.at("totals"));
  const Json& quantiles = json.at("quantiles_ns");
  data.p50_ns = amount(quantiles, "p50");
  data.p99_ns = amount(quantiles, "p99");
  data.p999_ns = amount(quantiles, "p999");
  Window sum;
  for (const Json& one : json.at("classes")) {
    ClassData of_class{small(one, "class", 0, 1 << 20), whole(one, "total_ns"), {}};
    for (const Json& window : one.at("windows")) {
      of_class.windows.push_back(window_of(window));
      add_window(sum, of_class.windows.back());
    }
    expect(of_class.windows.size() <= WindowSeries::kMaxWindows,
           fmt::format("more than {} windows", WindowSeries::kMaxWindows));
    data.classes.push_back(std::move(of_class));
  }
  expect(!data.classes.empty(), "there is no class of steps");
  for (const Json& at : json.at("sample_iterations")) {
    data.sample_iterations.push_back(whole_of(at, "sample_iterations"));
  }
  for (const Json& one : json.at("series")) {
    NamedSeries series{text_of(one, "name"), one.at("cumulative").get<bool>(), numbers_of(one, "values")};
    expect(!series.values.empty(), fmt::format("'{}' has no value", series.name));
    expect(series.values.size() == data.sample_iterations.size(),
           fmt::format("'{}' has {} values for {} samples", series.name, series.values.size(),
                       data.sample_iterations.size()));
    expect(series.values.size() <= Recorder::kMaxSamples,
           fmt::format("more than {} samples", Recorder::kMaxSamples));
    for (const double value : series.values)
      expect(std::isfinite(value), fmt::format("'{}': expected a finite number", series.name));
    data.series.push_back(std::move(series));
  }
  if (json.contains("spike_factor")) {  // older records lack it
    data.spike_factor = amount(json, "spike_factor");
    expect(data.spike_factor > 1, "'spike_factor' is not above 1");
  }
  data.recent_spikes = spikes_of(json.at("recent_spikes"));
  data.largest_spikes = spikes_of(json.at("largest_spikes"));
  for (const Json& one : json.at("events")) {
    const double at_ns = number_of(one.at("at_s"), "at_s") * 1e9;
    expect(std::abs(at_ns) <= kLargestWhole, "'at_s' is not a time");
    data.events.events.push_back({event_kind_of(text_of(one, "kind")), text_of(one, "name"),
                                  text_of(one, "text"), std::llround(at_ns), whole(one, "duration_ns"),
                                  text_of(one, "before"), text_of(one, "after")});
  }
  for (const auto& [kind, totals] : json.at("event_totals").items()) {
    data.events.totals[static_cast<size_t>(event_kind_of(kind))] = {
        whole(totals, "count"), whole(totals, "total_ns"), whole(totals, "longest_ns")};
  }
  const Json& overhead = json.at("overhead");
  data.overhead = {amount(overhead, "per_iteration_ns"), amount(overhead, "timed_share"),
                   amount(overhead, "sampling_ns"), static_cast<size_t>(whole(overhead, "bytes"))};
  data.machine = machine_of(json.at("machine"));
  if (json.contains("turns")) {  // older records have none
    data.turns = {turns_of(json.at("turns"), "before"), turns_of(json.at("turns"), "after")};
  }
  if (json.contains("ranks") && !json.at("ranks").is_null())
    data.ranks = parse_ranks(json.at("ranks").dump(), "ranks");
  data.options.time = options_of(json.at("time"));
  data.options.levels = options_of(json.at("levels"));
  for (const auto& [name, value] : json.at("facts").items()) {
    data.options.facts.set(name, number_of(value, "facts"));
  }
  return data;
}

Table table_of(const Json& json) {
  Table table{text_of(json, "title"), json.at("columns").get<std::vector<std::string>>(),
              json.at("rows").get<std::vector<std::vector<std::string>>>()};
  for (const auto& row : table.rows) {
    expect(row.size() == table.columns.size(),
           fmt::format("a row of a table has {} cells for {} columns", row.size(), table.columns.size()));
  }
  table.says = text_of(json, "says");
  if (json.at("own_row") != -1) table.own_row = small(json, "own_row", 0, std::ssize(table.rows) - 1);
  return table;
}

/// "#rrggbb" or empty; anything else is rejected, because the color is put into a page unescaped.
std::string color_of(const Json& json) {
  std::string color = text_of(json, "colour");
  const bool plain = color.size() == 7 && color[0] == '#' &&
                     color.find_first_not_of("0123456789abcdefABCDEF", 1) == std::string::npos;
  expect(color.empty() || plain, fmt::format("'{}' is not a color", color.substr(0, 20)));
  return color;
}

Plot plot_of(const Json& json) {
  Plot plot{.title = text_of(json, "title"),
            .x_label = text_of(json, "x_label"),
            .y_label = text_of(json, "y_label"),
            .log_x = json.at("log_x").get<bool>(),
            .log_y = json.at("log_y").get<bool>(),
            .whole_x = json.at("whole_x").get<bool>(),
            .filled = json.at("filled").get<bool>()};
  for (const Json& one : json.at("series")) {
    PlotSeries series{.name = text_of(one, "name"),
                      .x = numbers_of(one, "x"),
                      .y = numbers_of(one, "y"),
                      .line = one.at("line").get<bool>(),
                      .markers = one.at("markers").get<bool>(),
                      .dashed = one.at("dashed").get<bool>(),
                      .color = color_of(one)};
    expect(series.x.size() == series.y.size(), "a plot's x and y are of different lengths");
    plot.series.push_back(std::move(series));
  }
  for (const Json& mark : json.value("marks", Json::array()))  // absent in older records
    plot.marks.push_back({.x = number_of(mark.at("x"), "x"), .label = text_of(mark, "label")});
  return plot;
}

Block block_of(const Json& json) {
  const std::string kind = text_of(json, "kind");
  if (kind == "table") return table_of(json);
  if (kind == "plot") return plot_of(json);
  for (size_t s = 0; s < std::size(kStyles); ++s) {
    if (kStyles[s] == kind) return Paragraph{static_cast<Paragraph::Style>(s), text_of(json, "text")};
  }
  throw std::invalid_argument(fmt::format("no block is called '{}'", kind.substr(0, 40)));
}

RunRecord record_of(const Json& json) {
  const bool known = json.is_object() && json.contains("format") && json["format"] == kFormat;
  expect(known, fmt::format("expected an object whose \"format\" is \"{}\"", kFormat));
  RunRecord record{text_of(json, "title"), {}, {}};
  for (const auto& [name, value] : json.at("settings").items()) {
    record.settings.emplace_back(name, value.get<std::string>());
  }
  for (const Json& one : json.at("parts")) {
    RecordPart part{.heading = text_of(one, "heading")};
    for (const Json& block : one.at("blocks")) part.blocks.push_back(block_of(block));
    if (one.contains("run")) part.run = run_of(one.at("run"));
    if (one.contains("memory")) part.memory = memory_from_json(one.at("memory").dump(), "memory");
    if (one.contains("plan")) part.plan = plan_from_json(one.at("plan").dump(), "plan");
    if (one.contains("kernels")) part.kernels = parse_kernel_table(one.at("kernels").dump(), "kernels");
    record.parts.push_back(std::move(part));
  }
  return record;
}

}  // namespace

std::string to_json(const RunRecord& record) {
  Json parts = Json::array();
  for (const RecordPart& part : record.parts) {
    Json blocks = Json::array();
    for (const Block& block : part.blocks) {
      blocks.push_back(std::visit([](const auto& one) { return block_json(one); }, block));
    }
    Json json = {{"heading", part.heading}, {"blocks", std::move(blocks)}};
    if (part.run) json["run"] = run_json(*part.run);
    if (!part.memory.empty()) json["memory"] = Json::parse(memory_json(part.memory, -1));
    if (part.plan) json["plan"] = Json::parse(plan_json(*part.plan, -1));
    if (part.kernels) json["kernels"] = Json::parse(kernel_table_json(*part.kernels, -1));
    parts.push_back(std::move(json));
  }
  Json settings = Json::object();
  for (const auto& [name, value] : record.settings) settings[name] = value;
  const Json json = {{"format", kFormat},
                     {"title", record.title},
                     {"settings", std::move(settings)},
                     {"parts", std::move(parts)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

RunRecord parse_run_record(std::string_view text, std::string_view where) {
  try {
    return record_of(parse_json<Json>(text));
  } catch (const std::exception& error) {
    fail(ErrorCode::kBadFormat, where, "not the record of a run: {}", complaint(error));
  }
}

void write_run_record(const std::filesystem::path& path, const RunRecord& record) {
  write_file_atomically(path, to_json(record));
}

RunRecord read_run_record(const std::filesystem::path& path) {
  const bool folder = std::filesystem::is_directory(path);
  const std::filesystem::path file = folder ? path / kRunRecordFile : path;
  require(!folder || std::filesystem::exists(file), ErrorCode::kIo, path.string(),
          "contains no {}, which `train --out` writes", kRunRecordFile);
  // A pipe that the user named may have a writer, but in a folder, only a regular file is a run.
  require(!folder || std::filesystem::is_regular_file(file), ErrorCode::kIo, file.string(),
          "is not a regular file");
  const std::vector<std::byte> bytes = read_file(file, kMaxBytes);
  return parse_run_record({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.string());
}

}  // namespace isochron::observe
