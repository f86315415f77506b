#include "isochron/data/stages/buckets.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "isochron/data/element/element_buffer.h"
#include "isochron/data/element/fingerprint.h"
#include "isochron/data/element/stacking.h"
#include "isochron/data/pipeline/infer_layouts.h"
#include "isochron/data/pipeline/loader.h"

namespace isochron::data {
namespace {

constexpr std::string_view kWhere = "bucket_by_sequence_length";

/// The options, and values derived from them.
struct Buckets {
  std::shared_ptr<const Recipe> input;
  int number;  // of the stage
  Layout row;
  std::function<int64_t(const Element&)> length;
  BucketOptions options;
  std::vector<double> padding;  // one number per tensor
  std::vector<Layout> batches;  // one per bucket
};

class BucketStream final : public ElementStream {
 public:
  explicit BucketStream(std::shared_ptr<const Buckets> buckets)
      : buckets_(std::move(buckets)), input_(buckets_->input), held_(buckets_->batches.size()) {}

  void restart(uint64_t epoch) override {
    input_.begin_epoch(epoch);
    for (Bucket& bucket : held_) bucket.filled = 0;
    ended_ = false;
  }

  bool next(ElementBuffer& buffer) override {
    while (!ended_) {
      const Element* element = input_.advance();
      if (!element) {
        ended_ = true;
        break;
      }
      const size_t at = in_stage(kWhere, buckets_->number, input_.position(), [&] {
        const size_t bucket = bucket_of(*element);
        require_fits(*element, bucket);
        return bucket;
      });
      Bucket& bucket = held_[at];
      if (bucket.filled == bucket.elements.size()) {
        bucket.elements.push_back(std::make_unique<ElementBuffer>(buckets_->row));
      }
      bucket.elements[bucket.filled++]->copy(*element, kWhere);
      if (static_cast<int64_t>(bucket.filled) < batch_elems(at)) continue;
      write(at, buffer);
      return true;
    }
    for (size_t at = 0; at < held_.size() && !buckets_->options.drop_remainder; ++at) {
      if (held_[at].filled == 0) continue;
      write(at, buffer);
      return true;
    }
    return false;
  }

  void save(StateWriter& state) const override {
    state.put_text(input_.state());
    state.put(static_cast<uint64_t>(ended_));
    for (const Bucket& bucket : held_) {
      state.put(static_cast<uint64_t>(bucket.filled));
      for (size_t i = 0; i < bucket.filled; ++i) bucket.elements[i]->save(state);
    }
  }
  void restore(StateReader& state) override {
    input_.resume(state.get_text());
    ended_ = state.get_between(0, 1, "0 or 1") == 1;
    for (size_t at = 0; at < held_.size(); ++at) {
      Bucket& bucket = held_[at];
      bucket.filled =
          static_cast<size_t>(state.get_between(0, batch_elems(at) - 1, "the elements of a bucket"));
      while (bucket.elements.size() < bucket.filled) {
        bucket.elements.push_back(std::make_unique<ElementBuffer>(buckets_->row));
      }
      for (size_t i = 0; i < bucket.filled; ++i) bucket.elements[i]->restore(state);
    }
  }

 private:
  struct Bucket {
    std::vector<std::unique_ptr<ElementBuffer>> elements;  // reused from batch to batch
    size_t filled = 0;
  };

  int64_t batch_elems(size_t bucket) const { return buckets_->batches[bucket].specs[0].shape[0]; }

  size_t bucket_of(const Element& element) const {
    const std::vector<int64_t>& longest = buckets_->options.longest;
    const int64_t length = buckets_->length(element);
    const auto found = std::ranges::lower_bound(longest, length);
    if (found == longest.end()) {
      fail(ErrorCode::kShapeMismatch, kWhere,
           "an element of length {} exceeds the last bucket's {}; add a bucket, or filter it out", length,
           longest.back());
    }
    return static_cast<size_t>(found - longest.begin());
  }

  void require_fits(const Element& element, size_t bucket) const {
    const Signature& batch = buckets_->batches[bucket].specs;
    for (int i = 0; i < element.size(); ++i) {
      const Shape place(batch[static_cast<size_t>(i)].shape.span().subspan(1));
      require_paddable(element[i], place, element.name(i));
    }
  }

