// Times from a table.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>
#include <unordered_map>

#include "isochron/apps/analyze/time_sources.h"
#include "isochron/core/base/error.h"
#include "isochron/core/text/encoding.h"
#include "isochron/core/text/terminal_text.h"
#include "isochron/data/formats/csv_scanner.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::apps {
namespace {

constexpr size_t kLongestRow = size_t{1} << 20;
constexpr size_t kMostGroups = 4096;  // phases times ranks

/// Whether a field is not a word: it is a number or begins like one, such as a date.
bool begins_with_digits(std::string_view field) {
  const std::string_view text = trimmed(field);
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  return text.size() > sign &&
         (std::isdigit(static_cast<unsigned char>(text[sign])) != 0 || text[sign] == '.');
}

/// Whether a field is a number, perhaps with a unit after it. A name isn't, even if it begins with `inf` or
/// `nan`.
bool is_value(std::string_view field) {
  double value = 0;
  const std::string_view text = trimmed(field);
  const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status == std::errc::invalid_argument) return false;
  const std::string_view rest = trimmed(text.substr(static_cast<size_t>(stop - text.data())));
  return rest.empty() || (std::isfinite(value) && time_unit(rest).has_value());
}

std::vector<std::string> fields_of(const data::CsvScanner& rows) {
  std::vector<std::string> fields;
  for (size_t i = 0; i < rows.fields(); ++i) fields.emplace_back(trimmed(rows.field(i)));
  return fields;
}

/// The first row, and the columns that are read from the other rows.
struct Columns {
  std::vector<std::string> first;
  bool header = false;
  size_t time = 0;
  std::optional<size_t> work = {}, rank = {}, phase = {};
  bool rank_by_name = false;  // the column wasn't asked for: it is called as one with ranks is
};

/// The number of the column of that name.
size_t column_of(const std::string& name, const Columns& columns, const std::string& where) {
  const std::vector<std::string>& first = columns.first;
  if (columns.header) {
    const auto found = std::ranges::find(first, name);
    require(found != first.end(), ErrorCode::kBadFormat, where, "no column '{}'; the columns are: {}",
            quotation(name), names_text(first));
    require(std::ranges::count(first, name) == 1, ErrorCode::kBadFormat, where, "two columns are called '{}'",
            quotation(name));
    return static_cast<size_t>(found - first.begin());
  }
  size_t column = 0;
  const char* end = name.data() + name.size();
  const auto [stop, status] = std::from_chars(name.data(), end, column);
  require(status == std::errc() && stop == end && column < first.size(), ErrorCode::kBadFormat, where,
          "no column '{}'; without a header, columns are numbered 0 to {}", quotation(name),
          first.size() - 1);
  return column;
}

/// A column that is called as one with ranks is.
std::optional<size_t> column_called_rank(const Columns& columns) {
  constexpr std::string_view kNames[] = {"rank", "global_rank", "local_rank", "world_rank", "process_index"};
  for (size_t i = 0; i < columns.first.size(); ++i) {
    std::string name = columns.first[i];
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    if (i != columns.time && std::ranges::find(kNames, name) != std::end(kNames)) return i;
  }
  return std::nullopt;
}

Columns chosen_columns(const data::CsvScanner& rows, const TimesOptions& options, const std::string& where) {
  Columns columns{.first = fields_of(rows)};
  // "1st step, ms" is a header, but "2026-01-31 12:00:00, 12.5" isn't.
  columns.header = !is_value(columns.first[0]) &&
                   (!begins_with_digits(columns.first[0]) || std::ranges::none_of(columns.first, is_value));
  require(!options.column.empty() || columns.first.size() == 1, ErrorCode::kInvalidArgument, where,
          "has several columns ({}); name the one with the times with --column", names_text(columns.first));
  if (!options.column.empty()) columns.time = column_of(options.column, columns, where);
  const auto optional = [&](const std::string& name) -> std::optional<size_t> {
    if (name.empty()) return std::nullopt;
    return column_of(name, columns, where);
  };
  columns.work = optional(options.work);
  columns.rank = optional(options.rank);
  columns.phase = optional(options.phase_column);
  if (columns.header && !columns.rank) {
    columns.rank = column_called_rank(columns);
    columns.rank_by_name = columns.rank.has_value();
  }
  return columns;
}

