#include "isochron/data/pipeline/sampling_order.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "isochron/core/base/checked.h"
#include "isochron/data/element/interrupt.h"
#include "isochron/data/pipeline/sharding.h"
#include "isochron/data/pipeline/shuffle_order.h"

namespace isochron::data {
namespace {

[[noreturn]] void not_over_rows() {
  fail(ErrorCode::kUnsupported, "dataset", "a stream can't seek; only datasets over rows have random access");
}

/// The rows of a source, one after the other.
class RowOrder final : public SamplingOrder {
 public:
  explicit RowOrder(int64_t rows) : rows_(rows) {}
  void restart(uint64_t) override { row_ = 0; }
  int64_t next(int64_t* indices) override {
    if (row_ == rows_) return 0;
    *indices = row_++;
    return 1;
  }
  void drop(const int64_t*, int64_t) override {}
  void seek(uint64_t, int64_t position) override { row_ = std::clamp<int64_t>(position, 0, rows_); }
  void save(StateWriter& state) const override { state.put(row_); }
  void restore(StateReader& state, uint64_t) override { row_ = state.get_between(0, rows_, "a row"); }
  void save_indices(StateWriter& state, const int64_t* indices, int64_t rows) const override {
    for (int64_t i = 0; i < rows; ++i) state.put(indices[i]);
  }
  void restore_indices(StateReader& state, int64_t* indices, int64_t rows) override {
    for (int64_t i = 0; i < rows; ++i) indices[i] = state.get_between(kNoRow, rows_ - 1, "a row");
  }

 private:
  int64_t rows_, row_ = 0;
};

constexpr int64_t kMaxRows = int64_t{1} << 40;  // limit for rows of a stream, and passes, in a state

/// The buffers of a stream, one after the other.
class StreamOrder final : public SamplingOrder {
 public:
  StreamOrder(const StreamSource& source, ElementSlots& slots) : stream_(source.open()), slots_(slots) {}
  void restart(uint64_t epoch) override {
    stream_->restart(epoch);
    row_ = 0;
  }
  int64_t next(int64_t* indices) override {
    throw_if_interrupted();
    *indices = slots_.take();
    bool more = false;
    try {
      more = stream_->next(slots_.at(*indices).buffer);
    } catch (...) {
      slots_.give_back({indices, 1});
      throw;
    }
    if (!more) {
      slots_.give_back({indices, 1});
      return 0;
    }
    slots_.at(*indices).row = row_++;
    return 1;
  }
  void drop(const int64_t* indices, int64_t rows) override {
    slots_.give_back({indices, static_cast<size_t>(rows)});
  }
  void seek(uint64_t, int64_t) override { not_over_rows(); }
  void save(StateWriter& state) const override {
    state.put(row_);
    stream_->save(state);
  }
  void restore(StateReader& state, uint64_t) override {
    row_ = state.get_between(0, kMaxRows, "a row");
    stream_->restore(state);
  }
  void save_indices(StateWriter& state, const int64_t* indices, int64_t rows) const override {
    for (int64_t i = 0; i < rows; ++i) {
      state.put(indices[i] == kNoRow ? kNoRow : slots_.at(indices[i]).row);
      if (indices[i] == kNoRow) continue;
      slots_.at(indices[i]).buffer.save(state);
    }
  }
  void restore_indices(StateReader& state, int64_t* indices, int64_t rows) override {
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = state.get_between(kNoRow, kMaxRows, "a row");
      indices[i] = row == kNoRow ? kNoRow : slots_.take();
      if (row == kNoRow) continue;
      slots_.at(indices[i]).row = row;
      slots_.at(indices[i]).buffer.restore(state);
    }
  }

 private:
  std::unique_ptr<ElementStream> stream_;
  ElementSlots& slots_;
  int64_t row_ = 0;
};

class BatchedOrder final : public OrderOver {
 public:
  BatchedOrder(std::unique_ptr<SamplingOrder> input, const OrderStage& stage)
      : OrderOver(std::move(input)), stage_(stage) {}
  void restart(uint64_t epoch) override {
    drop_begun();
    input_->restart(epoch);
  }
  int64_t next(int64_t* indices) override {
    auto rows = static_cast<int64_t>(begun_.size());
    std::ranges::copy(begun_, indices);
    begun_.clear();
    for (int64_t elems = std::exchange(begun_elems_, 0); elems < stage_.elems; ++elems) {
      const int64_t more = next_or_leave(indices, rows, elems);
      if (more == 0) {
        if (rows > 0 && stage_.pad_remainder) {
          const int64_t full = stage_.elems * stage_.rows;
          std::fill(indices + rows, indices + full, kNoRow);
          return full;
        }
        if (!stage_.drop_remainder) return rows;
        input_->drop(indices, rows);
        return 0;
      }
      rows += more;
    }
    return rows;
  }
  void seek(uint64_t epoch, int64_t position) override {
    drop_begun();
    const int64_t at = checked_mul(position, stage_.elems, "dataset");
    input_->seek(epoch, stage_.input_size == kInfinite ? at : std::min(at, stage_.input_size));
  }

