// The results of training and evaluation: named numbers, and the numbers of every epoch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isochron::train {

/// A few named numbers in a fixed order: {"loss", 0.12}, {"accuracy", 0.96}, {"val_loss", 0.15}.
class Results {
 public:
  using Entry = std::pair<std::string, double>;

  Results() = default;
  Results(std::initializer_list<Entry> entries) : entries_(entries) {}

  /// Throws kInvalidArgument listing the names.
  double operator[](std::string_view name) const;
  /// Null if there is none of that name.
  const double* find(std::string_view name) const;
  /// Replaces the number of that name, or appends it.
  void set(std::string_view name, double value);
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  /// "loss 0.1234  accuracy 0.9561  skipped_steps 12345".
  std::string str() const;

 private:
  std::vector<Entry> entries_;
};

struct EpochRecord {
  int epoch = 0;  // from 1
  int64_t steps = 0;
  double seconds = 0;      // of its steps, without validation and callbacks of the epoch's end
  double step_p50_ns = 0;  // median over its steps, waiting for data included
  Results results;
};

/// The newest epochs of a run.
struct History {
  static constexpr size_t kMaxEpochs = 2'000;

  int64_t dropped_epochs = 0;  // older ones, beyond kMaxEpochs
  std::string stopped;         // why training ended before the last epoch; empty when it did not
  int interrupted_by = 0;      // the signal that interrupted the training; 0: none

  /// Oldest first.
  std::span<const EpochRecord> epochs() const { return std::span(made_).first(size_); }
  /// The results of the newest epoch. Throws kInvalidArgument when there is none.
  const Results& last() const;
  /// One number per epoch, oldest first; epochs without it are left out. Throws kInvalidArgument if no epoch
  /// has it.
  std::vector<double> values(std::string_view name) const;
  /// A header and one row per epoch: epoch, steps, seconds, step_p50_ns, then every name; a number that an
  /// epoch lacks is empty.
  std::string csv() const;

  /// The first `add` allocates memory for this number of records of the same size; adding such records then
  /// allocates nothing.
  void reserve(size_t epochs) { reserved_ = epochs; }
  void add(const EpochRecord& record);

 private:
  std::vector<EpochRecord> made_;  // the first `size_` of them are records, the others room for more
  size_t size_ = 0;
  size_t reserved_ = 0;
};

}  // namespace isochron::train
