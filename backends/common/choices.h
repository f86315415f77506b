// Kernel autotuning (like cuDNN's benchmark mode and Inductor's max-autotune): chooses among several
// implementations of a call. A choice is made once per call, by timing or by rule, and recorded. Equal calls
// then run the same kernel, and a checkpoint carries the record, so a resumed run makes the same choices.
// Timed choices are also kept on disk for the next process (backends/common/choices_file.h). If other
// programs disturbed every timing of a candidate, the choice counts as doubtful, and the next process times
// it once more.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace isochron::ops {

/// If on, the first candidate that supports a call is always chosen: nothing is timed, and recorded choices
/// that were made by timing aren't used. Applies to the whole process, for calls prepared afterwards.
void set_deterministic(bool on);
bool deterministic();
/// Turns deterministic choice on for the lifetime of the object.
class Deterministic {
 public:
  Deterministic() { set_deterministic(true); }
  ~Deterministic() { set_deterministic(before_); }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;

 private:
  const bool before_ = deterministic();
};

/// Returns the index in `names` of the candidate for the call described by `call` (op, shapes, threads): the
/// recorded one if it supports the call on this machine, otherwise the one on disk, otherwise the fastest.
/// `prepare(i)` makes candidate i ready and returns a function that runs it once, or an empty function if i
/// doesn't support the call. `before_timing` is called once before the first run if there are several
/// candidates to time. `names` lists preferred candidates first; they are also timed first. A candidate that
/// is much slower runs only once, the others run until two of their times agree. Returns `names.size()` if no
/// candidate supports the call. The disk is read at the first call. A file that can't be used is reported as
/// an event kNotice and replaced at the next save.
size_t choose(const std::string& call, std::span<const std::string_view> names,
              const std::function<std::function<void()>(size_t)>& prepare,
              const std::function<void()>& before_timing = {});

/// The recorded choices, as a map from calls to candidate names: those that were timed, read from disk or
/// restored. At most kMaxRecordedChoices.
std::map<std::string, std::string> recorded_choices();
/// Adds choices to the record and replaces those for the same calls. They aren't written to disk.
void restore_choices(const std::map<std::string, std::string>& choices);
/// Empties the record, as in a new process; the next choice reads the disk again.
void forget_choices();

/// Writes the choices timed since the last save to disk, and keeps the choices that other processes wrote
/// there. If there are more than kMaxRecordedChoices, choices that this process didn't use are dropped.
/// Called automatically after a function has been captured and when the process ends, never during a replay.
/// Does nothing if nothing is new or the disk is switched off. If writing fails, it isn't tried again.
void save_choices();

inline constexpr size_t kMaxRecordedChoices = 4096;

}  // namespace isochron::ops