  void save(StateWriter& state) const override {
    state.put(begun_elems_);
    state.put(static_cast<uint64_t>(begun_.size()));
    input_->save_indices(state, begun_.data(), static_cast<int64_t>(begun_.size()));
    input_->save(state);
  }
  void restore(StateReader& state, uint64_t epoch) override {
    drop_begun();
    const int64_t elems = state.get_between(0, stage_.elems - 1, "the elements of a batch");
    const int64_t rows = state.get_between(elems, elems * stage_.rows, "the rows of a batch");
    std::vector<int64_t> begun(static_cast<size_t>(rows));
    input_->restore_indices(state, begun.data(), rows);
    begun_ = std::move(begun);
    begun_elems_ = elems;
    input_->restore(state, epoch);
  }

 private:
  int64_t next_or_leave(int64_t* indices, int64_t rows, int64_t elems) {
    try {
      return input_->next(indices + rows);
    } catch (const Interrupted&) {
      begun_.assign(indices, indices + rows);
      begun_elems_ = elems;
      throw;
    } catch (...) {
      input_->drop(indices, rows);
      throw;
    }
  }
  void drop_begun() {
    input_->drop(begun_.data(), static_cast<int64_t>(begun_.size()));
    begun_.clear();
    begun_elems_ = 0;
  }

  OrderStage stage_;
  std::vector<int64_t> begun_;  // indices of a batch whose draw was interrupted
  int64_t begun_elems_ = 0;     // elements in it
};

class RepeatedOrder final : public OrderOver {
 public:
  RepeatedOrder(std::unique_ptr<SamplingOrder> input, const OrderStage& stage)
      : OrderOver(std::move(input)), stage_(stage) {}
  void restart(uint64_t epoch) override {
    go_to_pass(epoch, 0);
    input_->restart(epoch_of_pass());
  }
  int64_t next(int64_t* indices) override {
    if (stage_.input_size == 0) return 0;
    int64_t rows = input_->next(indices);
    // An endless repeat of nothing would never return, so it ends after a pass without elements.
    while (rows == 0 && (stage_.elems == kInfinite ? !pass_empty_ : pass_ + 1 < stage_.elems)) {
      ++pass_;
      pass_empty_ = true;
      input_->restart(epoch_of_pass());
      rows = input_->next(indices);
    }
    if (rows > 0) pass_empty_ = false;
    return rows;
  }
  void seek(uint64_t epoch, int64_t position) override {
    int64_t pass = stage_.input_size <= 0 ? 0 : position / stage_.input_size;
    if (stage_.elems != kInfinite) pass = std::min(pass, stage_.elems - 1);
    go_to_pass(epoch, pass);
    const int64_t passed = stage_.input_size <= 0 ? 0 : pass * stage_.input_size;
    input_->seek(epoch_of_pass(), position - passed);
  }
  void save(StateWriter& state) const override {
    state.put(pass_);
    state.put(static_cast<uint64_t>(pass_empty_));
    input_->save(state);
  }
  void restore(StateReader& state, uint64_t epoch) override {
    go_to_pass(epoch,
               state.get_between(0, stage_.elems == kInfinite ? kMaxRows : stage_.elems - 1, "a pass"));
    pass_empty_ = state.get_between(0, 1, "0 or 1") == 1;
    input_->restore(state, epoch_of_pass());
  }

 private:
  void go_to_pass(uint64_t epoch, int64_t pass) {
    epoch_ = epoch;
    pass_ = pass;
    pass_empty_ = true;
  }
  uint64_t epoch_of_pass() const { return data::epoch_of_pass(stage_, epoch_, pass_); }

  OrderStage stage_;
  int64_t pass_ = 0;
  uint64_t epoch_ = 0;
  bool pass_empty_ = true;
};

class TruncatedOrder final : public OrderOver {
 public:
  TruncatedOrder(std::unique_ptr<SamplingOrder> input, int64_t elems)
      : OrderOver(std::move(input)), elems_(elems) {}
  void restart(uint64_t epoch) override {
    input_->restart(epoch);
    left_ = elems_;
  }
  int64_t next(int64_t* indices) override {
    if (left_ <= 0) return 0;
    const int64_t rows = input_->next(indices);
    --left_;
    return rows;
  }
  void seek(uint64_t epoch, int64_t position) override {
    input_->seek(epoch, position);
    left_ = elems_ - position;
  }
  void save(StateWriter& state) const override {
    state.put(left_);
    input_->save(state);
  }
  void restore(StateReader& state, uint64_t epoch) override {
    left_ = state.get_between(0, elems_, "the elements left to take");
    input_->restore(state, epoch);
  }

