// The two ways to shuffle: through a buffer, and by a permutation of the whole epoch.
#pragma once

#include <optional>
#include <vector>

#include "isochron/data/element/pipeline_memory.h"
#include "isochron/data/pipeline/permutation.h"
#include "isochron/data/pipeline/sampling_order.h"

namespace isochron::data {

/// A stage over another order. Its position is that of its input, unless a subclass adds to it.
class OrderOver : public SamplingOrder {
 public:
  explicit OrderOver(std::unique_ptr<SamplingOrder> input) : input_(std::move(input)) {}
  void restart(uint64_t epoch) override { input_->restart(epoch); }
  void drop(const int64_t* indices, int64_t rows) override { input_->drop(indices, rows); }
  void save(StateWriter& state) const override { input_->save(state); }
  void restore(StateReader& state, uint64_t epoch) override { input_->restore(state, epoch); }
  void save_indices(StateWriter& state, const int64_t* indices, int64_t rows) const override {
    input_->save_indices(state, indices, rows);
  }
  void restore_indices(StateReader& state, int64_t* indices, int64_t rows) override {
    input_->restore_indices(state, indices, rows);
  }

 protected:
  std::unique_ptr<SamplingOrder> input_;
};

/// `stage` with the seed that it has in this thread's branch.
OrderStage in_this_branch(OrderStage stage);
/// The Philox stream that selects a shuffle's order in an epoch.
uint64_t shuffle_stream(const OrderStage& stage, uint64_t epoch);

/// Random numbers with random access.
class Draws {
 public:
  Draws() = default;
  Draws(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}
  /// The number at `place`, in [0, bound); its distribution differs from uniform by less than bound / 2^64.
  uint64_t below(uint64_t place, uint64_t bound);

 private:
  uint64_t seed_ = 0, stream_ = 0;
  uint64_t block_number_ = ~uint64_t{0};
  PhiloxBlock block_{};
};

/// Each element is drawn from a buffer of upcoming elements. Draw t removes an element and puts the t-th
/// input element after the initial fill in its place. The buffer's content after t draws can thus be computed
/// from t.
class ShuffledOrder final : public OrderOver {
 public:
  ShuffledOrder(std::unique_ptr<SamplingOrder> input, const OrderStage& stage);
  void restart(uint64_t epoch) override;
  int64_t next(int64_t* indices) override;
  void seek(uint64_t epoch, int64_t position) override;
  void save(StateWriter& state) const override;
  void restore(StateReader& state, uint64_t epoch) override;

 private:
  int64_t* indices_at(size_t index) { return order_.data() + index * static_cast<size_t>(stage_.rows); }
  const int64_t* indices_at(size_t index) const {
    return order_.data() + index * static_cast<size_t>(stage_.rows);
  }
  void begin(uint64_t epoch);
  void fill();
  void fill_gap(size_t place);
  void grow(size_t places);
  std::vector<int64_t> held_after(int64_t draws);

  static constexpr size_t kFirstPlaces = 1024;

  OrderStage stage_;
  size_t capacity_;
  Draws draws_;
  MemoryCharge charge_;           // for `order_` and `lengths_`
  uint64_t drawn_ = 0;            // in this epoch
  std::vector<int64_t> order_;    // (buffer, rows of a full element)
  std::vector<int64_t> lengths_;  // rows in each
  size_t filled_ = 0;  // below the buffer's size before the first draw, and once the input has ended
};

/// The whole epoch in the order of a Permutation, in constant memory. Over rows only.
class PermutedOrder final : public OrderOver {
 public:
  PermutedOrder(std::unique_ptr<SamplingOrder> input, const OrderStage& stage)
      : OrderOver(std::move(input)), stage_(in_this_branch(stage)) {}
  void restart(uint64_t epoch) override { seek(epoch, 0); }
  int64_t next(int64_t* indices) override;
  void seek(uint64_t epoch, int64_t position) override;
  void save(StateWriter& state) const override { state.put(position_); }
  void restore(StateReader& state, uint64_t epoch) override {
    seek(epoch, state.get_between(0, stage_.input_size, "a place in a permutation"));
  }

 private:
  OrderStage stage_;
  Permutation order_;
  std::optional<uint64_t> epoch_;  // of `order_`
  int64_t position_ = 0;
};

}  // namespace isochron::data