bool is_gap(std::string_view field) {
  std::string text(trimmed(field).substr(0, 4));
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text.empty() || text == "nan";
}

/// Times by phase and rank.
class Groups {
 public:
  struct Group {
    std::string phase, rank;
    std::vector<double> ns;
    double total_ns = 0;
    std::vector<size_t> rows = {};  // of the times, if the ranks may have to be pooled
  };

  Groups(const TimesOptions& options, bool may_pool) : options_(options), may_pool_(may_pool) {}

  void add(std::string_view phase, std::string_view rank, double ns) {
    require(times_ < options_.most_times, ErrorCode::kBadFormat, name_of(options_.path),
            "has more than {} times; give only a part of them", options_.most_times);
    ++times_;
    Group* group = group_of(phase, pooled_ ? std::string_view() : rank);
    if (group == nullptr && may_pool_ && !pooled_) {
      pool_ranks();
      group = group_of(phase, {});
    }
    require(group != nullptr, ErrorCode::kBadFormat, name_of(options_.path),
            "has more than {} phases and ranks; are --rank and --phase-column the right columns?",
            kMostGroups);
    group->ns.push_back(ns);
    group->total_ns += ns;
    if (may_pool_ && !pooled_) group->rows.push_back(times_);
  }
  bool empty() const { return groups_.empty(); }
  /// Whether the times are by rank: each rank has five or more of each of its phases, or ranks were asked
  /// for.
  bool by_rank() {
    constexpr size_t kFewest = 5;
    const bool few =
        std::ranges::any_of(groups_, [](const Group& group) { return group.ns.size() < kFewest; });
    if (may_pool_ && !pooled_ && few) pool_ranks();
    return !pooled_;
  }
  std::vector<Group> take() { return std::move(groups_); }

 private:
  /// nullptr if there are too many.
  Group* group_of(std::string_view phase, std::string_view rank) {
    key_.assign(phase).append(1, '\0').append(rank);
    const auto [found, is_new] = indices_.try_emplace(key_, groups_.size());
    if (is_new && groups_.size() == kMostGroups) {
      indices_.erase(found);
      return nullptr;
    }
    if (is_new) groups_.push_back({std::string(phase), std::string(rank), {}, 0});
    return &groups_[found->second];
  }

  /// The times of a phase in the order of their rows, whatever their rank.
  void pool_ranks() {
    pooled_ = true;
    std::vector<std::tuple<size_t, std::string, double>> times;
    for (const Group& group : groups_) {
      for (size_t i = 0; i < group.ns.size(); ++i)
        times.emplace_back(group.rows[i], group.phase, group.ns[i]);
    }
    std::ranges::sort(times);
    groups_.clear();
    indices_.clear();
    for (const auto& [row, phase, ns] : times) {
      Group& group = *group_of(phase, {});
      group.ns.push_back(ns);
      group.total_ns += ns;
    }
  }

  const TimesOptions& options_;
  bool may_pool_;
  bool pooled_ = false;
  size_t times_ = 0;
  std::string key_;
  std::unordered_map<std::string, size_t> indices_;
  std::vector<Group> groups_;
};

/// The rank that is shown for a row without one.
constexpr std::string_view kNoRank = "(none)";

/// The phase to judge, and the others.
IterationTimes chosen_groups(std::vector<Groups::Group> groups, const TimesOptions& options) {
  require(options.phase.empty() || !options.phase_column.empty(), ErrorCode::kInvalidArgument, "--phase",
          "needs --phase-column for a table: the column with the phase of a row");
  std::vector<std::string> names;
  std::unordered_map<std::string, size_t> indices;
  std::vector<double> totals;
  std::vector<IterationTimes> phases;
  for (Groups::Group& group : groups) {
    const auto [found, is_new] = indices.try_emplace(group.phase, names.size());
    if (is_new) {
      names.push_back(group.phase);
      totals.push_back(0);
      phases.emplace_back().phase = group.phase;
    }
    totals[found->second] += group.total_ns;
    phases[found->second].series.push_back({std::move(group.rank), std::move(group.ns)});
  }
  const auto most = static_cast<size_t>(std::ranges::max_element(totals) - totals.begin());
  const auto chosen = phases.begin() + static_cast<ptrdiff_t>(chosen_phase(options, names, most));
  IterationTimes result = std::move(*chosen);
  phases.erase(chosen);
  result.others = std::move(phases);
  return result;
}

