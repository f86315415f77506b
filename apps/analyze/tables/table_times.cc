#include "isochron/apps/analyze/tables/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "isochron/apps/analyze/tables/time_rows.h"
#include "isochron/apps/analyze/times/fields.h"
#include "isochron/core/base/error.h"
#include "isochron/core/text/count_text.h"
#include "isochron/core/text/encoding.h"
#include "isochron/core/text/terminal_text.h"
#include "isochron/data/formats/csv_scanner.h"

namespace isochron::apps {
namespace {

constexpr size_t kLongestRow = size_t{1} << 20;

/// Whether a field is a number or begins like one, such as a date.
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

/// The fields of a line in which no quotes enclose separators.
std::vector<std::string> fields_of(std::string_view line, char separator) {
  std::vector<std::string> fields;
  for (size_t end = 0; end != std::string_view::npos; line.remove_prefix(end + 1)) {
    end = line.find(separator);
    fields.emplace_back(trimmed(line.substr(0, end), " \t\r\""));
    if (end == std::string_view::npos) break;
  }
  return fields;
}

/// The first row, and the columns that are read from the other rows.
struct Columns {
  std::vector<std::string> first;
  bool header = false;
  size_t time = 0;
  std::optional<size_t> work = {}, rank = {}, phase = {};
  bool rank_by_name = false;  // the rank column wasn't requested, but recognized by its name
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

/// Whether a field is a word, not a number, a date or a mark for a missing value.
bool is_word(std::string_view field) {
  constexpr std::string_view kMissing[] = {"", "-", "--", "?", "n/a", "#n/a", "na", "none", "null", "nil"};
  return !is_value(field) && !begins_with_digits(field) &&
         std::ranges::find(kMissing, in_lower_case(trimmed(field))) == std::end(kMissing);
}

bool is_whole_number(std::string_view field) {
  return !field.empty() && std::ranges::all_of(field, is_digit);
}

/// Whether the fields after the first are distinct whole numbers. Columns may have such names.
bool are_numbered(std::span<const std::string> fields) {
  std::vector<std::string> sorted(fields.begin() + 1, fields.end());
  std::ranges::sort(sorted);
  return std::ranges::all_of(sorted, is_whole_number) && std::ranges::adjacent_find(sorted) == sorted.end();
}

/// Whether the first row is a header. The rules are, in this order: It is one if its first field is a word or
/// empty (as pandas writes) and either that field or a word in the row is above a number. It isn't one if it
/// contains a fraction. It is one if a word is above a number, or if it contains no number. Columns may also
/// be numbered: ",0" or "name,1,2" above another name, "time,1" above a time. Not headers: "2026-01-31, 12.5,
/// ok", and "train, 12.5" above "train, 12.7".
bool is_header(const std::vector<std::string>& first, const std::vector<std::string>& second) {
  if (second.empty()) return std::ranges::none_of(first, is_value);
  const auto word_above_number = [&] {
    for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
      if (is_word(first[i]) && is_value(second[i])) return true;
    }
    return false;
  };
  const auto is_fraction = [](const std::string& field) {
    return is_value(field) && !is_whole_number(field);
  };
  const bool begins_as_header = first[0].empty() || is_word(first[0]);
  if (begins_as_header && (is_value(second[0]) || word_above_number())) return true;
  if (std::ranges::any_of(first, is_fraction)) return false;
  if (word_above_number() || std::ranges::none_of(first, is_value)) return true;
  const bool several = first.size() > 2 || first[0].empty() || begins_with_digits(second[0]);
  return begins_as_header && first[0] != second[0] && several && are_numbered(first);
}

/// `second`: the fields of the second line of the file.
Columns chosen_columns(const data::CsvScanner& rows, const std::vector<std::string>& second,
                       const TimesOptions& options, const std::string& where) {
  Columns columns{.first = fields_of(rows)};
  columns.header = is_header(columns.first, second);
  require(!options.column.empty() || columns.first.size() == 1, ErrorCode::kInvalidArgument, where,
          "has several columns ({}){}; name the one with the times with --column", names_text(columns.first),
          columns.header
              ? ""
              : fmt::format(" and no header; they are numbered 0 to {}", columns.first.size() - 1));
  if (!options.column.empty()) columns.time = column_of(options.column, columns, where);
  const auto optional = [&](const std::string& name) -> std::optional<size_t> {
    if (name.empty()) return std::nullopt;
    return column_of(name, columns, where);
  };
  columns.work = optional(options.work);
  columns.rank = optional(options.rank);
  columns.phase = optional(options.phase_column);
  if (columns.header && !columns.rank) {
    columns.rank = column_called_rank(columns.first);
    columns.rank_by_name = columns.rank.has_value();
  }
  return columns;
}

/// Checks a column that counts the iterations. The count may restart at an epoch or a new run, but if rows
/// are in random order, their course can't be judged.
class Order {
 public:
  explicit Order(const Columns& columns) {
    if (!columns.header) return;
    for (size_t i = 0; i < columns.first.size() && !column_; ++i) {
      const std::string name = in_lower_case(columns.first[i]);
      constexpr std::string_view kNames[] = {"step", "global_step", "iteration", "iter"};
      if (i == columns.time || std::ranges::find(kNames, name) == std::end(kNames)) continue;
      column_ = i;
      name_ = columns.first[i];
    }
  }
  void add(const data::CsvScanner& rows) {
    if (!column_ || *column_ >= rows.fields()) return;
    const std::string_view text = trimmed(rows.field(*column_));
    double number = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc()) return;
    falls_ += seen_ > 0 && number < last_;
    last_ = number;
    ++seen_;
  }
  void check(const std::string& where) const {
    constexpr size_t kFew = 20, kSeldom = 10;
    require(seen_ < kFew || falls_ < seen_ / kSeldom, ErrorCode::kBadFormat, where,
            "the rows aren't in the order of the run: column '{}' falls {} in {} rows; sort them",
            quotation(name_), count_text(falls_, "time"), seen_);
  }

