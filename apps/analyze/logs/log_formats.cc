#include "isochron/apps/analyze/logs/log_formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <deque>
#include <numeric>

#include "isochron/apps/analyze/times/time_units.h"
#include "isochron/apps/analyze/times/written_times.h"
#include "isochron/core/base/error.h"
#include "isochron/core/text/encoding.h"
#include "isochron/core/text/terminal_text.h"

namespace isochron::apps {
namespace {

constexpr size_t kLongestLabel = 200;  // bytes that are used

double scale_of(char suffix) {
  switch (suffix) {
    case 'k':
    case 'K':  // Ultralytics
      return 1e3;
    case 'M':
      return 1e6;
    case 'G':
      return 1e9;
    case 'T':
      return 1e12;
    default:
      return 1;
  }
}

/// "32", "1,234", or "1.14M" as tqdm scales units.
double count_of(std::string_view text) {
  if (text.empty()) return -1;
  const double scale = scale_of(text.back());
  if (scale != 1) text.remove_suffix(1);
  const std::optional<double> count = number_of(plain_number(text).value_or(""));
  return count.value_or(-1 / scale) * scale;
}

/// The words of a label without numbers and punctuation: "Epoch 3/10, lr 1e-3" becomes "Epoch lr".
std::string words_of(std::string_view label) {
  static const RE2 numbers(R"([-+]?(?:\d+(?:[,_]\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?|\b(?:nan|inf)\b))");
  std::string text(label.substr(0, kLongestLabel));
  RE2::GlobalReplace(&text, numbers, " ");
  std::string words;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalpha(byte) || byte >= 0x80 || c == '_')
      words += c;
    else if (!words.empty() && words.back() != ' ')
      words += ' ';
  }
  while (words.ends_with(' ')) words.pop_back();
  return words;
}

int64_t first_number(std::string_view label) {
  const size_t begin = std::min(label.find_first_of("0123456789"), label.size());
  static const RE2 counter(R"((\d+(?:[,_]\d{3})*)\b)");
  re2::StringPiece digits;
  if (!RE2::PartialMatch(re2::StringPiece(label.data() + begin, label.size() - begin), counter, &digits))
    return -1;
  const std::string text = plain_number({digits.data(), digits.size()}).value_or("");
  int64_t number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  return result.ec == std::errc() ? number : -1;
}

/// Whether tqdm has scaled a rate: "1.11kit/s". A unit may also begin like a prefix: "keys/s".
bool is_scaled_unit(std::string_view unit) {
  static const RE2 scaled(
      "[kKMGT](?:it|B|b|tok|tokens?|samples?|ex|examples?|imgs?|images?|frames?|rows?|steps?)/s");
  return RE2::FullMatch(re2::StringPiece(unit.data(), unit.size()), scaled);
}

bool is_scaled(std::string_view count) { return count.find_first_of(".kKMGT") != std::string_view::npos; }

/// Sets the time of one step (or other unit of work) from a number and its unit as written. If tqdm scales a
/// bar's counts, the first letter of the unit belongs to the number.
void read_value(LogMatch& match, const WrittenTime& value, std::string_view unit, bool scaled) {
  constexpr size_t kLongestThing = 40;  // bytes
  const std::optional<double> number = number_of(value.number);
  double scale = 1;
  if (scaled && !unit.empty() && scale_of(unit.front()) != 1) {
    scale = scale_of(unit.front());
    unit.remove_prefix(1);
  }
  const std::optional<TimeUnit> found = time_unit(unit);
  if (!found && !value.ns) return;
  const bool says_what = found && found->rate && !found->of.empty();  // "epoch 7: 11 steps/s" times steps
  if (found && (match.of.empty() || says_what)) match.of = found->of.substr(0, kLongestThing);
  if (!value.ns && (!number || *number <= 0)) return;
  const double ns = value.ns ? *value.ns : found->time_ns(*number * scale);
  if (!(ns > 0 && ns < 0x1p62)) return;
  match.ns = ns;
  match.per_step = found && (found->rate || !found->of.empty());
  match.resolution = value.ns ? value.resolution : written_resolution(value.number);
  match.unit = value.ns ? value.unit_ns : found->time_ns(scale);
}