  /// Makes the batch of a bucket and empties it.
  void write(size_t at, ElementBuffer& buffer) {
    Bucket& bucket = held_[at];
    const Layout& batch = buckets_->batches[at];
    const size_t tensors = buckets_->row.specs.size();
    for (size_t i = 0; i < tensors; ++i) {
      const Shape& shape = batch.specs[i].shape;
      const Shape place(shape.span().subspan(1));
      std::byte* to = buffer.room(static_cast<int>(i), shape);
      const size_t place_bytes = TensorSpec{batch.specs[i].dtype, place}.size_bytes();
      for (size_t n = 0; n < bucket.filled; ++n, to += place_bytes) {
        copy_padded(bucket.elements[n]->element()[static_cast<int>(i)], place, buckets_->padding[i], to,
                    batch.names[i]);
      }
      fill_with_padding(batch.specs[i].dtype, buckets_->padding[i], to,
                        place.elems() * (shape[0] - static_cast<int64_t>(bucket.filled)));
    }
    if (tensors < batch.specs.size()) {
      std::byte* valid = buffer.room(static_cast<int>(tensors), batch.specs[tensors].shape);
      std::memset(valid, 0, static_cast<size_t>(batch_elems(at)));
      std::memset(valid, 1, bucket.filled);
    }
    bucket.filled = 0;
  }

  std::shared_ptr<const Buckets> buckets_;
  mutable Loader input_;
  std::vector<Bucket> held_;
  bool ended_ = false;
};

class BucketSource final : public StreamSource {
 public:
  explicit BucketSource(std::shared_ptr<const Buckets> buckets) : buckets_(std::move(buckets)) {}
  const std::vector<Layout>& layouts() const override { return buckets_->batches; }
  int64_t size() const override { return buckets_->input->size == kInfinite ? kInfinite : kUnknown; }
  std::unique_ptr<ElementStream> open() const override { return std::make_unique<BucketStream>(buckets_); }
  uint64_t fingerprint() const override {
    Fingerprint print;
    print.add(data::fingerprint(*buckets_->input));
    for (const int64_t longest : buckets_->options.longest) print.add(longest);
    for (const int64_t elems : buckets_->options.batch_elems) print.add(elems);
    for (const double padding : buckets_->padding) print.add(std::bit_cast<uint64_t>(padding));
    return print.add(static_cast<int64_t>(buckets_->options.drop_remainder)).value();
  }

 private:
  std::shared_ptr<const Buckets> buckets_;
};

}  // namespace

Dataset bucket_by_sequence_length(const Dataset& dataset, std::function<int64_t(const Element&)> length,
                                  BucketOptions options) {
  auto buckets = std::make_shared<Buckets>();
  buckets->input = dataset.recipe();
  buckets->number = dataset.recipe()->stages + 1;
  buckets->row = merged(dataset.recipe()->results());
  require(length != nullptr, ErrorCode::kInvalidArgument, kWhere, "the function is empty");
  require(!options.longest.empty() && std::ranges::is_sorted(options.longest, std::less_equal<>{}) &&
              options.longest.front() >= 0,
          ErrorCode::kInvalidArgument, kWhere, "the buckets' longest elements must be ascending and >= 0");
  if (options.batch_elems.size() == 1)
    options.batch_elems.resize(options.longest.size(), options.batch_elems[0]);
  require(options.batch_elems.size() == options.longest.size() && std::ranges::min(options.batch_elems) >= 1,
          ErrorCode::kInvalidArgument, kWhere, "expected {} batch sizes >= 1 or one for all, got {}",
          options.longest.size(), options.batch_elems.size());
  require(!buckets->row.fixed(), ErrorCode::kInvalidArgument, kWhere,
          "no extent of the elements varies ({}); use batch", buckets->row.str());
  PaddedBatchOptions padding;
  padding.padding = options.padding;
  static_cast<void>(padded_layout(buckets->row, padding, buckets->padding));
  for (size_t at = 0; at < options.longest.size(); ++at) {
    Layout row = buckets->row;
    for (TensorSpec& spec : row.specs) {
      for (int64_t& extent : spec.shape) extent = extent == kAnyExtent ? options.longest[at] : extent;
    }
    Layout batch = stacked(row, options.batch_elems[at]);
    if (!options.drop_remainder) {
      batch.names.push_back("valid");
      batch.specs.push_back({DType::kBool, {options.batch_elems[at]}});
    }
    buckets->batches.push_back(std::move(batch));
  }
  buckets->length = std::move(length);
  buckets->options = std::move(options);
  return counted_on(*dataset.recipe(), Dataset(std::make_shared<BucketSource>(std::move(buckets))));
}

}  // namespace isochron::data