 private:
  std::optional<size_t> column_;
  std::string name_;
  double last_ = 0;
  size_t seen_ = 0, falls_ = 0;
};

}  // namespace

IterationTimes times_of_table(InputStream& stream, const TimesOptions& options) {
  const std::string where = name_of(options.path);
  const auto begin = stream.peek_lines(2);
  const std::string_view text =
      without_byte_order_mark(std::string_view(reinterpret_cast<const char*>(begin.data()), begin.size()));
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::string_view rest = text.substr(std::min(line.size() + 1, text.size()));
  const char separator = separator_of(line);
  const std::vector<std::string> second =
      rest.empty() ? std::vector<std::string>() : fields_of(rest.substr(0, rest.find('\n')), separator);
  data::CsvScanner rows(stream, separator, kLongestRow);
  require(rows.next_row(), ErrorCode::kBadFormat, where, "has no rows of data");
  const Columns columns = chosen_columns(rows, second, options, where);
  const TimeUnit unit = chosen_unit(
      options, columns.header ? unit_of_column(columns.first, columns.first[columns.time]) : std::nullopt,
      where);
  const std::string unasked = columns.rank_by_name ? columns.first[*columns.rank] : "";
  TimeRows gathered(options, unit, columns.rank.has_value(), unasked);
  Order order(columns);
  const auto field_or_empty = [&](const std::optional<size_t>& column) {
    return column ? trimmed(rows.field(*column)) : std::string_view();
  };
  for (bool there = columns.header ? rows.next_row() : true; there; there = rows.next_row()) {
    const std::string row = fmt::format("{}, line {}", where, rows.line());
    if (stream.stopped() && rows.ends_without_newline()) break;  // cut
    const bool whole = rows.fields() == columns.first.size();
    const bool cut = rows.fields() < columns.first.size() && rows.ends_without_newline();
    const bool blank = rows.fields() == 1 && rows.field(0).empty();
    if (options.allow_gaps && (cut || blank)) {
      gathered.leave_out();
      continue;
    }
    require(!cut, ErrorCode::kBadFormat, row,
            "the last row is cut off: {} of {} columns and no newline. The file may still be written to; "
            "--allow-gaps skips the row",
            rows.fields(), columns.first.size());
    require(whole, ErrorCode::kBadFormat, row, "expected {}, got {}",
            count_text(columns.first.size(), "column"), rows.fields());
    gathered.add({.time = rows.field(columns.time),
                  .work = field_or_empty(columns.work),
                  .rank = field_or_empty(columns.rank),
                  .phase = field_or_empty(columns.phase)},
                 row);
    order.add(rows);
  }
  order.check(where);
  return gathered.times();
}

}  // namespace isochron::apps
