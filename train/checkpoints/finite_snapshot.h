// FiniteWatch: checks which variables of a run are finite, and reports those that no longer are.
// FiniteSnapshot: keeps in memory the last state of a run that was known to be finite. To find where a NaN
// came from, the run goes back to that state, runs the steps since then again, and checks every result.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "isochron/core/base/clock.h"
#include "isochron/train/checkpoints/checkpoint.h"

namespace isochron::train {

/// Watches the variables that held only finite numbers at construction. Construction and every look read all
/// of them.
class FiniteWatch {
 public:
  /// `variables` must outlive it. If there is a variable ".../loss_scale", variables ".../gradient_sum" may
  /// overflow and aren't watched.
  explicit FiniteWatch(const NamedVariables& variables);
  /// A readable text about what became NaN or infinite; empty if nothing did.
  std::string look() const;

 private:
  const NamedVariables& variables_;
  std::vector<char> watched_;
};

/// A copy of variables and of the default generator's state, in memory allocated at construction.
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
class FiniteSnapshot {
 public:
  static constexpr int64_t kSpacing = 200;

  /// `watch` is of the same variables and must outlive it. `clock`: monotonic ns.
  FiniteSnapshot(const NamedVariables& variables, const FiniteWatch& watch, int64_t (*clock)() = now_ns);

  /// Whether another look is worth its cost now.
  bool due() const;
  /// Like FiniteWatch::look; if everything is finite, keeps a new snapshot. `data` returns Dataset::state(),
  /// or an empty string before the first batch.
  std::string look(int64_t total_steps, const std::function<std::string()>& data);
  bool kept() const { return kept_; }
  int64_t total_steps() const { return total_steps_; }
  const std::string& data() const { return data_; }
  void restore() const { content_.restore(); }

 private:
  const FiniteWatch& watch_;
  int64_t (*clock_)();
  KeptVariables content_;
  bool kept_ = false;
  int64_t total_steps_ = 0;
  std::string data_;
  int64_t due_ns_ = 0;
};

}  // namespace isochron::train
