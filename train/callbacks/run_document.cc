#include "isochron/train/callbacks/run_document.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "isochron/core/base/error.h"
#include "isochron/observe/record/json_numbers-inl.h"

namespace isochron::train {
namespace {

using nlohmann::ordered_json;

ordered_json number_json(double number) { return observe::number_json<ordered_json>(number); }

double number_of(const ordered_json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string text = value.get<std::string>();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  throw std::invalid_argument("'" + text.substr(0, 20) + "' is not a number");
}

/// Rejects numbers that the library would silently change: fractions, and numbers that `Int` can't hold.
template <typename Int>
Int whole_of(const ordered_json& value) {
  const bool unfit = value.is_number_unsigned() && !std::in_range<Int>(value.get<uint64_t>());
  if (!value.is_number_integer() || unfit || !std::in_range<Int>(value.get<int64_t>())) {
    throw std::invalid_argument(value.dump().substr(0, 20) + " is not a whole number, or is too large");
  }
  return value.get<Int>();
}

ordered_json results_json(const Results& results) {
  ordered_json json = ordered_json::object();
  for (const auto& [name, value] : results) json[name] = number_json(value);
  return json;
}

Results results_of(const ordered_json& json) {
  Results results;
  for (const auto& [name, value] : json.items()) results.set(name, number_of(value));
  return results;
}

ordered_json record_json(const EpochRecord& record) {
  return {{"epoch", record.epoch},
          {"steps", record.steps},
          {"seconds", number_json(record.seconds)},
          {"step_p50_ns", number_json(record.step_p50_ns)},
          {"results", results_json(record.results)}};
}

EpochRecord record_of(const ordered_json& json) {
  return {.epoch = whole_of<int>(json.at("epoch")),
          .steps = whole_of<int64_t>(json.at("steps")),
          .seconds = number_of(json.at("seconds")),
          .step_p50_ns = number_of(json.at("step_p50_ns")),
          .results = results_of(json.at("results"))};
}

RunDocument document_of(const ordered_json& json) {
  RunDocument document;
  document.weights_only = json.at("weights_only").get<bool>();
  document.epoch = whole_of<int>(json.at("epoch"));
  document.step = whole_of<int64_t>(json.at("step"));
  document.total_steps = whole_of<int64_t>(json.at("total_steps"));
  document.epoch_done = json.at("epoch_done").get<bool>();
  document.results = results_of(json.at("results"));
  if (document.epoch < 0 || document.step < 0 || document.total_steps < 0) {
    throw std::invalid_argument("epoch and steps can't be negative");
  }
  if (document.weights_only) return document;
  document.epoch_seconds = number_of(json.at("epoch_seconds"));
  document.stop_reason = json.at("stop_reason").get<std::string>();
  const ordered_json& random = json.at("random");
  document.random = {whole_of<int64_t>(random.at(0)), whole_of<int64_t>(random.at(1))};
  document.settings = json.at("settings").get<std::map<std::string, std::string>>();
  document.deterministic = json.at("deterministic").get<bool>();
  document.choices = json.at("choices").get<std::map<std::string, std::string>>();
  for (const ordered_json& callback : json.at("callbacks")) {
    document.callbacks.push_back(
        {callback.at("kind").get<std::string>(), callback.at("state").get<std::string>()});
  }
  document.asked = whole_of<int64_t>(json.at("asked"));
  if (document.asked < 0 || document.asked > std::ssize(document.callbacks)) {
    throw std::invalid_argument(fmt::format("'asked' must be in [0, {}]", document.callbacks.size()));
  }
  return document;
}

}  // namespace

std::string RunDocument::str() const {
  ordered_json json = {
      {"weights_only", weights_only}, {"epoch", epoch},           {"step", step},
      {"total_steps", total_steps},   {"epoch_done", epoch_done}, {"results", results_json(results)}};
  if (!weights_only) {
    json["epoch_seconds"] = number_json(epoch_seconds);
    json["stop_reason"] = stop_reason;
    json["random"] = random;
    json["settings"] = settings;
    json["deterministic"] = deterministic;
    json["choices"] = choices;
    json["callbacks"] = ordered_json::array();
    for (const auto& [kind, state] : callbacks) {
      json["callbacks"].push_back({{"kind", kind}, {"state", state}});
    }
    json["asked"] = asked;
  }
  try {
    return json.dump();
  } catch (const nlohmann::json::exception&) {
    fail(ErrorCode::kInvalidArgument, "checkpoint",
         "names (also those of files among the settings) and callbacks' states must be UTF-8");
  }
}

RunDocument RunDocument::parse(const std::string& text, const std::string& where) {
  try {
    return document_of(observe::parse_json<ordered_json>(text));
  } catch (const std::exception& error) {
    fail(ErrorCode::kBadFormat, where,
         "the document is not that of a run ({}); read the checkpoints of your own loop with "
         "train::Checkpoint",
         observe::complaint(error));
  }
}

void append_history(std::string& text, const EpochRecord& record) {
  text += record_json(record).dump();
  text += '\n';
}

std::vector<EpochRecord> parse_history(std::string_view text, const std::string& where) {
  std::vector<EpochRecord> history;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    try {
      history.push_back(record_of(observe::parse_json<ordered_json>(text.substr(0, end))));
    } catch (const std::exception& error) {
      fail(ErrorCode::kBadFormat, where, "line {} of the history is not the record of an epoch ({})",
           history.size() + 1, observe::complaint(error));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return history;
}

}  // namespace isochron::train
