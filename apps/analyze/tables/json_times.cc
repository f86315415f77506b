#include <fmt/format.h>
#include <re2/re2.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "isochron/apps/analyze/tables/tables.h"
#include "isochron/apps/analyze/tables/time_rows.h"
#include "isochron/apps/analyze/times/fields.h"
#include "isochron/apps/analyze/times/log_reader.h"
#include "isochron/core/base/error.h"
#include "isochron/core/text/count_text.h"
#include "isochron/core/text/encoding.h"
#include "isochron/core/text/json_depth.h"
#include "isochron/core/text/terminal_text.h"

namespace isochron::apps {
namespace {

using Json = nlohmann::ordered_json;

/// Parses the object of a line. NaN and Infinity, which Python writes although JSON lacks them, become null.
std::optional<Json> object_of(const std::string& line) {
  if (json_too_deep(line)) return std::nullopt;
  static const RE2 numbers(R"(([:\[,]\s*)-?(?:NaN|Infinity)\b)");
  Json json = Json::parse(line, nullptr, false);
  if (json.is_discarded()) {
    std::string text = line;
    RE2::GlobalReplace(&text, numbers, R"(\1null)");
    json = Json::parse(text, nullptr, false);
  }
  return json.is_object() ? std::optional(std::move(json)) : std::nullopt;
}

/// The value of a key, or of a path of keys: "train.step_time". Null if there is none.
const Json& value_of(const Json& object, const std::string& name) {
  static const Json none;
  if (!object.is_object()) return none;
  if (const auto found = object.find(name); found != object.end()) return *found;
  const size_t dot = name.find('.');
  if (dot == std::string::npos) return none;
  const auto outer = object.find(name.substr(0, dot));
  return outer == object.end() ? none : value_of(*outer, name.substr(dot + 1));
}

std::string text_of(const Json& value) {
  if (value.is_null()) return {};
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void add_keys(const Json& object, const std::string& before, std::vector<std::string>& keys) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object())
      add_keys(value, before + key + ".", keys);
    else
      keys.push_back(before + key);
  }
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  add_keys(object, "", keys);
  return keys;
}

}  // namespace

bool is_json_object(std::string_view line) {
  line = trimmed(without_byte_order_mark(line));
  return line.starts_with('{') && object_of(std::string(line)).has_value();
}

IterationTimes times_of_json(InputStream& stream, const TimesOptions& options) {
  const std::string where = name_of(options.path);
  LogReader reader(stream);
  std::optional<TimeRows> rows;
  std::string unasked;
  std::vector<std::string> first_keys;
  int64_t without = 0;
  for (std::string line; reader.next(line);) {
    const std::string row = fmt::format("{}, line {}", where, reader.line());
    if (reader.line() == 1) line = std::string(without_byte_order_mark(line));
    const std::optional<Json> object = object_of(line);
    if (!object && rows && reader.unfinished() && options.allow_gaps) {
      rows->leave_out();
      continue;
    }
    require(!json_too_deep(line), ErrorCode::kBadFormat, row, "is nested more than {} levels deep",
            kDeepestJson);
    require(object.has_value(), ErrorCode::kBadFormat, row, "expected a JSON object, got '{}'{}",
            quotation(line, 40),
            reader.unfinished() ? "; --allow-gaps skips a last line that is cut off" : "");
    if (!rows) {
      first_keys = keys_of(*object);
      require(!options.column.empty(), ErrorCode::kInvalidArgument, where,
              "is JSON Lines with the keys {}; name the one with the times with --column, or, if the times "
              "are in the text of one, give a regular expression with --pattern",
              names_text(first_keys));
      const std::optional<size_t> rank = column_called_rank(first_keys);
      if (options.rank.empty() && rank) unasked = first_keys[*rank];
      rows.emplace(options, chosen_unit(options, unit_of_column(first_keys, options.column), where),
                   !options.rank.empty() || !unasked.empty(), unasked);
    }
    const Json& time = value_of(*object, options.column);
    if (time.is_null() && !object->contains(options.column)) {
      ++without;  // lines of another kind, such as an evaluation or the configuration
      continue;
    }
    const auto text = [&](const std::string& name) {
      return name.empty() ? std::string() : text_of(value_of(*object, name));
    };
    const std::string work = text(options.work), phase = text(options.phase_column),
                      rank = text(options.rank.empty() ? unasked : options.rank);
    rows->add({.time = text_of(time), .work = work, .rank = rank, .phase = phase}, row);
  }
  require(rows && rows->rows() > 0, ErrorCode::kBadFormat, where,
          "no line has '{}'; the keys of the first are: {}", quotation(options.column),
          names_text(first_keys));
  IterationTimes times = rows->times();
  if (without > 0)
    times.notes.push_back(
        fmt::format("left out: {} without '{}'", count_text(without, "line"), quotation(options.column, 40)));
  return times;
}

}  // namespace isochron::apps
