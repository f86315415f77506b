// Gathers the phases of a log (training, evaluation, a bar of 32 steps) and the times of each phase from the
// log's lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "isochron/apps/analyze/logs/log_formats.h"
#include "isochron/apps/analyze/times/time_units.h"

namespace isochron::apps {

/// A phase of a log. A progress bar belongs to a phase if its label has the same words and its number of
/// steps is that of the phase's first bar, to within a tenth. Free-form lines with different words ("epoch 3
/// took", "epoch 4 (new best) took") form one phase if together they count epochs or steps, each once and in
/// order, and if their usual times differ by less than a factor of two.
struct LogPhase {
  std::string name = {};
  size_t format = 0;            // of log_formats()
  std::string of = {};          // what each value times: "step", "1000 tok"
  std::vector<double> ns = {};  // the values to judge
  bool one_a_bar = false;       // each value is the mean of a whole bar; else that of an update or line
  double bar_steps = 0;         // steps of a bar; 0: there are no bars
  size_t bars = 0;              // that show a time
  double steps = 0;             // steps of all bars, or number of lines
  double total_ns = 0;          // total time of its steps
  double resolution_ns = 0;     // rounding of the written values
  double steps_between = 0;     // steps from line to line, if times are per step
  int64_t without_time = 0;     // updates with a time of 0, or with none after the bar began
  int64_t runs_again = 0;       // how often the epoch count restarts
  int64_t again_line = 0;       // line of the first restart
};

/// Gathers the updates of a log.
class LogPhases {
 public:
  static constexpr size_t kMaxPhases = 64;  // updates of further phases are counted, not kept

  explicit LogPhases(size_t most_times) : most_times_(most_times) {}

  /// `line` is the line number in the file. Throws kBadFormat for more than `most_times` times.
  void add(const LogMatch& match, int64_t line, const std::string& where);
  /// The phases with a time, in the order in which they began. A phase has one value per bar if its format's
  /// bars end with their mean and there are five bars or more, or if each update is a mean since the bar
  /// began. Otherwise it has one value per update, without the mean at a bar's end.
  std::vector<LogPhase> phases() const;
  /// Updates of phases beyond kMaxPhases.
  int64_t left_out() const { return left_out_; }

 private:
  /// A line's position in the log, and its counters.
  struct Place {
    int64_t line = 0;
    std::vector<int64_t> counters = {};
    int64_t epoch = -1, step = -1;
  };
  struct Bar {
    size_t last = 0;  // index of its latest value in `ns`
    double steps = 0;
  };
  struct Gathered {
    size_t format = 0;
    std::string label = {}, of = {};
    double total = -1;               // steps of its first bar
    std::vector<double> ns = {};     // one per update
    std::vector<Place> places = {};  // for free-form lines, one per value
    LastDigits last_digits = {};     // of the updates' times
    int64_t without_time = 0;
    std::vector<Bar> bars = {};     // bars that show a time
    bool starts = true;             // the next time is the first of a bar
    bool shows_starts = false;      // bars are also shown before their first step
    bool shows_parts = false;       // bars are also shown before their end
    bool numbers_differ = false;    // the numbers in their labels differ
    bool per_step = false;          // the times of lines are per step
    double done = -1;               // steps done in the present bar
    int64_t number = -1, line = 0;  // of the latest update
    int64_t full_line = 0;          // line where the present bar was first full; 0: not yet
  };
  struct Heading {
    std::string label = {};
    int64_t number = 0;  // number of such headings so far
    bool fresh = true;   // no bar below it yet
    double done = 0;     // of the latest
    int64_t line = 0;
  };

  void place_below_heading(LogMatch& match, int64_t line);
  Gathered* phase_of(const LogMatch& match);
  void make_room();
  static bool starts_bar(const Gathered& phase, const LogMatch& match, int64_t line);
  /// Whether a value was added.
  static bool update_bar(Gathered& phase, const LogMatch& match, int64_t line);
  static bool comes_first(const Gathered& one, size_t i, const Gathered& other, size_t j);
  static bool count_together(const Gathered& one, const Gathered& other);
  static Gathered merged(const Gathered& one, const Gathered& other);
  static double steps_between(const Gathered& one);
  static LogPhase finished(const Gathered& gathered);

  size_t most_times_;
  size_t times_ = 0;
  int64_t left_out_ = 0;
  std::vector<Gathered> gathered_;
  std::map<size_t, Heading> headings_;  // by format
};

/// The index of the phase that took most of the time, as far as the lines show. Some phases are chosen only
/// if there are no others: those of which each step contains a whole bar of another phase, those whose times
/// are the running total of another phase, look elapsed or are all the same, and those with fewer than five
/// values. `phases` must not be empty.
size_t main_phase(const std::vector<LogPhase>& phases);

}  // namespace isochron::apps