 private:
  int64_t elems_, left_ = 0;
};

/// For skip and shard: starting with element `first`, takes the first `block` elements of every `group`.
/// Elements between are skipped by a seek if the input can seek; otherwise they are read and dropped.
class ShardedOrder final : public OrderOver {
 public:
  ShardedOrder(std::unique_ptr<SamplingOrder> input, int64_t first, int64_t block, int64_t group,
               const OrderStage& stage)
      : OrderOver(std::move(input)),
        first_(first),
        block_(block),
        group_(group),
        input_size_(stage.input_size),
        seekable_(stage.seekable),
        left_in_block_(block),
        passed_over_(static_cast<size_t>(stage.rows)) {}
  void restart(uint64_t epoch) override {
    input_->restart(epoch);
    to_pass_over_ = first_;
    left_in_block_ = block_;
    epoch_ = epoch;
    taken_ = 0;
  }
  int64_t next(int64_t* indices) override {
    if (to_pass_over_ > 0 && seekable_ && taken_) seek(epoch_, *taken_);
    for (; to_pass_over_ > 0; --to_pass_over_) {
      throw_if_interrupted();
      const int64_t rows = input_->next(passed_over_.data());
      if (rows == 0) return 0;
      input_->drop(passed_over_.data(), rows);
    }
    const int64_t rows = input_->next(indices);
    if (taken_) ++*taken_;
    if (--left_in_block_ == 0) {
      to_pass_over_ = group_ - block_;
      left_in_block_ = block_;
    }
    return rows;
  }
  void seek(uint64_t epoch, int64_t position) override {
    const __int128 at = static_cast<__int128>(position / block_) * group_ + first_ + position % block_;
    const int64_t end = input_size_ == kInfinite ? INT64_MAX : input_size_;
    input_->seek(epoch, at < end ? static_cast<int64_t>(at) : end);
    to_pass_over_ = 0;
    left_in_block_ = block_ - position % block_;
    epoch_ = epoch;
    taken_ = position;
  }
  void save(StateWriter& state) const override {
    state.put(to_pass_over_);
    if (block_ > 1) state.put(left_in_block_);
    input_->save(state);
  }
  void restore(StateReader& state, uint64_t epoch) override {
    to_pass_over_ = state.get_between(0, std::max(first_, group_ - block_), "the elements to pass over");
    left_in_block_ = block_ > 1 ? state.get_between(1, block_, "the elements left of a block") : 1;
    taken_.reset();
    input_->restore(state, epoch);
  }

 private:
  int64_t first_, block_, group_, input_size_;
  bool seekable_;
  uint64_t epoch_ = 0;
  std::optional<int64_t> taken_;  // unknown after a restore
  int64_t to_pass_over_ = 0, left_in_block_;
  std::vector<int64_t> passed_over_;
};

std::unique_ptr<SamplingOrder> make_stage(std::unique_ptr<SamplingOrder> input, const OrderStage& stage) {
  switch (stage.kind) {
    case OrderStage::kShuffle:
      return std::make_unique<ShuffledOrder>(std::move(input), stage);
    case OrderStage::kPermute:
      return std::make_unique<PermutedOrder>(std::move(input), stage);
    case OrderStage::kBatch:
      return std::make_unique<BatchedOrder>(std::move(input), stage);
    case OrderStage::kRepeat:
      return std::make_unique<RepeatedOrder>(std::move(input), stage);
    case OrderStage::kTake:
      return std::make_unique<TruncatedOrder>(std::move(input), stage.elems);
    case OrderStage::kSkip:
      return std::make_unique<ShardedOrder>(std::move(input), stage.elems, 1, 1, stage);
    case OrderStage::kShard:
      return std::make_unique<ShardedOrder>(std::move(input), stage.index * stage.block, stage.block,
                                            stage.elems * stage.block, stage);
  }
  __builtin_unreachable();
}

}  // namespace

bool are_indices_of(const Recipe& recipe, size_t level, std::span<const int64_t> indices) {
  if (level == 0) return indices.size() == 1 && indices[0] != kNoRow;
  const auto child_rows = static_cast<size_t>(recipe.levels[level - 1].rows);
  for (size_t at = 0; at < indices.size(); at += child_rows) {
    const auto rest = indices.subspan(at);
    if (at > 0 && recipe.levels[level].marks_valid && rest[0] == kNoRow) {
      return std::ranges::all_of(rest, [](int64_t row) { return row == kNoRow; });
    }
    if (!are_indices_of(recipe, level - 1, rest.first(std::min(child_rows, rest.size())))) return false;
  }
  return !indices.empty();
}

std::unique_ptr<SamplingOrder> make_order(const Recipe& recipe, ElementSlots* slots) {
  std::unique_ptr<SamplingOrder> order;
  if (recipe.rows) {
    order = std::make_unique<RowOrder>(recipe.rows->rows());
  } else {
    order = std::make_unique<StreamOrder>(*recipe.stream, *slots);
  }
  for (const OrderStage& stage : recipe.order) order = make_stage(std::move(order), stage);
  return order;
}

}  // namespace isochron::data
