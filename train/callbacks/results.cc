#include "isochron/train/callbacks/results.h"

#include <algorithm>
#include <cmath>

#include "isochron/core/base/error.h"

namespace isochron::train {
namespace {

/// A cell of a CSV file, in quotation marks where needed.
std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + "\"";
}

}  // namespace

const double* Results::find(std::string_view name) const {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [name](const Entry& e) { return e.first == name; });
  return found == entries_.end() ? nullptr : &found->second;
}

double Results::operator[](std::string_view name) const {
  if (const double* value = find(name)) return *value;
  std::string names;
  for (const Entry& entry : entries_) names += (names.empty() ? "" : ", ") + entry.first;
  fail(ErrorCode::kInvalidArgument, "results", "no result '{}'; results are {}", name,
       names.empty() ? "none" : names);
}

void Results::set(std::string_view name, double value) {
  for (Entry& entry : entries_) {
    if (entry.first == name) {
      entry.second = value;
      return;
    }
  }
  entries_.emplace_back(name, value);
}

std::string Results::str() const {
  std::string text;
  for (const auto& [name, value] : entries_) {
    const bool whole = std::abs(value) < 1e9 && value == std::floor(value);
    text += fmt::format("{}{} ", text.empty() ? "" : "  ", name);
    text += whole ? fmt::format("{:.0f}", value) : fmt::format("{:.4g}", value);
  }
  return text;
}

const Results& History::last() const {
  require(size_ > 0, ErrorCode::kInvalidArgument, "history", "contains no epoch");
  return epochs().back().results;
}

std::vector<double> History::values(std::string_view name) const {
  std::vector<double> result;
  for (const EpochRecord& record : epochs()) {
    if (const double* value = record.results.find(name)) result.push_back(*value);
  }
  if (result.empty()) static_cast<void>(last()[name]);  // throws, with the names there are
  return result;
}

std::string History::csv() const {
  std::vector<std::string> names;
  for (const EpochRecord& record : epochs()) {
    for (const auto& [name, value] : record.results) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  std::string text = "epoch,steps,seconds,step_p50_ns";
  for (const std::string& name : names) text += "," + csv_cell(name);
  text += "\n";
  for (const EpochRecord& record : epochs()) {
    text += fmt::format("{},{},{},{}", record.epoch, record.steps, record.seconds, record.step_p50_ns);
    for (const std::string& name : names) {
      const double* value = record.results.find(name);
      text += value ? fmt::format(",{}", *value) : std::string(",");
    }
    text += "\n";
  }
  return text;
}

void History::add(const EpochRecord& record) {
  if (size_ == kMaxEpochs) {
    std::rotate(made_.begin(), made_.begin() + 1, made_.end());
    --size_;
    ++dropped_epochs;
  }
  if (size_ == made_.size()) made_.resize(std::max(size_ + 1, std::min(reserved_, kMaxEpochs)), record);
  made_[size_++] = record;
}

}  // namespace isochron::train
