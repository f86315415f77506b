#include "isochron/data/keys.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "isochron/core/checked.h"
#include "isochron/data/interrupt.h"
#include "isochron/data/shuffle_keys.h"

namespace isochron::data {
namespace {

[[noreturn]] void not_over_rows() {
  fail(ErrorCode::kUnsupported, "dataset", "a stream can't be gone to a place in");
}

/// The rows of a source, one after the other.
class RowKeys final : public KeyStream {
 public:
  explicit RowKeys(int64_t rows) : rows_(rows) {}
  void restart(uint64_t) override { row_ = 0; }
  int64_t next(int64_t* key) override {
    if (row_ == rows_) return 0;
    *key = row_++;
    return 1;
  }
  void drop(const int64_t*, int64_t) override {}
  void seek(uint64_t, int64_t position) override { row_ = std::clamp<int64_t>(position, 0, rows_); }
  void save(StateWriter& state) const override { state.put(row_); }
  void restore(StateReader& state, uint64_t) override { row_ = state.get_between(0, rows_, "a row"); }
  void save_key(StateWriter& state, const int64_t* key, int64_t rows) const override {
    for (int64_t i = 0; i < rows; ++i) state.put(key[i]);
  }
  void restore_key(StateReader& state, int64_t* key, int64_t rows) override {
    for (int64_t i = 0; i < rows; ++i) key[i] = state.get_between(kNoRow, rows_ - 1, "a row");
  }

 private:
  int64_t rows_, row_ = 0;
};

constexpr int64_t kMostRows = int64_t{1} << 40;  // of a stream, or passes, in a state that is believed

/// The items of a stream, one after the other.
class StreamKeys final : public KeyStream {
 public:
  StreamKeys(const StreamSource& source, ItemStore& store) : stream_(source.open()), store_(store) {}
  void restart(uint64_t epoch) override {
    stream_->restart(epoch);
    row_ = 0;
  }
  int64_t next(int64_t* key) override {
    throw_if_interrupted();
    *key = store_.take();
    bool more = false;
    try {
      more = stream_->next(ItemStore::at(*key).item);
    } catch (...) {
      store_.give_back({key, 1});
      throw;
    }
    if (!more) {
      store_.give_back({key, 1});
      return 0;
    }
    ItemStore::at(*key).row = row_++;
    return 1;
  }
  void drop(const int64_t* key, int64_t rows) override { store_.give_back({key, static_cast<size_t>(rows)}); }
  void seek(uint64_t, int64_t) override { not_over_rows(); }
  void save(StateWriter& state) const override {
    state.put(row_);
    stream_->save(state);
  }
  void restore(StateReader& state, uint64_t) override {
    row_ = state.get_between(0, kMostRows, "a row");
    stream_->restore(state);
  }
  void save_key(StateWriter& state, const int64_t* key, int64_t rows) const override {
    for (int64_t i = 0; i < rows; ++i) {
      state.put(key[i] == kNoRow ? kNoRow : ItemStore::at(key[i]).row);
      if (key[i] == kNoRow) continue;
      ItemStore::at(key[i]).item.save(state);
    }
  }
  void restore_key(StateReader& state, int64_t* key, int64_t rows) override {
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = state.get_between(kNoRow, kMostRows, "a row");
      key[i] = row == kNoRow ? kNoRow : store_.take();
      if (row == kNoRow) continue;
      ItemStore::at(key[i]).row = row;
      ItemStore::at(key[i]).item.restore(state);
    }
  }

