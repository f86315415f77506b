// Which implementation serves a call where several exist. A choice is made once a call, by timing or by rule,
// and recorded: equal calls then run equal code, and a checkpoint can carry the record so that a resumed run
// makes the same choices. What was timed is also kept on disk for the next process
// (backends/common/choices_file.h). Where other programs took the cores away in every run of a candidate, the
// choice is doubtful: the next process times once more and keeps what it finds.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace isochron::ops {

/// On: always the first available candidate, never by timing; recorded choices made by timing are not used.
/// Process-wide; for calls prepared afterwards.
void set_deterministic(bool on);
bool deterministic();
/// On as long as it lives.
class Deterministic {
 public:
  Deterministic() { set_deterministic(true); }
  ~Deterministic() { set_deterministic(before_); }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;

 private:
  const bool before_ = deterministic();
};

/// The candidate of `names` to use for the call described by `call` (op, shapes, threads): the recorded one
/// if it serves the call on this machine, else the one on disk, else the fastest. `prepare(i)` makes
/// candidate i ready and gives a function that runs it once, or an empty one where i doesn't serve this call;
/// `before_timing` is called once before the first run, where there are several to time.
/// Candidates that the rule prefers come first, also in timing: one that is much slower runs once only, the
/// others until two of their runs agree.
/// `names.size()` when none serves. The disk is read at the first call; a file that can't be used is reported
/// as an event kNotice and replaced at the next save.
size_t choose(const std::string& call, std::span<const std::string_view> names,
              const std::function<std::function<void()>(size_t)>& prepare,
              const std::function<void()>& before_timing = {});

/// Call -> name of the candidate, of every choice made by timing, taken from disk or restored. At most
/// kMaxRecordedChoices.
std::map<std::string, std::string> recorded_choices();
/// Adds choices to the record, replacing those of equal calls. They don't go to disk.
void restore_choices(const std::map<std::string, std::string>& choices);
/// Empties the record, as in a new process: the disk is read again.
void forget_choices();

/// Writes what was timed since the last save to disk, beside what other processes wrote there; beyond
/// kMaxRecordedChoices, choices that this process didn't use go. It happens by itself after a function was
/// captured and when the process ends, never in a replay. Without effect when nothing is new or the disk is
/// switched off; where it can't be written it isn't tried again.
void save_choices();

inline constexpr size_t kMaxRecordedChoices = 4096;

}  // namespace isochron::ops