/// The time in a line, given the number that an expression found after the step counter (`counter` may be
/// empty). Nothing if counter and value are parts of one number: "step 5.2 it/s".
std::optional<WrittenTime> written_time(std::string_view line, std::string_view value,
                                        std::string_view counter, const LogFormat& format) {
  if (format.free_form) {
    if (auto duration = written_duration(line, value)) return duration;
  }
  if (counter.empty()) return written_number(line, value, 0, format.separators);
  const auto end = static_cast<size_t>(counter.data() - line.data()) + counter.size();
  WrittenTime number = written_number(line, value, end, format.separators);
  // If so, the character between them is a separator, unless the counter may have ended earlier.
  const bool touch = value.data() == line.data() + end + 1;
  if (!touch) return number;
  const bool grouped = counter.find_first_of(",_") != std::string_view::npos;
  if (line[end] == '.' && !grouped) return std::nullopt;
  if (grouped && (line[end] == '.' || line[end] == ','))
    number.refusal = fmt::format(
        "'{}{}{}' may be a step followed by a time, or one number; expected a space before the time",
        quotation(counter, 40), line[end], quotation(value, 40));
  return number;
}

}  // namespace

std::span<const LogFormat> log_formats() {
  static const std::vector<LogFormat> formats = {
      {.name = "keras",
       .program = "Keras",
       .expressions =
           {R"((?:^|\s)@done/(?:@total|Unknown)\s.*?\b@value(?P<unit>(?:s|ms|us|ns)/(?P<of>step|sample))\b)",
            R"((?:^|\s)(?P<heading>Epoch @counter)/@counter\s*$)"},
       .averaging = Averaging::kBarSoFar,
       .bar_ends_with_mean = true,
       .note = "Keras counts validation within an epoch as part of its steps"},
      {.name = "nemo",
       .program = "NeMo",
       .expressions = {R"(\btrain_step_timing in s[:=] ?@value\b)"},
       .default_unit = "s/step"},
      {.name = "lightning",
       .program = "Lightning",
       .expressions =
           {R"(^(?P<label>.*?):?\s+\d+%\|[^|]*\|\s*@done/@total \[[\d:]+<[^,\]]*, *@value@rate[^\]]*\bv_num=)",
            R"(^(?P<label>.*?):?\s+\|[^|]*\|\s*@done/\? \[[\d:]+<[^,\]]*, *@value@rate)"},  // no total
       .averaging = Averaging::kBarSoFar,
       .bar_ends_with_mean = true,
       .separators = ","},
      {.name = "rich",
       .program = "Lightning's rich bar",
       .expressions =
           {R"(^(?P<label>\S.*?)\s+[━╸╺\s]*\s@done/@total\s+\d+:\d\d:\d\d • \S+\s+@value(?P<unit>it/s))"},
       .averaging = Averaging::kRecent,
       .bar_ends_with_mean = true},
      {.name = "tqdm",
       .program = "tqdm",
       .expressions =
           {R"(^(?P<label>.*?):?\s*\d+%(?:\|[^|]*\|)?\s*@done/@total \[[\d:]+<[^,\]]*, *@value@rate)",
            R"(^(?:(?P<label>.*?): )?\s*@done ?[^\d\s/\[]* \[[\d:]+, *@value@rate)"},
       .averaging = Averaging::kRecent,
       .bar_ends_with_mean = true,
       .separators = ","},
      {.name = "ultralytics",
       .program = "Ultralytics",
       .expressions = {R"(^(?P<label>.*?):?\s+\d+% [━─╸╺╴]+ @done/@total @value@rate)"},
       .averaging = Averaging::kRecent,
       .bar_ends_with_mean = true},
      {.name = "timm",
       .program = "timm",
       .expressions =
           {R"(^(?P<label>(?:Train|Test): (?:\d+ )?)\[\s*@done/@total[^\]]*\].*?\bTime:\s+@value)"},
       .default_unit = "s/iteration"},
      {.name = "imagenet",
       .program = "PyTorch's ImageNet example",
       .expressions = {R"((?:^|\s)(?P<label>\w+: (?:\[\d+\])?)\[\s*@done/@total\].*?\bTime\s+@value\s*\()"},
       .default_unit = "s/iteration"},
      {.name = "torchvision",
       .program = "torchvision's references",
       .expressions = {R"(^(?P<label>.*?)\s*\[\s*@done/@total\]\s.*?\btime: @value\b)"},
       .default_unit = "s/iteration",
       .averaging = Averaging::kRecent},
      {.name = "trainer",
       .program = "Hugging Face's Trainer",
       .expressions = {R"('(?P<label>eval\w*|test\w*|predict\w*)_runtime': '?@value\b)"},
       .default_unit = "s/evaluation",
       .note = "the log contains only the times of evaluations; with progress bars enabled it also contains "
               "those of training"},
      {.name = "megatron",
       .program = "Megatron-LM",
       .expressions =
           {R"(\biteration\s+@counter/\s*@counter \|.*\belapsed time per iteration \((?P<unit>ms|s)\): @value)"}},
      {.name = "fairseq",
       .program = "fairseq",
       .expressions = {R"(\b(?P<label>epoch \d+):\s+@done / @total .*?\bups=@value\b)"},
       .default_unit = "it/s"},
      {.name = "wordlm",
       .program = "PyTorch's word language model example",
       .expressions =
           {R"(\|\s*(?P<label>epoch\s+\d+)\s*\|\s*@done/\s*@total batches \|.*?\bms/batch\s+@value)"},
       .default_unit = "ms/batch"},
      {.name = "deepspeed",
       .program = "DeepSpeed",
       .expressions = {R"(\bglobal_step=@counter, .*?\bCurrSamplesPerSec=@value)"},
       .default_unit = "samples/s"},
      {.name = "detectron2",
       .program = "Detectron2",
       .expressions = {R"(\biter: @counter\b.*?\blast_time: @value\b)"},  // `time` is the mean over the run
       .default_unit = "s/iteration"},
      {.name = "maxtext",
       .program = "MaxText",
       .expressions = {R"(\bcompleted step: @counter, seconds: @value\b)"},
       .default_unit = "s/step"},
      {.name = "torchtitan",
       .program = "torchtitan",
       .expressions = {R"(\b(?P<label>(?:validate\s+)?)step:\s+@counter\b.*?\btps:\s+@value\b)"},
       .default_unit = "tokens/s"},
      {.name = "tensorflow",
       .program = "TensorFlow",
       .expressions = {R"(\bTimeHistory: @value seconds, .* between steps @counter and @counter)",
                       R"(\bloss = \S+, step = @counter \(@value sec\))"},
       .default_unit = "s/interval between lines"},
      {.name = "marian",
       .program = "Marian",
       .expressions = {R"(\bUp\. @counter : .*\bTime @value ?s\b)"},
       .default_unit = "s/interval between lines"},
      {.name = "paddle",
       .program = "PaddlePaddle",
       .expressions = {R"((?:(?P<label>\[(?i:train|eval|valid|test)\]).*?)?\b(?:avg_)?batch_cost: @value\b)"},
       .default_unit = "s/iteration"},
      {.name = "espnet",
       .program = "ESPnet",
       .expressions =
           {R"(\b\d+epoch:(?P<label>train|valid):\d+-\d+batch: .*\b(?:train|valid)_time=@value\b)"},
       .default_unit = "s/iteration"},
      {.name = "caffe",
       .program = "Caffe",
       .expressions = {R"(\bIteration @counter \(@value (?P<unit>iter/s), )"}},
      {.name = "darknet",
       .program = "Darknet",
       .expressions = {R"(^\s*@counter: .* avg loss, \S+ rate, @value seconds, )"},
       .default_unit = "s/iteration"},
      {.name = "lines",
       .program = "lines of a loop",
       .expressions = {R"((?i)\b@thing\b\W{0,8}@count\b)", R"((?:^|\s)\[\s*@count/@counter\])",
                       R"((?i)^(?P<label>.*?\b@thing\b\W{0,8}@count\b.*?)\b@value\s*@speed@end)"},
       .free_form = true},
      {.name = "clocks",
       .program = "lines of a loop",
       .expressions =
           {R"((?i)^(?P<label>.*?\b(?:took|time|elapsed|duration|runtime)\b(?: is| was)?\W{0,4}?)@clock\.?@end)"},
       .as_on_clock = true},
      {.name = "rates",
       .program = "lines of a loop",
       .expressions = {R"((?i)@per_second)"},
       .default_unit = "it/s",
       .free_form = true},
  };
  return formats;
}

