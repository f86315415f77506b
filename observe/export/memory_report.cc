#include "isochron/observe/export/memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "isochron/core/base/error.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/export/plot.h"
#include "isochron/observe/record/json_numbers-inl.h"

namespace isochron::observe {
namespace {

using Json = nlohmann::ordered_json;

/// One line of a table: its name, its unit, and its value at each moment.
struct Entry {
  std::string what;
  MemoryChange::Unit unit;
  std::vector<int64_t> values;
  std::vector<int64_t> blocks = {};  // of a tag
};

/// Adds a line for each name, in order of first appearance, with its value at each moment (0 if a moment
/// doesn't have the name).
template <typename Entries, typename Name, typename Value>
void add_lines(std::vector<Entry>& lines, std::span<const MemoryMoment> moments, MemoryChange::Unit unit,
               const std::string& prefix, const Entries& entries, const Name& name, const Value& value) {
  const size_t begin = lines.size();
  for (size_t m = 0; m < moments.size(); ++m) {
    for (const auto& entry : entries(moments[m])) {
      const std::string what = prefix + std::string(name(entry));
      auto line = std::find_if(lines.begin() + static_cast<std::ptrdiff_t>(begin), lines.end(),
                               [&](const Entry& other) { return other.what == what; });
      if (line == lines.end()) {
        lines.push_back({what, unit, std::vector<int64_t>(moments.size(), 0)});
        line = std::prev(lines.end());
      }
      line->values[m] = value(moments[m], entry);
    }
  }
}

const std::vector<TaggedMemory>& tags_of(const MemoryMoment& moment) { return moment.tags; }
const std::vector<LiveCount>& live_of(const MemoryMoment& moment) { return moment.live; }

std::vector<Entry> resident_lines(std::span<const MemoryMoment> moments) {
  using Unit = MemoryChange::Unit;
  std::vector<Entry> lines = {{"resident", Unit::kBytes, {}}};
  for (const MemoryMoment& moment : moments) lines[0].values.push_back(moment.resident.total);
  add_lines(
      lines, moments, Unit::kBytes, "", [](const MemoryMoment&) -> const auto& { return resident_parts(); },
      [](const ResidentPart& part) { return part.words; },
      [](const MemoryMoment& moment, const ResidentPart& part) { return moment.resident.*part.bytes; });
  return lines;
}

std::vector<Entry> tag_lines(std::span<const MemoryMoment> moments, MemoryChange::Unit unit) {
  std::vector<Entry> lines;
  add_lines(
      lines, moments, unit, "tag ", tags_of, [](const TaggedMemory& tag) -> const auto& { return tag.tag; },
      [unit](const MemoryMoment&, const TaggedMemory& tag) {
        return unit == MemoryChange::Unit::kBytes ? tag.bytes : tag.blocks;
      });
  return lines;
}

std::vector<Entry> live_lines(std::span<const MemoryMoment> moments) {
  std::vector<Entry> lines;
  add_lines(
      lines, moments, MemoryChange::Unit::kObjects, "live ", live_of,
      [](const LiveCount& live) -> const auto& { return live.name; },
      [](const MemoryMoment&, const LiveCount& live) { return live.count; });
  return lines;
}

bool empty_line(const Entry& line) {
  return std::ranges::all_of(line.values, [](int64_t value) { return value == 0; });
}

std::string bytes_amount(int64_t value, MemoryChange::Unit unit) {
  return unit == MemoryChange::Unit::kBytes ? bytes_text(static_cast<double>(value))
                                            : fmt::format("{}", value);
}

std::string unit_words(MemoryChange::Unit unit) {
  constexpr std::string_view kWords[] = {"bytes", "blocks", "objects"};
  return std::string(kWords[static_cast<int>(unit)]);
}

std::string growth_text(const MemoryChange& change) {
  const std::string unit = change.unit == MemoryChange::Unit::kBlocks ? " blocks" : "";
  return fmt::format("{}: {}{}{} ({} -> {})", change.what, change.grown() < 0 ? "-" : "+",
                     bytes_amount(std::abs(change.grown()), change.unit), unit,
                     bytes_amount(change.before, change.unit), bytes_amount(change.after, change.unit));
}

/// Taking a moment may change the heap by this much. Tags and counts are exact.
constexpr int64_t kHeapNoiseBytes = 128 << 10;

/// What grew from the first to the last moment.
std::vector<MemoryChange> growth(std::span<const MemoryMoment> moments) {
  std::vector<MemoryChange> all = difference(moments.front(), moments.back());
  std::erase_if(all, [](const MemoryChange& change) {
    const bool exact = change.unit != MemoryChange::Unit::kBytes || change.what.starts_with("tag ");
    return change.grown() <= (exact ? 0 : kHeapNoiseBytes);
  });
  return all;
}

/// "From step 100 (after warm-up) to step 1000 no memory in use grew".
std::string growth_heading(std::span<const MemoryMoment> moments, bool grown) {
  const auto when = [](const MemoryMoment& moment) {
    return moment.name.starts_with("step ") ? moment.name
                                            : fmt::format("step {} ({})", moment.step, moment.name);
  };
  return fmt::format("From {} to {} {}", when(moments.front()), when(moments.back()),
                     grown ? "these grew" : "no memory in use grew");
}

std::string memory_table(std::span<const MemoryMoment> moments, const std::string& title,
                         const std::vector<Entry>& lines) {
  std::string text = fmt::format("<div class=\"scroll\"><table>\n<tr><th>{}</th>", title);
  for (const MemoryMoment& moment : moments) text += fmt::format("<th>{}</th>", escape_markup(moment.name));
  text += "</tr>\n";
  for (const Entry& line : lines) {
    if (empty_line(line)) continue;
    text += fmt::format("<tr><td>{}</td>", escape_markup(line.what));
    for (size_t m = 0; m < line.values.size(); ++m) {
      text += fmt::format("<td>{}</td>", bytes_amount(line.values[m], line.unit));
    }
    text += "</tr>\n";
  }
  return text + "</table></div>\n";
}

/// Colors with a contrast of at least 3:1 against white and against nearly black; neighbors are easy to
/// distinguish.
constexpr std::string_view kPartColors[] = {"#3987e5", "#2a9d5c", "#1497a8", "#d9730d", "#b59a1b", "#a05be0",
                                            "#c061cb", "#8d6e63", "#7a8794", "#5b7083", "#e0484d"};

std::string bar_markup(const ResidentSet& set) {
  const double total = static_cast<double>(std::max<int64_t>(set.total, 1));
  std::string bar = "<div class=\"bar\">", keys;
  const std::vector<ResidentPart>& parts = resident_parts();
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t bytes = set.*parts[i].bytes;
    const double share = 100 * static_cast<double>(bytes) / total;
    if (share < 0.05) continue;
    bar += fmt::format("<div style=\"width:{:.2f}%;background:{}\" title=\"{}, {}\"></div>", share,
                       kPartColors[i], parts[i].words, bytes_text(static_cast<double>(bytes)));
    keys += fmt::format(
        "<tr><td><span class=\"key\" style=\"background:{}\"></span>{}</td><td>{}</td><td>{:.1f} "
        "%</td></tr>\n",
        kPartColors[i], parts[i].words, bytes_text(static_cast<double>(bytes)), share);
  }
  return fmt::format("{}</div>\n<table>\n<tr><th>resident</th><th>{}</th><th>share</th></tr>\n{}</table>\n",
                     bar, bytes_text(static_cast<double>(set.total)), keys);
}

Json report_json(const MemoryMoment& moment) {
  Json tags = Json::array(), live = Json::object(), resident = {{"total", moment.resident.total}};
  for (const TaggedMemory& tag : moment.tags) {
    tags.push_back({{"tag", tag.tag}, {"bytes", tag.bytes}, {"blocks", tag.blocks}});
  }
  for (const LiveCount& count : moment.live) live[count.name] = count.count;
  for (const ResidentPart& part : resident_parts())
    resident[std::string(part.name)] = moment.resident.*part.bytes;
  return {{"name", moment.name},
          {"step", moment.step},
          {"tags", std::move(tags)},
          {"live", std::move(live)},
          {"resident", std::move(resident)}};
}

MemoryMoment moment_of(const Json& json) {
  MemoryMoment moment{.name = json.at("name").get<std::string>(), .step = whole(json, "step")};
  for (const Json& tag : json.at("tags")) {
    moment.tags.push_back({tag.at("tag").get<std::string>(), count_of(tag.at("bytes"), "bytes", true),
                           count_of(tag.at("blocks"), "blocks", true)});
  }
  for (const auto& [name, count] : json.at("live").items())
    moment.live.push_back({name, count_of(count, name, true)});
  const Json& resident = json.at("resident");
  moment.resident.total = count_of(resident.at("total"), "total", true);
  for (const ResidentPart& part : resident_parts()) {
    const std::string name(part.name);
    moment.resident.*part.bytes = count_of(resident.at(name), name, true);
  }
  return moment;
}

}  // namespace

