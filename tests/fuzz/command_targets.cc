// What the command reads of other programs' files, and what it prints of any.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "fuzz/memory_file.h"
#include "fuzz/targets.h"
#include "isochron/apps/analyze/read_times.h"
#include "isochron/core/base/error.h"
#include "isochron/core/text/terminal_text.h"

namespace isochron::fuzz {
namespace {

/// A wrong pattern or column is input here as well.
void read_times(const apps::TimesOptions& options) {
  try {
    const apps::IterationTimes times = apps::read_times(options);
    demand(!times.series.empty(), "times: no series");
    for (const apps::TimeSeries& series : times.series) {
      demand(!series.ns.empty(), "times: none");
      for (const double ns : series.ns) demand(ns > 0 && std::isfinite(ns), "times: one that is none");
    }
  } catch (const Error& error) {
    demand(std::string_view(error.what()).size() < 2000, "times: a message that quotes all of its input");
    if (error.code() == ErrorCode::kInvalidArgument) fail(ErrorCode::kBadFormat, "times", "{}", error.what());
    throw;
  }
}

/// Input: the format's name, or nothing, up to the first newline; then the log.
void parse_analyze_known_log(Input input) {
  const std::string_view text = text_of(input);
  const size_t end = std::min(text.find('\n'), text.size());
  read_times({.path = file_of(input.subspan(std::min(end + 1, input.size()))),
              .format = std::string(text.substr(0, end)),
              .elapsed = false,
              .most_times = 10'000});
}

/// Input: the pattern up to the first newline; then the log.
void parse_analyze_log(Input input) {
  const std::string_view text = text_of(input);
  const size_t end = std::min(text.find('\n'), text.size());
  std::string pattern(text.substr(0, end));
  if (pattern.empty()) pattern = "()";
  const bool names_unit = std::ranges::count(pattern, '(') > 1;
  read_times({.path = file_of(input.subspan(std::min(end + 1, input.size()))),
              .pattern = pattern,
              .unit = names_unit ? "" : "us",
              .elapsed = false});
}

/// Input: up to the first newline, the names or numbers of the columns, separated by blanks: time, work,
/// rank, phase; then the table, or JSON Lines. If there is a work column, gaps are allowed; if there is a
/// rank but no work, the times are elapsed ones.
void parse_analyze_table(Input input) {
  const std::string_view text = text_of(input);
  const size_t end = std::min(text.find('\n'), text.size());
  const bool numbered = !text.empty() && text[0] >= '0' && text[0] <= '9';
  std::array<std::string, 4> columns;
  std::string_view names = text.substr(0, end);
  for (std::string& column : columns) {
    const size_t blank = std::min(names.find(' '), names.size());
    column = names.substr(0, blank);
    names.remove_prefix(std::min(blank + 1, names.size()));
  }
  read_times({.path = file_of(input.subspan(std::min(end + 1, input.size()))),
              .column = columns[0],
              .work = columns[1],
              .rank = columns[2],
              .phase_column = columns[3],
              .unit = numbered ? "us" : "",
              .elapsed = columns[1].empty() && !columns[2].empty(),
              .allow_gaps = !columns[1].empty(),
              .most_times = 10'000});
}

/// Whether a terminal shows all of it and acts on nothing: no controls, and UTF-8 as far as bytes tell.
bool is_harmless(std::string_view text) {
  int expected = 0;
  unsigned char before = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) return false;
    const bool continues = (byte & 0xc0) == 0x80;
    if (continues != (expected > 0)) return false;
    if (continues && before == 0xc2 && byte < 0xa0) return false;  // C1
    expected = continues ? expected - 1 : byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : byte >= 0xc0 ? 1 : 0;
    before = byte;
  }
  return expected == 0;
}

/// The first byte determines where the text is cut in two.
void parse_terminal_text(Input input) {
  if (input.empty()) return;
  const std::string_view text = text_of(input.subspan(1));
  const size_t cut = std::min<size_t>(std::to_integer<size_t>(input[0]), text.size());
  const std::string whole = escape_for_terminal(text);
  demand(is_harmless(whole), "terminal text: something is left that a terminal acts on");
  demand(escape_for_terminal(whole) == whole, "terminal text: escaped twice it is another");
  TerminalEscaper escaper;
  std::string pieces;
  const auto append = [&pieces](std::string_view piece) { pieces += piece; };
  escaper.put(text.substr(0, cut), append);
  for (const char c : text.substr(cut)) escaper.put({&c, 1}, append);
  escaper.finish(append);
  demand(pieces == whole, "terminal text: in pieces it is another");
  const std::string quote = quotation(text, 16);
  demand(is_harmless(quote) && quote.find('\n') == std::string::npos && quote.size() < 200,
         "terminal text: a quotation that is none");
}

}  // namespace

std::vector<Target> internal::command_targets() {
  return {{"analyze_known_log", parse_analyze_known_log},
          {"analyze_log", parse_analyze_log},
          {"analyze_table", parse_analyze_table},
          {"terminal_text", parse_terminal_text}};
}

}  // namespace isochron::fuzz
