#include "isochron/apps/analyze/times/time_units.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "isochron/core/text/encoding.h"

namespace isochron::apps {
namespace {

std::optional<double> ns_of(std::string_view unit) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ns", 1},        {"nsec", 1},      {"nanosecond", 1},    {"nanoseconds", 1},    {"us", 1e3},
      {"\u00b5s", 1e3}, {"\u03bcs", 1e3}, {"usec", 1e3},        {"microsecond", 1e3},  {"microseconds", 1e3},
      {"ms", 1e6},      {"msec", 1e6},    {"millisecond", 1e6}, {"milliseconds", 1e6}, {"s", 1e9},
      {"sec", 1e9},     {"secs", 1e9},    {"second", 1e9},      {"seconds", 1e9},      {"min", 60e9},
      {"mins", 60e9},   {"minute", 60e9}, {"minutes", 60e9},    {"h", 3600e9},         {"hr", 3600e9},
      {"hrs", 3600e9},  {"hour", 3600e9}, {"hours", 3600e9}};
  const std::string lower = in_lower_case(unit.substr(0, 20));
  for (const auto& [name, ns] : kUnits) {
    if (lower == name) return ns;
  }
  return std::nullopt;
}

std::string_view trimmed_name(std::string_view name) {
  while (!name.empty() && !is_letter(name.back())) name.remove_suffix(1);
  return name;
}

std::string_view last_word(std::string_view text) {
  text = trimmed_name(text);
  size_t begin = text.size();
  while (begin > 0 && is_letter(text[begin - 1])) --begin;
  return text.substr(begin);
}

std::string_view first_word(std::string_view text) {
  size_t begin = 0;
  while (begin < text.size() && !is_letter(text[begin])) ++begin;
  size_t end = begin;
  while (end < text.size() && is_letter(text[end])) ++end;
  return text.substr(begin, end - begin);
}

/// The unit given by the text before and after the slash.
std::optional<TimeUnit> unit_of_quotient(std::string_view above, std::string_view below) {
  if (const auto ns = ns_of(above)) return TimeUnit{*ns, false, below};
  if (const auto ns = ns_of(below)) return TimeUnit{*ns, true, above};
  return std::nullopt;
}

bool is_among(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

/// Whether `word` names what a rate counts: "it", "samples". Singular words such as "step" are excluded,
/// because they may also name what is timed.
bool is_counted(std::string_view word) {
  return is_among(word,
                  {"it",        "its",   "iters",  "iterations", "steps",   "batches", "samples", "examples",
                   "img",       "imgs",  "images", "tok",        "toks",    "tokens",  "seqs",    "sequences",
                   "sentences", "words", "rows",   "frames",     "updates", "epochs",  "items",   "records"});
}

/// The unit of names such as "ms/step", "images/s" and "time/ms". Nothing for other names, in which the slash
/// may separate a group from a name ("train/ms", "train/step_time_ms").
std::optional<TimeUnit> unit_of_fraction(std::string_view above, std::string_view below) {
  std::optional<TimeUnit> unit = unit_of_quotient(above, below);
  if (!unit || !unit->rate || is_counted(above) ||
      is_among(above, {"step", "iter", "iteration", "batch", "sample", "image", "token"}))
    return unit;
  if (!is_among(above, {"time", "duration", "latency", "elapsed", "wall"})) return std::nullopt;
  unit->rate = false;
  return unit;
}

/// time_unit_of_name, for a name in lower case.
std::optional<TimeUnit> unit_of_lower(std::string_view text) {
  for (const std::string_view between : {"_per_", " per "}) {
    const size_t at = text.rfind(between);
    if (at == std::string_view::npos) continue;
    const std::string_view below = text.substr(at + between.size());
    if (const auto unit = unit_of_quotient(last_word(text.substr(0, at)), first_word(below))) return unit;
  }
  for (size_t slash = text.find('/'); slash != std::string_view::npos; slash = text.find('/', slash + 1)) {
    const std::string_view below = text.substr(slash + 1);
    if (const auto unit = unit_of_fraction(last_word(text.substr(0, slash)), first_word(below))) return unit;
  }
  const std::string_view last = last_word(text);
  const std::string_view front = text.substr(0, static_cast<size_t>(last.data() - text.data()));
  const auto ns = ns_of(last);
  // "tokens_s" is ambiguous: it may be a time, or a rate without "per".
  if (!ns || front.ends_with('/') || (*ns >= 1e9 && is_counted(last_word(front)))) return std::nullopt;
  return TimeUnit{*ns};
}

}  // namespace

std::optional<TimeUnit> time_unit(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    std::string_view below = text.substr(slash + 1);
    if (below.starts_with(' ')) below.remove_prefix(1);  // tqdm's unit may begin with a space: "1.02s/ steps"
    return unit_of_quotient(text.substr(0, slash), below);
  }
  if (const auto ns = ns_of(text)) return TimeUnit{*ns};
  return std::nullopt;
}

std::optional<TimeUnit> time_unit_of_name(const std::string& name) {
  const std::string lower = in_lower_case(name);
  std::optional<TimeUnit> unit = unit_of_lower(lower);
  if (unit) unit->of = {};  // it would point into `lower`
  return unit;
}

double written_resolution(std::string_view number) {
  if (number.starts_with('+') || number.starts_with('-')) number.remove_prefix(1);
  double value = 0;
  const auto [rest, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || rest != number.data() + number.size() || value == 0) return 0;
  const std::string_view digits = number.substr(0, number.find_first_of("eE"));
  if (digits.find_first_not_of("0123456789.") != std::string_view::npos) return 0;
  std::string_view exponent = number.substr(std::min(digits.size() + 1, number.size()));
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  int power = 0;
  std::from_chars(exponent.data(), exponent.data() + exponent.size(), power);
  const size_t point = std::min(digits.find('.'), digits.size() - 1);
  return std::pow(10, power - static_cast<double>(digits.size() - 1 - point)) / value;
}

void LastDigits::add(double relative, double ns, double unit) {
  if (!(relative > 0)) return;
  OfUnit& of_unit = by_unit_[unit];
  ++of_unit.times;
  of_unit.least_ns = std::min(of_unit.least_ns, relative * ns);
}

void LastDigits::add(const LastDigits& other) {
  for (const auto& [unit, theirs] : other.by_unit_) {
    OfUnit& of_unit = by_unit_[unit];
    of_unit.times += theirs.times;
    of_unit.least_ns = std::min(of_unit.least_ns, theirs.least_ns);
  }
}

double LastDigits::ns() const {
  if (by_unit_.empty()) return 0;
  return std::ranges::max_element(by_unit_, {}, [](const auto& one) { return one.second.times; })
      ->second.least_ns;
}

bool begins_as_rate(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  size_t slash = 0;
  while (slash < text.size() && is_letter(text[slash])) ++slash;
  if (slash == text.size() || text[slash] != '/') return false;
  const std::string_view below = text.substr(slash + 1);
  const auto end = std::ranges::find_if_not(below, is_letter);
  const auto unit =
      unit_of_quotient(text.substr(0, slash), below.substr(0, static_cast<size_t>(end - below.begin())));
  return unit && unit->rate;
}

}  // namespace isochron::apps
