// The part of a fit for several ranks that train together (comm/group/group.h), or for micro-batches that
// are summed in a fixed order (optim::StepOptions::exact_sums): which batches belong to this rank, which
// random numbers each batch draws, and what the ranks exchange about one another.
//
// The batches of an epoch are numbered over all ranks. An update takes `group_batches` of them, one after
// another: the first `accumulate` are rank 0's, and so on. At the end of an epoch the last update takes the
// remaining batches, and ranks without a batch contribute zero gradients. So an update, and the random
// numbers drawn for batch number b, don't depend on the number of ranks.
//
// A rank without a batch runs no forward pass. The synchronized norms (nn::BatchNormOptions) of other ranks
// would wait for it forever, so a step with such a norm requires complete updates.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "isochron/data/pipeline/dataset.h"
#include "isochron/graph/step/captured.h"
#include "isochron/optim/optimizer.h"
#include "isochron/train/checkpoints/checkpoint.h"

namespace isochron::train {

class DataParallel {
 public:
  /// Whether a fit with this optimizer (null: none) needs a DataParallel.
  static bool needed(const optim::Optimizer* optimizer);
  /// `steps_per_epoch`: batches per epoch over all ranks, rounded up to complete updates; 0: one pass. Throws
  /// kUnsupported if the number of batches isn't known. Begins with the next epoch of `batches`.
  DataParallel(optim::Optimizer& optimizer, const data::Dataset& batches, int64_t steps_per_epoch);

  /// This rank's batches.
  data::Dataset& dataset() { return dataset_; }
  int ranks() const { return group_.size(); }
  int rank() const { return group_.rank(); }
  comm::Activity& activity() { return group_.activity(); }
  /// The number of batches per epoch of this rank, and (first_steps) of the first rank, which has the most.
  /// When an epoch is over, all ranks use the first rank's count.
  int64_t own_steps() const { return own_steps_; }
  /// Lines about the data and the validation data (null: none) that must be equal on all ranks: the numbers
  /// of batches, because otherwise one rank would wait for another's batch; and the fingerprints of sources
  /// and stages, including seeds, because otherwise the ranks would divide different epochs.
  std::vector<std::string> data_of_all(const data::Dataset* validation) const;
  int64_t first_steps() const { return first_steps_; }
  /// The steps of this rank that belong to updates in which every rank has all its batches: up to this step,
  /// all ranks are at the same step.
  int64_t common_steps() const { return epoch_batches_ / group_batches() * block_; }
  /// Whether this rank has no batch for the last update of an epoch.
  bool lacks_last_update() const;
  /// This rank's part of other data, such as validation data; all of the data if they can't be divided.
  struct Part {
    data::Dataset dataset;
    bool divided = false;
  };
  Part part_of(const data::Dataset& batches) const;

  /// Plans the update without a batch, and inspects the train step `step`, which must be planned already.
  /// Throws kUnsupported if `step` exchanges more than gradients and ranks have different numbers of batches.
  void prepare(const CapturedFunction& step);
  /// The number of collectives of a train step, without the exchange of gradients.
  int64_t step_exchanges() const { return step_exchanges_; }
  /// Compares `settings` (lines of text) with those of rank 0, and takes over rank 0's content of
  /// `variables`. Throws kInvalidArgument naming a rank that differs, and the first line in which it does.
  void agree(const std::vector<std::string>& settings, const NamedVariables& variables);

  /// Throws kInvalidArgument if a trainable variable of `weights` doesn't have the same bits on all ranks,
  /// naming the first such variable and a rank. Allocates nothing if all are equal.
  void compare_weights(const NamedVariables& weights, int epoch);

  /// Returns the first rank that passes true; nullopt if none does. Every rank must call this.
  std::optional<int> first_rank_with(bool yes);

  /// Replaces each of `averages` (floating dtypes) on all ranks by its mean over the ranks, computed in f64
  /// as rank 0's value plus the mean difference from it. Equal values stay the same, bit for bit.
  void merge_averages(std::span<const Variable> averages);

  /// Call this before the first step of a fit, and after restoring a state. The next update draws from the
  /// generator's present state on. `phase`: how many batches of that update are already done.
  void begin_draws(int64_t phase);
  /// Call this before a step on batch number `phase` of this rank's share of an update.
  void before_step(int64_t phase) const;
  /// Call this after the step; `phase` is 0 if the step has updated the parameters.
  void after_step(int64_t phase);
  /// Goes back to the draws of the next step, batch number `phase`, whatever was drawn since the last one.
  void seek_draws(int64_t phase) const;
  /// Takes part in an update for which this rank has no batch.
  void update_without_batch();

  /// Adds to the input time that this rank reports to the others.
  void add_input(int64_t ns) { group_.notes().add_input(ns); }
  comm::Group& group() { return group_; }

  /// `here`: asks all ranks to stop. Returns true once an update has passed such a request to all ranks.
  bool stop_requested(bool here);

  // Checkpoints don't depend on the number of ranks, so that a run can be resumed on any number of them.

  /// Convert the steps of this rank (in the epoch and in total) to batches over all ranks, and back.
  void batches_of(int64_t& step, int64_t& total_steps) const;
  void steps_of(int64_t& step, int64_t& total_steps) const;
  /// Whether `name` is a sum or count that an optimizer keeps in the middle of an update.
  static bool is_sum(std::string_view name);
  /// Removes the sums and counts from `variables` that `checkpoint` doesn't have, and returns them. Throws
  /// kInvalidArgument if the checkpoint was saved in the middle of an update that this run divides
  /// differently.
  std::vector<Variable> take_out_sums(const Checkpoint& checkpoint, NamedVariables& variables) const;

  /// While it lives, a trainer's `tallies` hold the values over all ranks: sums are added up, the first
  /// non-finite batch is the earliest over all ranks, and batches are counted as on the first rank.
  class Merged {
   public:
    /// `label`: as in comm::Collective::describe. `divided`: false if each rank has gone through all of the
    /// data; all ranks then take the first rank's tallies.
    Merged(DataParallel& parallel, const NamedVariables& tallies, const char* label, bool divided = true);
    ~Merged();
    Merged(const Merged&) = delete;
    Merged& operator=(const Merged&) = delete;

   private:
    DataParallel& parallel_;
    const NamedVariables& tallies_;
  };

 private:
  int64_t group_batches() const { return group_.size() * block_; }
  void draw_from(int64_t place) const;

  optim::Optimizer& optimizer_;
  comm::Group& group_;
  int64_t block_;  // batches of a rank in an update
  int64_t data_batches_;
  uint64_t data_fingerprint_;
  int64_t epoch_batches_;
  int64_t own_steps_, first_steps_;
  data::Dataset dataset_;
  CapturedFunction empty_update_;
  int64_t step_exchanges_ = 0;
  int64_t first_draw_ = 0;  // of the present update
  std::vector<double> own_, all_;
  std::vector<uint32_t> from_ranks_;  // one number from each rank
};

}  // namespace isochron::train