/// Calls `change` for the chosen phase and for the others.
template <typename Change>
void for_each_phase(IterationTimes& times, const Change& change) {
  change(times);
  for (IterationTimes& other : times.others) change(other);
}

}  // namespace

IterationTimes times_of_table(InputStream& stream, const TimesOptions& options) {
  const std::string where = name_of(options.path);
  const auto begin = stream.peek_lines();
  std::string_view line(reinterpret_cast<const char*>(begin.data()), begin.size());
  line = without_byte_order_mark(line.substr(0, line.find('\n')));
  data::CsvScanner rows(stream, separator_of(line), kLongestRow);
  require(rows.next_row(), ErrorCode::kBadFormat, where, "has no row of data");
  const Columns columns = chosen_columns(rows, options, where);
  const TimeUnit unit = chosen_unit(
      options, columns.header ? time_unit_of_name(columns.first[columns.time]) : std::nullopt, where);
  Groups groups(options, columns.rank_by_name);
  std::vector<double> works;
  int64_t gaps = 0, rows_read = 0;
  double resolutions = 0;
  const auto field_or_empty = [&](const std::optional<size_t>& column) {
    return column ? trimmed(rows.field(*column)) : std::string_view();
  };
  for (bool there = columns.header ? rows.next_row() : true; there; there = rows.next_row()) {
    const std::string row = fmt::format("{}, line {}", where, rows.line());
    const bool whole = rows.fields() == columns.first.size();
    const bool cut = rows.fields() < columns.first.size() && rows.ends_without_newline();
    const bool gap =
        whole && (is_gap(rows.field(columns.time)) || (columns.work && is_gap(rows.field(*columns.work))));
    const bool blank = rows.fields() == 1 && rows.field(0).empty();
    if (options.allow_gaps && (cut || gap || blank)) {
      ++gaps;
      continue;
    }
    require(!cut, ErrorCode::kBadFormat, row,
            "the last row is cut off: {} of {} columns and no newline. The file may still be written to; "
            "--allow-gaps skips the row",
            rows.fields(), columns.first.size());
    require(whole, ErrorCode::kBadFormat, row, "expected {} columns, got {}", columns.first.size(),
            rows.fields());
    require(!gap, ErrorCode::kBadFormat, row, "no value, expected a time; --allow-gaps skips such rows");
    double ns = time_ns(rows.field(columns.time), unit, row);
    resolutions += written_resolution(trimmed(rows.field(columns.time)));
    ++rows_read;
    if (columns.work) {
      const auto work = whole_field_number(rows.field(*columns.work));
      require(work && *work > 0 && std::isfinite(*work), ErrorCode::kBadFormat, row,
              "expected an amount of work above 0 in column '{}', got '{}'", quotation(options.work),
              quotation(rows.field(*columns.work)));
      works.push_back(*work);
      ns /= *work;
    }
    groups.add(field_or_empty(columns.phase), field_or_empty(columns.rank), ns);
  }
  require(!groups.empty(), ErrorCode::kBadFormat, where, "has no row of data");
  const bool by_rank = columns.rank && groups.by_rank();
  IterationTimes result = chosen_groups(groups.take(), options);
  const double usual = columns.work ? observe::median(works) : 1;
  for_each_phase(result, [&](IterationTimes& times) {
    times.by_rank = by_rank;
    times.resolution = resolutions / static_cast<double>(rows_read);
    if (columns.work)
      times.each = fmt::format("the time per {:.6g} of '{}', which is the median of the rows", usual,
                               quotation(options.work, 40));
    for (TimeSeries& series : times.series) {
      if (times.by_rank && series.rank.empty()) series.rank = kNoRank;
      for (double& ns : series.ns) ns *= usual;  // so that values stay times
    }
  });
  if (by_rank && columns.rank_by_name)
    result.notes.push_back(
        fmt::format("the ranks are those of column '{}'", quotation(columns.first[*columns.rank], 40)));
  if (gaps > 0)
    result.notes.push_back(fmt::format("left out: {} row{} without a value", gaps, gaps == 1 ? "" : "s"));
  return result;
}

}  // namespace isochron::apps