std::vector<TaggedMemory> largest_tags(std::vector<TaggedMemory> tags, size_t most) {
  if (tags.size() <= most) return tags;
  TaggedMemory others{.tag = "others"};
  for (size_t i = most; i < tags.size(); ++i) {
    others.bytes += tags[i].bytes;
    others.blocks += tags[i].blocks;
  }
  tags.resize(most);
  tags.push_back(std::move(others));
  return tags;
}

std::vector<MemoryChange> difference(const MemoryMoment& before, const MemoryMoment& after) {
  const MemoryMoment both[] = {before, after};
  std::vector<Entry> lines = resident_lines(both);
  for (const auto& more : {tag_lines(both, MemoryChange::Unit::kBytes),
                           tag_lines(both, MemoryChange::Unit::kBlocks), live_lines(both)}) {
    lines.insert(lines.end(), more.begin(), more.end());
  }
  std::vector<MemoryChange> changes;
  for (const Entry& line : lines) {
    if (line.values[0] != line.values[1])
      changes.push_back({line.what, line.unit, line.values[0], line.values[1]});
  }
  std::ranges::stable_sort(changes, [](const MemoryChange& a, const MemoryChange& b) {
    return a.unit != b.unit ? a.unit < b.unit : a.grown() > b.grown();
  });
  return changes;
}