namespace {

/// An expression with its placeholder words replaced by what they stand for.
std::string spelled_out(std::string_view expression) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"@done", R"((?P<done>\d+(?:,\d{3})*(?:\.\d+)?[kKMGT]?))"},
      {"@total", R"((?P<total>\d+(?:,\d{3})*(?:\.\d+)?[kKMGT]?))"},
      {"@counter", R"(\d+(?:[,_]\d{3})*)"},
      {"@count", R"((?P<count>\d+(?:[,_]\d{3})*))"},
      {"@value", R"((?P<value>\d+(?:[,_]\d{3})*(?:\.\d+)?(?:[eE][-+]?\d+)?|\?))"},
      {"@clock", R"((?P<value>(?:\d{1,6}:)?\d{1,2}:\d\d(?:\.\d{1,9})?))"},
      {"@rate", R"( ?(?P<unit>[^,\]\s/]*/ ?[^,\]\s]+))"},
      {"@thing", R"((?P<of>epoch|step|iter|iteration|batch))"},
      {"@time", R"((?P<unit>ns|us|µs|ms|msec|s|secs?|seconds?|mins?|minutes?|h|hrs?|hours?))"},
      {"@speed", R"((?P<unit>(?:ns|us|µs|ms|s|sec)/(?:epoch|step|it|iter|iteration|batch)|)"
                 R"((?:it|iters?|iterations?|steps?|batch|batches)/s(?:ec)?))"},
      {"@per_second",
       R"(\b(?:(?:global_)?steps?|it|iters?|iterations|updates|batches)(?:_per_|/)s(?:ec(?:ond)?)?\s*[=:])"},
      {"@end", R"((?:$|[\s,;|.)\]]))"}};
  std::string text(expression);
  for (const auto& [word, meaning] : kWords) {
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += meaning.size())
      text.replace(at, word.size(), meaning);
  }
  return text;
}

}  // namespace

