#include "isochron/data/keys.h"

#include <algorithm>
#include <vector>

#include "isochron/core/rng.h"

namespace isochron::data {
namespace {

class RowKeys final : public KeyStream {
 public:
  explicit RowKeys(int64_t rows) : rows_(rows) {}
  void restart(uint64_t) override { row_ = 0; }
  int64_t next(int64_t* key) override {
    if (row_ == rows_) return 0;
    *key = row_++;
    return 1;
  }

 private:
  int64_t rows_, row_ = 0;
};

/// A stage over another stream.
class Over : public KeyStream {
 public:
  explicit Over(std::unique_ptr<KeyStream> input) : input_(std::move(input)) {}

 protected:
  std::unique_ptr<KeyStream> input_;
};

class ShuffleKeys final : public Over {
 public:
  ShuffleKeys(std::unique_ptr<KeyStream> input, const OrderStage& stage)
      : Over(std::move(input)),
        stage_(stage),
        keys_(static_cast<size_t>(stage.elems * stage.rows)),
        lengths_(static_cast<size_t>(stage.elems)) {}

  void restart(uint64_t epoch) override {
    input_->restart(epoch);
    const uint64_t order = stage_.shuffle.reshuffle ? epoch : 0;
    rng_ = Rng(stage_.shuffle.seed, order ^ (stage_.salt << 48));
    for (filled_ = 0; filled_ < lengths_.size(); ++filled_) {
      lengths_[filled_] = input_->next(key_at(filled_));
      if (lengths_[filled_] == 0) break;
    }
  }

  int64_t next(int64_t* key) override {
    if (filled_ == 0) return 0;
    const size_t drawn = filled_ == 1 ? 0 : static_cast<size_t>(rng_.below(filled_));
    const int64_t length = lengths_[drawn];
    std::copy_n(key_at(drawn), length, key);
    if (filled_ == lengths_.size()) lengths_[drawn] = input_->next(key_at(drawn));
    if (filled_ < lengths_.size() || lengths_[drawn] == 0) {  // nothing to put in its place but the last one
      --filled_;
      std::copy_n(key_at(filled_), lengths_[filled_], key_at(drawn));
      lengths_[drawn] = lengths_[filled_];
    }
    return length;
  }

 private:
  int64_t* key_at(size_t index) { return keys_.data() + index * static_cast<size_t>(stage_.rows); }

  OrderStage stage_;
  Rng rng_;
  std::vector<int64_t> keys_;     // (buffer, rows of a full element)
  std::vector<int64_t> lengths_;  // rows in each
  size_t filled_ = 0;             // below the buffer's size once the input has ended
};

class BatchKeys final : public Over {
 public:
  BatchKeys(std::unique_ptr<KeyStream> input, const OrderStage& stage)
      : Over(std::move(input)), stage_(stage) {}
  void restart(uint64_t epoch) override { input_->restart(epoch); }
  int64_t next(int64_t* key) override {
    int64_t rows = 0;
    for (int64_t i = 0; i < stage_.elems; ++i) {
      const int64_t more = input_->next(key + rows);
      if (more == 0) return stage_.drop_remainder ? 0 : rows;
      rows += more;
    }
    return rows;
  }

 private:
  OrderStage stage_;
};

class RepeatKeys final : public Over {
 public:
  RepeatKeys(std::unique_ptr<KeyStream> input, int64_t times) : Over(std::move(input)), times_(times) {}
  void restart(uint64_t epoch) override {
    constexpr uint64_t kPassesOfEndless = uint64_t{1} << 32;
    first_ = epoch * (times_ == kInfinite ? kPassesOfEndless : static_cast<uint64_t>(times_));
    pass_ = 0;
    input_->restart(first_);
  }
  int64_t next(int64_t* key) override {
    int64_t rows = input_->next(key);
    if (rows == 0 && (times_ == kInfinite || pass_ + 1 < times_)) {
      ++pass_;
      input_->restart(first_ + static_cast<uint64_t>(pass_));
      rows = input_->next(key);
    }
    return rows;
  }

 private:
  int64_t times_, pass_ = 0;
  uint64_t first_ = 0;
};

class TakeKeys final : public Over {
 public:
  TakeKeys(std::unique_ptr<KeyStream> input, int64_t elems) : Over(std::move(input)), elems_(elems) {}
  void restart(uint64_t epoch) override {
    input_->restart(epoch);
    left_ = elems_;
  }
  int64_t next(int64_t* key) override { return left_ > 0 && left_-- > 0 ? input_->next(key) : 0; }

 private:
  int64_t elems_, left_ = 0;
};

class SkipKeys final : public Over {
 public:
  SkipKeys(std::unique_ptr<KeyStream> input, int64_t elems, int64_t rows)
      : Over(std::move(input)), elems_(elems), skipped_(static_cast<size_t>(rows)) {}
  void restart(uint64_t epoch) override {
    input_->restart(epoch);
    for (int64_t i = 0; i < elems_; ++i) input_->next(skipped_.data());
  }
  int64_t next(int64_t* key) override { return input_->next(key); }

 private:
  int64_t elems_;
  std::vector<int64_t> skipped_;
};

std::unique_ptr<KeyStream> make_stage(std::unique_ptr<KeyStream> input, const OrderStage& stage) {
  switch (stage.kind) {
    case OrderStage::kShuffle:
      return std::make_unique<ShuffleKeys>(std::move(input), stage);
    case OrderStage::kBatch:
      return std::make_unique<BatchKeys>(std::move(input), stage);
    case OrderStage::kRepeat:
      return std::make_unique<RepeatKeys>(std::move(input), stage.elems);
    case OrderStage::kTake:
      return std::make_unique<TakeKeys>(std::move(input), stage.elems);
    case OrderStage::kSkip:
      return std::make_unique<SkipKeys>(std::move(input), stage.elems, stage.rows);
  }
  __builtin_unreachable();
}

}  // namespace

std::unique_ptr<KeyStream> make_keys(const Recipe& recipe) {
  std::unique_ptr<KeyStream> keys = std::make_unique<RowKeys>(recipe.source_rows);
  for (const OrderStage& stage : recipe.order) keys = make_stage(std::move(keys), stage);
  return keys;
}

}  // namespace isochron::data
