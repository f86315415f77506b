// The history of a fit, and its text for checkpoints, which grows with it.
#pragma once

#include <string>

#include "isochron/train/callbacks/results.h"

namespace isochron::train {

class HistoryLog {
 public:
  /// `epochs`: the number of records to come; memory for them is allocated with the first.
  explicit HistoryLog(int epochs) : epochs_(epochs) {}

  void add(const EpochRecord& record);
  /// The text of all records (append_history).
  const std::string& text() const { return text_; }
  History take() { return std::move(history_); }

 private:
  int epochs_;
  History history_;
  std::string text_;
};

}  // namespace isochron::train