 private:
  std::unique_ptr<ElementStream> stream_;
  ItemStore& store_;
  int64_t row_ = 0;
};

class BatchKeys final : public KeysOver {
 public:
  BatchKeys(std::unique_ptr<KeyStream> input, const OrderStage& stage)
      : KeysOver(std::move(input)), stage_(stage) {}
  void restart(uint64_t epoch) override {
    drop_begun();
    input_->restart(epoch);
  }
  int64_t next(int64_t* key) override {
    auto rows = static_cast<int64_t>(begun_.size());
    std::ranges::copy(begun_, key);
    begun_.clear();
    for (int64_t elems = std::exchange(begun_elems_, 0); elems < stage_.elems; ++elems) {
      const int64_t more = next_or_leave(key, rows, elems);
      if (more == 0) {
        if (rows > 0 && stage_.pad_remainder) {
          const int64_t full = stage_.elems * stage_.rows;
          std::fill(key + rows, key + full, kNoRow);
          return full;
        }
        if (!stage_.drop_remainder) return rows;
        input_->drop(key, rows);
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
    input_->save_key(state, begun_.data(), static_cast<int64_t>(begun_.size()));
    input_->save(state);
  }
  void restore(StateReader& state, uint64_t epoch) override {
    drop_begun();
    const int64_t elems = state.get_between(0, stage_.elems - 1, "the elements of a batch");
    const int64_t rows = state.get_between(elems, elems * stage_.rows, "the rows of a batch");
    std::vector<int64_t> begun(static_cast<size_t>(rows));
    input_->restore_key(state, begun.data(), rows);
    begun_ = std::move(begun);
    begun_elems_ = elems;
    input_->restore(state, epoch);
  }

 private:
  int64_t next_or_leave(int64_t* key, int64_t rows, int64_t elems) {
    try {
      return input_->next(key + rows);
    } catch (const Interrupted&) {
      begun_.assign(key, key + rows);
      begun_elems_ = elems;
      throw;
    } catch (...) {
      input_->drop(key, rows);
      throw;
    }
  }
  void drop_begun() {
    input_->drop(begun_.data(), static_cast<int64_t>(begun_.size()));
    begun_.clear();
    begun_elems_ = 0;
  }

  OrderStage stage_;
  std::vector<int64_t> begun_;  // key of a batch whose draw was interrupted
  int64_t begun_elems_ = 0;     // elements in it
};

class RepeatKeys final : public KeysOver {
 public:
  RepeatKeys(std::unique_ptr<KeyStream> input, const OrderStage& stage)
      : KeysOver(std::move(input)), stage_(stage) {}
  void restart(uint64_t epoch) override {
    go_to_pass(epoch, 0);
    input_->restart(epoch_of_pass());
  }
  int64_t next(int64_t* key) override {
    int64_t rows = input_->next(key);
    // An endless repeat of nothing would go on for ever, so it ends with a pass that gives nothing.
    while (rows == 0 && (stage_.elems == kInfinite ? !pass_empty_ : pass_ + 1 < stage_.elems)) {
      ++pass_;
      pass_empty_ = true;
      input_->restart(epoch_of_pass());
      rows = input_->next(key);
    }
    if (rows > 0) pass_empty_ = false;
    return rows;
  }
  void seek(uint64_t epoch, int64_t position) override {
    int64_t pass = stage_.input_size == kInfinite ? 0 : position / stage_.input_size;
    if (stage_.elems != kInfinite) pass = std::min(pass, stage_.elems - 1);
    go_to_pass(epoch, pass);
    const int64_t passed = stage_.input_size == kInfinite ? 0 : pass * stage_.input_size;
    input_->seek(epoch_of_pass(), position - passed);
  }
  void save(StateWriter& state) const override {
    state.put(pass_);
    state.put(static_cast<uint64_t>(pass_empty_));
    input_->save(state);
  }
  void restore(StateReader& state, uint64_t epoch) override {
    go_to_pass(epoch,
               state.get_between(0, stage_.elems == kInfinite ? kMostRows : stage_.elems - 1, "a pass"));
    pass_empty_ = state.get_between(0, 1, "0 or 1") == 1;
    input_->restore(state, epoch_of_pass());
  }

 private:
  void go_to_pass(uint64_t epoch, int64_t pass) {
    epoch_ = epoch;
    pass_ = pass;
    pass_empty_ = true;
  }
  /// The input's epoch: passes are counted through the epochs. An endless repeat leaves room for 2^32 passes,
  /// mixed so that nested ones don't meet.
  uint64_t epoch_of_pass() const {
    const auto pass = static_cast<uint64_t>(pass_);
    if (stage_.elems != kInfinite) return epoch_ * static_cast<uint64_t>(stage_.elems) + pass;
    return epoch_ == 0 ? pass : epoch_ * 0x9E3779B97F4A7C15u + pass;
  }

  OrderStage stage_;
  int64_t pass_ = 0;
  uint64_t epoch_ = 0;
  bool pass_empty_ = true;
};

class TakeKeys final : public KeysOver {
 public:
  TakeKeys(std::unique_ptr<KeyStream> input, int64_t elems) : KeysOver(std::move(input)), elems_(elems) {}
  void restart(uint64_t epoch) override {
    input_->restart(epoch);
    left_ = elems_;
  }
  int64_t next(int64_t* key) override {
    if (left_ <= 0) return 0;
    const int64_t rows = input_->next(key);
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

/// Every `stride`th element from the `first`th on: skip and shard.
class EveryKeys final : public KeysOver {
 public:
  EveryKeys(std::unique_ptr<KeyStream> input, int64_t first, int64_t stride, const OrderStage& stage)
      : KeysOver(std::move(input)),
        first_(first),
        stride_(stride),
        input_size_(stage.input_size),
        passed_over_(static_cast<size_t>(stage.rows)) {}
  void restart(uint64_t epoch) override {
    input_->restart(epoch);
    to_pass_over_ = first_;
  }
  int64_t next(int64_t* key) override {
    for (; to_pass_over_ > 0; --to_pass_over_) {
      throw_if_interrupted();
      const int64_t rows = input_->next(passed_over_.data());
      if (rows == 0) return 0;
      input_->drop(passed_over_.data(), rows);
    }
    const int64_t rows = input_->next(key);
    to_pass_over_ = stride_ - 1;
    return rows;
  }
  void seek(uint64_t epoch, int64_t position) override {
    const int64_t at = checked_add(first_, checked_mul(position, stride_, "dataset"), "dataset");
    input_->seek(epoch, input_size_ == kInfinite ? at : std::min(at, input_size_));
    to_pass_over_ = 0;
  }
  void save(StateWriter& state) const override {
    state.put(to_pass_over_);
    input_->save(state);
  }
  void restore(StateReader& state, uint64_t epoch) override {
    to_pass_over_ = state.get_between(0, std::max(first_, stride_), "the elements to pass over");
    input_->restore(state, epoch);
  }

 private:
  int64_t first_, stride_, input_size_;
  int64_t to_pass_over_ = 0;
  std::vector<int64_t> passed_over_;
};

std::unique_ptr<KeyStream> make_stage(std::unique_ptr<KeyStream> input, const OrderStage& stage) {
  switch (stage.kind) {
    case OrderStage::kShuffle:
      return std::make_unique<ShuffleKeys>(std::move(input), stage);
    case OrderStage::kPermute:
      return std::make_unique<PermuteKeys>(std::move(input), stage);
    case OrderStage::kBatch:
      return std::make_unique<BatchKeys>(std::move(input), stage);
    case OrderStage::kRepeat:
      return std::make_unique<RepeatKeys>(std::move(input), stage);
    case OrderStage::kTake:
      return std::make_unique<TakeKeys>(std::move(input), stage.elems);
    case OrderStage::kSkip:
      return std::make_unique<EveryKeys>(std::move(input), stage.elems, 1, stage);
    case OrderStage::kShard:
      return std::make_unique<EveryKeys>(std::move(input), stage.index, stage.elems, stage);
  }
  __builtin_unreachable();
}

}  // namespace

bool is_key(const Recipe& recipe, size_t level, std::span<const int64_t> key) {
  if (level == 0) return key.size() == 1 && key[0] != kNoRow;
  const auto child_rows = static_cast<size_t>(recipe.levels[level - 1].rows);
  for (size_t at = 0; at < key.size(); at += child_rows) {
    const auto rest = key.subspan(at);
    if (at > 0 && recipe.levels[level].marks_valid && rest[0] == kNoRow) {
      return std::ranges::all_of(rest, [](int64_t row) { return row == kNoRow; });
    }
    if (!is_key(recipe, level - 1, rest.first(std::min(child_rows, rest.size())))) return false;
  }
  return !key.empty();
}

std::unique_ptr<KeyStream> make_keys(const Recipe& recipe, ItemStore* store) {
  std::unique_ptr<KeyStream> keys;
  if (recipe.rows) {
    keys = std::make_unique<RowKeys>(recipe.rows->rows());
  } else {
    keys = std::make_unique<StreamKeys>(*recipe.stream, *store);
  }
  for (const OrderStage& stage : recipe.order) keys = make_stage(std::move(keys), stage);
  return keys;
}

}  // namespace isochron::data
