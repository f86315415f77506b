// The phases of a log (training, evaluation, a bar of 32 steps) and the times of each, gathered from its
// lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "isochron/apps/analyze/logs/log_formats.h"
#include "isochron/apps/analyze/times/time_units.h"

namespace isochron::apps {

/// A phase of a log. A bar's updates belong to it when its label has the same words, and it has as many steps
/// as the phase's first bar, give or take a tenth. Lines in free form whose words differ are one phase if
/// together they count the same epochs or steps ("epoch 3 took", "epoch 4 (new best) took"), each once and in
/// order, and usually take less than twice as long as each other.
struct LogPhase {
  std::string name = {};
  size_t format = 0;            // of log_formats()
  std::string of = {};          // what a value is the time of: "step", "1000 tok"
  std::vector<double> ns = {};  // the values to judge
  bool one_a_bar = false;       // each value is the mean of a whole bar; else of an update or a line
  double bar_steps = 0;         // of a bar; 0: there are no bars
  size_t bars = 0;              // that show a time
  double steps = 0;             // of all bars, or the number of lines
  double total_ns = 0;          // what its steps took, together
  double resolution_ns = 0;     // of a value as it is written
  double steps_between = 0;     // its lines, if their times are of a step each
  int64_t without_time = 0;     // updates with a time of 0, or with none after the bar began
  int64_t runs_again = 0;       // how often the epochs are counted anew
  int64_t again_line = 0;       // and where first
};

/// Gathers the updates of a log.
class LogPhases {
 public:
  static constexpr size_t kMostPhases = 64;  // updates of further phases are counted, not kept

  explicit LogPhases(size_t most_times) : most_times_(most_times) {}

  /// `line`: of the file. Throws kBadFormat for more than `most_times` times.
  void add(const LogMatch& match, int64_t line, const std::string& where);
  /// The phases with a time, in the order in which they began. A phase has one value per bar in two cases:
  /// its format's bars end with their mean and there are five bars or more, or each update is a mean since
  /// the bar began. Otherwise it has one value per update, without the mean at a bar's end.
  std::vector<LogPhase> phases() const;
  /// Updates of phases beyond kMostPhases.
  int64_t left_out() const { return left_out_; }

 private:
  /// Where a line is in the log, and what it counts.
  struct Place {
    int64_t line = 0;
    std::vector<int64_t> counters = {};
    int64_t epoch = -1, step = -1;
  };
  struct Bar {
    size_t last = 0;  // its latest in `ns`
    double steps = 0;
  };
  struct Gathered {
    size_t format = 0;
    std::string label = {}, of = {};
    double total = -1;               // steps of its first bar
    std::vector<double> ns = {};     // one per update
    std::vector<Place> places = {};  // of lines in free form: one per value
    LastDigits last_digits = {};     // of the updates' times
    int64_t without_time = 0;
    std::vector<Bar> bars = {};     // those that show a time
    bool starts = true;             // the next time is the first of a bar
    bool shows_starts = false;      // bars are shown before their first step, too
    bool shows_parts = false;       // and before their end
    bool numbers_differ = false;    // of their labels
    bool per_step = false;          // the times of lines are of a step each
    double done = -1;               // of the present bar
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

/// The index of the phase that took most of the time, as far as the lines tell. If every step of that phase
/// contains a whole bar of another phase, or its times are the running total of another one's, the index of
/// the other one. Phases whose times look elapsed, or are all the same, are the last to be taken, and so are
/// those of fewer than five values. `phases` isn't empty.
size_t main_phase(const std::vector<LogPhase>& phases);

}  // namespace isochron::apps