/// A compiled expression and the numbers of its groups; 0 for a group that it doesn't have.
struct LogMatcher::Expression {
  enum Group : size_t { kValue, kUnit, kDone, kTotal, kLabel, kHeading, kOf, kCount, kGroups };
  static constexpr std::string_view kNames[kGroups] = {"value", "unit",    "done", "total",
                                                       "label", "heading", "of",   "count"};
  static constexpr size_t kMaxGroups = 12;

  Expression(std::string_view text, size_t format_index)
      : re(spelled_out(text), RE2::Quiet), format(format_index) {
    require(re.ok() && static_cast<size_t>(re.NumberOfCapturingGroups()) < kMaxGroups,
            ErrorCode::kInvalidArgument, "log format", "'{}': {}", text, re.error());
    for (size_t i = 0; i < kGroups; ++i) {
      const auto found = re.NamedCapturingGroups().find(std::string(kNames[i]));
      if (found != re.NamedCapturingGroups().end()) numbers[i] = static_cast<size_t>(found->second);
    }
  }

  std::vector<LogMatch> match(std::string_view line) const;

  RE2 re;
  size_t format;
  std::array<size_t, kGroups> numbers{};
};

/// The expressions to try, in order. One pass over a line finds all that match.
struct LogMatcher::Expressions {
  explicit Expressions(std::string_view format) {
    for (size_t i = 0; i < log_formats().size(); ++i) {
      if (!format.empty() && log_formats()[i].name != format) continue;
      for (const std::string_view text : log_formats()[i].expressions) {
        all.emplace_back(text, i);
        set.Add(spelled_out(text), nullptr);
      }
    }
    if (!all.empty())
      require(set.Compile(), ErrorCode::kInvalidArgument, "log formats", "too large to compile");
  }

  static RE2::Options options() {
    RE2::Options quiet(RE2::Quiet);
    quiet.set_max_mem(kMemory);
    return quiet;
  }

  static constexpr int64_t kMemory = int64_t{64} << 20;  // bytes of RE2's automata
  std::deque<Expression> all;
  RE2::Set set{options(), RE2::UNANCHORED};
};

LogMatcher::LogMatcher(std::string_view format) {
  static const auto all = std::make_shared<const Expressions>("");
  expressions_ = format.empty() ? all : std::make_shared<const Expressions>(format);
  std::vector<std::string_view> names;
  for (const LogFormat& one : log_formats()) names.push_back(one.name);
  require(!expressions_->all.empty(), ErrorCode::kInvalidArgument, "--format",
          "there is no format '{}'; formats are {}", quotation(format), fmt::join(names, ", "));
}

