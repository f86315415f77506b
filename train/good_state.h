// GoodState: the last state of a run that was known to hold only finite numbers, kept in memory, so that
// where a NaN came from can be found by going back and running the steps since then once more, every result
// looked through.
#pragma once

#include <string>
#include <vector>

#include "isochron/train/checkpoint.h"

namespace isochron::train {

/// Contents of variables, in memory held since the construction, and the default generator's state.
class KeptVariables {
 public:
  /// Throws kOutOfMemory.
  explicit KeptVariables(const NamedVariables& variables);
  void keep();
  void restore() const;
  size_t size_bytes() const { return memory_->size_bytes(); }

 private:
  std::vector<Variable> variables_;
  std::vector<size_t> offsets_;
  Ref<Storage> memory_;
  Tensor random_;  // i64(2)
};

/// Keeping costs one pass that looks for numbers that aren't finite and one that copies; `due` spaces it so
/// that this takes at most 1/kSpacing of the time.
class GoodState {
 public:
  static constexpr int64_t kSpacing = 200;

  explicit GoodState(const NamedVariables& variables);

  /// Whether another look is worth its cost now.
  bool due() const;
  /// What became NaN or infinite since the last time, as text for people; empty, and all is kept, when
  /// nothing did. Numbers that weren't finite at the first time don't count.
  std::string look(int64_t total_steps, const std::string& data);
  bool kept() const { return kept_; }
  int64_t total_steps() const { return total_steps_; }
  const std::string& data() const { return data_; }
  void restore() const { content_.restore(); }

 private:
  const NamedVariables& variables_;
  std::vector<char> was_finite_;  // and shall stay so
  KeptVariables content_;
  bool kept_ = false;
  int64_t total_steps_ = 0;
  std::string data_;  // Dataset::state() then; empty before the first batch
  int64_t due_ns_ = 0;
};

}  // namespace isochron::train