std::string memory_text(std::span<const MemoryMoment> moments) {
  if (moments.empty()) return "";
  std::vector<Entry> lines = resident_lines(moments);
  for (Entry& line : lines) {
    if (&line != lines.data()) line.what = "  " + line.what;
  }
  for (const auto& more : {tag_lines(moments, MemoryChange::Unit::kBytes), live_lines(moments)}) {
    lines.insert(lines.end(), more.begin(), more.end());
  }
  std::erase_if(lines, empty_line);
  size_t first = 6;
  for (const Entry& line : lines) first = std::max(first, line.what.size());
  std::vector<size_t> widths;
  for (size_t m = 0; m < moments.size(); ++m) {
    widths.push_back(moments[m].name.size());
    for (const Entry& line : lines)
      widths[m] = std::max(widths[m], bytes_amount(line.values[m], line.unit).size());
  }
  std::string text = fmt::format("{:<{}}", "memory", first);
  for (size_t m = 0; m < moments.size(); ++m) text += fmt::format("  {:>{}}", moments[m].name, widths[m]);
  text += "\n";
  for (const Entry& line : lines) {
    text += fmt::format("{:<{}}", line.what, first);
    for (size_t m = 0; m < moments.size(); ++m) {
      text += fmt::format("  {:>{}}", bytes_amount(line.values[m], line.unit), widths[m]);
    }
    text += "\n";
  }
  return text + memory_growth_text(moments);
}

std::string memory_growth_text(std::span<const MemoryMoment> moments) {
  if (moments.size() < 2) return "";
  const std::vector<MemoryChange> grown = growth(moments);
  std::string text = growth_heading(moments, !grown.empty()) + (grown.empty() ? "\n" : ":\n");
  for (const MemoryChange& change : grown) text += "  " + growth_text(change) + "\n";
  return text;
}

std::string memory_json(std::span<const MemoryMoment> moments, int indent) {
  Json all = Json::array();
  for (const MemoryMoment& moment : moments) all.push_back(report_json(moment));
  Json json = {{"moments", std::move(all)}};
  if (moments.size() > 1) {
    Json largest = Json::array();
    for (const MemoryChange& change : growth(moments)) {
      largest.push_back({{"what", change.what},
                         {"unit", unit_words(change.unit)},
                         {"before", change.before},
                         {"after", change.after}});
    }
    json["growth"] = {
        {"from", moments.front().name}, {"to", moments.back().name}, {"largest", std::move(largest)}};
  }
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

std::vector<MemoryMoment> memory_from_json(std::string_view text, std::string_view where) {
  try {
    std::vector<MemoryMoment> moments;
    const Json json = parse_json<Json>(text);
    for (const Json& moment : json.at("moments")) moments.push_back(moment_of(moment));
    return moments;
  } catch (const std::exception& error) {
    fail(ErrorCode::kBadFormat, where, "expected the moments that memory_json writes: {}", complaint(error));
  }
}

std::string memory_section(std::span<const MemoryMoment> moments) {
  if (moments.empty()) return "";
  const MemoryMoment& last = moments.back();
  std::string text = fmt::format("<h3>Memory by owner: {} (step {})</h3>\n{}", escape_markup(last.name),
                                 last.step, bar_markup(last.resident));
  if (moments.size() > 1) {
    const std::vector<MemoryChange> grown = growth(moments);
    text += fmt::format("<p>{}{}</p>\n", escape_markup(growth_heading(moments, !grown.empty())),
                        grown.empty() ? "." : ":");
    if (!grown.empty()) {
      text += "<ul>\n";
      for (const MemoryChange& change : grown)
        text += fmt::format("<li>{}</li>\n", escape_markup(growth_text(change)));
      text += "</ul>\n";
    }
  }
  text += "<details><summary>All moments: resident set by owner, allocators by tag, live objects</summary>\n";
  text += memory_table(moments, "resident set", resident_lines(moments));
  text += memory_table(moments, "allocators, by tag", tag_lines(moments, MemoryChange::Unit::kBytes));
  text += memory_table(moments, "blocks, by tag", tag_lines(moments, MemoryChange::Unit::kBlocks));
  text += memory_table(moments, "live objects", live_lines(moments));
  return text + "</details>\n";
}

}  // namespace isochron::observe
