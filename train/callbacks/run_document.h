// The document of a run's checkpoint: everything that Trainer::fit needs to continue as if it had never
// ended, except the variables and the blobs, which hold what may be large (the dataset's state, the
// recorder's baseline, the history). JSON, one object.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/train/callbacks/results.h"

namespace isochron::train {

/// The names of a run's blobs: Dataset::state(), observe::Recorder::baseline(), and the text of the history.
inline constexpr const char* kDataBlob = "data";
inline constexpr const char* kBaselineBlob = "baseline";
inline constexpr const char* kHistoryBlob = "history";

struct RunDocument {
  struct CallbackState {
    std::string kind;
    std::string state;
  };

  bool weights_only = false;  // then the document has only information for people: position and results
  int epoch = 0;              // the present one, from 1
  int64_t step = 0;           // steps done in it
  int64_t total_steps = 0;
  bool epoch_done = false;                      // with its validation
  double epoch_seconds = 0;                     // of the steps done in it
  std::string stop_reason;                      // of a run that has ended
  Results results;                              // of the epoch so far
  std::array<int64_t, 2> random{};              // the default generator's seed and step
  std::map<std::string, std::string> settings;  // FitOptions::settings
  bool deterministic = false;                   // kernels chosen by rule
  std::map<std::string, std::string> choices;   // ops::recorded_choices()
  std::vector<CallbackState> callbacks;         // in fit's order
  /// How many callbacks had been asked to save at this point when this document was written. A resumed run
  /// asks the others, whose files would otherwise be missing for good.
  int64_t asked = 0;

  std::string str() const;
  /// Throws kBadFormat, naming `where` and the entry, for anything but a document.
  static RunDocument parse(const std::string& text, const std::string& where);
};

/// Appends a record to the text of a history, which has one line of JSON per record.
void append_history(std::string& text, const EpochRecord& record);
/// The records of such a text. Throws kBadFormat naming `where` and the line for anything else.
std::vector<EpochRecord> parse_history(std::string_view text, const std::string& where);

}  // namespace isochron::train