namespace {

/// Sets the counters of a line (epoch, step, batch). What is timed is the last of them, or the epoch if there
/// is no other counter.
void read_counters(LogMatch& match, std::string_view line) {
  constexpr size_t kMax = 3;
  static const RE2 counter(spelled_out(R"((?i)\b@thing\b\W{0,8}(@counter))"));
  re2::StringPiece rest(line.data(), line.size()), thing, digits;
  while (match.counters.size() < kMax && RE2::FindAndConsume(&rest, counter, &thing, &digits)) {
    const bool epoch = in_lower_case({thing.data(), thing.size()}) == "epoch";
    if (match.counters.empty() || !epoch) match.of = std::string(thing);
    (epoch ? match.epoch_counter : match.step_counter) = static_cast<int>(match.counters.size());
    match.counters.push_back(first_number({digits.data(), digits.size()}));
  }
}

/// The last words before a time, without numbers: "saved in" of "6.12 s, model saved in 3.1 s".
std::string_view name_before(std::string_view between) {
  static const RE2 words(R"(((?:[a-zA-Z_]+[ _/-]){0,2}[a-zA-Z_]+)\W*$)");
  re2::StringPiece name;
  if (!RE2::PartialMatch(re2::StringPiece(between.data(), between.size()), words, &name)) return {};
  return {name.data(), name.size()};
}

/// A duration written as on a clock, given the words before it. Nothing if these mean a time of day, an
/// estimate, or a value for several things, such as a mean.
std::optional<WrittenTime> duration_of_clock(std::string_view value, std::string_view label) {
  static const RE2 unlike(
      R"((?i)(?:^|[\W_])(?:eta|remain\w*|left|avg|average|mean|best|min|max|est\w*|limit|timeout|next|total|start\w*|begin\w*|end\w*|finish\w*|stop\w*|current|local|now|date|at)(?:$|[\W_]))");
  const std::string_view name = name_before(label);
  if (RE2::PartialMatch(re2::StringPiece(name.data(), name.size()), unlike)) return std::nullopt;
  // "time: 10:00:03" is a time of day; durations are "0:01:05" or "01:05".
  if (in_lower_case(name) == "time" && value.find(':') == 2 && value.find(':', 3) == 5) return std::nullopt;
  return clock_duration(value);
}

/// The times after the counter in a free-form line, as in "step 3: data 1.2 ms, forward 30 ms", or the rates,
/// if the format has a default unit. Estimates, averages and elapsed times are left out. The label of the
/// first time consists of all words before it; the labels of the others consist of the words before the
/// counter and the last words before the time.
std::vector<LogMatch> times_after(std::string_view counter, std::string_view line, const LogMatch& like) {
  constexpr size_t kMax = 8, kMaxLookedAt = 64;
  static const RE2 with_unit(spelled_out(  // with an optional spread
      R"((?i)(?:^|[^\w.])@value\s*(?:(?:±|\+/?-)\s*[\d.]+\s*)?(?:@time(?:/\w+)?@end|(?-i:[hm])\s*\d))"));
  static const RE2 of_several(
      R"(\d(?:/|–|—|\.\.)$|\d\s+of\s+$)");  // before the last of "100.1/115.0/900.2 ms"
  static const RE2 per_step(R"((?i)^/(?:step|it|iter|iteration|batch|epoch)\b)");
  static const RE2 total(R"(^\s*(?:/|of)\s*\d+)");  // of the counter
  static const RE2 estimate(R"((?i)^\W{0,3}(?:left|remain\w*|to go|eta)\s*(?:$|[,;)|\]]))");  // after a time
  static const RE2 rate(spelled_out(R"((?i)@per_second\s*@value\b)"));
  static const RE2 unlike(  // names of values that aren't the duration of something
      R"((?i)(?:^|[\W_])(?:eta|elapsed|remain\w*|left|avg|average|mean|median|best|min|max|est\w*|limit|timeout|next)(?:$|[\W_]))");
  const LogFormat& format = log_formats()[like.format];
  const std::string_view default_unit = format.default_unit;
  const char* behind = counter.data() + counter.size();  // end of what was read last
  re2::StringPiece rest(behind, static_cast<size_t>(line.data() + line.size() - behind)), value, unit;
  const std::string before_counter =
      words_of({line.data(), static_cast<size_t>(counter.data() - line.data())});
  std::vector<LogMatch> matches;
  std::string_view several;  // a time that was skipped because it is one of several
  const auto find = [&] {
    return default_unit.empty() ? RE2::FindAndConsume(&rest, with_unit, &value, &unit)
                                : RE2::FindAndConsume(&rest, rate, &value);
  };
  for (size_t looked_at = 0; matches.size() < kMax && looked_at < kMaxLookedAt && find(); ++looked_at) {
    const std::string_view number(value.data(), value.size());
    const bool first = matches.empty();
    const auto time = written_time(line, number, first ? counter : std::string_view(), format);
    if (!time) continue;
    const std::string_view between(behind, static_cast<size_t>(number.data() - behind));
    behind = std::max(time->text.data() + time->text.size(), number.data() + number.size());
    if (!unit.empty()) behind = std::max(behind, unit.data() + unit.size());
    rest = {behind, static_cast<size_t>(line.data() + line.size() - behind)};
    const std::string_view name = name_before(between);
    if (RE2::PartialMatch(re2::StringPiece(name.data(), name.size()), unlike)) continue;
    if (time->refusal.empty() && RE2::PartialMatch(rest, estimate)) continue;
    re2::StringPiece before(between.data(), between.size());
    RE2::Consume(&before, total);
    if (RE2::PartialMatch(before, of_several)) {
      several = number;
      continue;
    }
    if (!first && (!time->refusal.empty() || name.empty())) continue;
    LogMatch match = like;
    const std::string words = words_of(name);
    match.label = first ? words_of({line.data(), static_cast<size_t>(number.data() - line.data())})
                  : words.starts_with(before_counter) ? words
                                                      : before_counter + " " + words;
    match.refusal = time->refusal;
    read_value(match, *time, unit.empty() ? default_unit : std::string_view(unit.data(), unit.size()), false);
    match.per_step = match.per_step || RE2::PartialMatch(rest, per_step);
    matches.push_back(std::move(match));
  }
  if (matches.empty() && !several.empty()) {
    matches.push_back(like);
    matches.back().refusal =
        fmt::format("'{}' is the last of several times, and which is meant isn't known; give a --pattern",
                    quotation(several, 40));
  }
  return matches;
}

}  // namespace

std::vector<LogMatch> LogMatcher::match(std::string_view line) const {
  std::vector<int> matching;
  RE2::Set::ErrorInfo error{};
  if (!expressions_->set.Match(re2::StringPiece(line.data(), line.size()), &matching, &error)) {
    if (error.kind == RE2::Set::kNoError) return {};
    matching.resize(expressions_->all.size());  // not enough memory to match all at once: try each
    std::iota(matching.begin(), matching.end(), 0);
  }
  std::ranges::sort(matching);
  for (const int i : matching) {
    std::vector<LogMatch> matches = expressions_->all[static_cast<size_t>(i)].match(line);
    if (!matches.empty()) return matches;
  }
  return {};
}

/// The times of a line that this expression matches.
std::vector<LogMatch> LogMatcher::Expression::match(std::string_view line) const {
  std::array<re2::StringPiece, kMaxGroups> pieces;
  const re2::StringPiece whole(line.data(), line.size());
  if (!re.Match(whole, 0, line.size(), RE2::UNANCHORED, pieces.data(), re.NumberOfCapturingGroups() + 1))
    return {};
  const auto text = [&](Group group) -> std::string_view {
    const size_t number = numbers[group];
    return number == 0 ? std::string_view() : std::string_view(pieces[number].data(), pieces[number].size());
  };
  LogMatch match{.format = format};
  match.heading = !text(kHeading).empty();
  const std::string_view label = text(match.heading ? kHeading : kLabel);
  match.label = words_of(label);
  match.number = first_number(label);
  if (match.heading) return {match};
  match.of = text(kOf);
  match.done = count_of(text(kDone));
  match.total = count_of(text(kTotal));
  const LogFormat& known = log_formats()[format];
  if (known.free_form) read_counters(match, line);
  if (numbers[kValue] == 0) {
    if (!known.default_unit.empty()) return times_after(line.substr(0, 0), line, match);
    std::vector<LogMatch> matches;
    // "step 5,123 ms" may be step 5 and 123 ms.
    constexpr int kMaxReadings = 4;
    std::string_view count = text(kCount);
    for (int reading = 0; reading < kMaxReadings && matches.empty() && !count.empty(); ++reading) {
      matches = times_after(count, line, match);
      const size_t separator = count.find_last_of(",_");
      count = count.substr(0, separator == std::string_view::npos ? 0 : separator);
    }
    return matches;
  }
  const auto time = known.as_on_clock ? duration_of_clock(text(kValue), label)
                                      : written_time(line, text(kValue), text(kCount), known);
  if (!time) return {};
  match.refusal = time->refusal;
  const std::string_view unit = text(kUnit);
  const bool scaled = is_scaled(text(kDone)) || is_scaled(text(kTotal)) || is_scaled_unit(unit);
  read_value(match, *time, unit.empty() ? known.default_unit : unit, scaled);
  return {match};
}

}  // namespace isochron::apps
