#include "isochron/data/pipeline/streams.h"

#include <algorithm>
#include <cstring>

#include "isochron/core/base/checked.h"
#include "isochron/data/element/branch.h"
#include "isochron/data/element/fingerprint.h"
#include "isochron/data/element/pipeline_memory.h"
#include "isochron/data/element/stacking.h"
#include "isochron/data/pipeline/infer_layouts.h"
#include "isochron/data/pipeline/loader.h"
#include "isochron/memory/allocators/buffer.h"

namespace isochron::data {
namespace {

/// The common part of sources over one input.
class OverInput : public StreamSource {
 public:
  OverInput(std::shared_ptr<const Recipe> input, std::vector<Layout> layouts, int64_t size)
      : input_(std::move(input)), layouts_(std::move(layouts)), size_(size) {}
  const std::vector<Layout>& layouts() const override { return layouts_; }
  int64_t size() const override { return size_; }
  uint64_t fingerprint() const override { return data::fingerprint(*input_); }

 protected:
  std::shared_ptr<const Recipe> input_;

 private:
  std::vector<Layout> layouts_;
  int64_t size_;
};

class FilterSource final : public OverInput {
 public:
  FilterSource(std::shared_ptr<const Recipe> input, std::function<bool(const Element&)> keep)
      : OverInput(input, input->results(), input->size == kInfinite ? kInfinite : kUnknown),
        keep_(std::move(keep)) {}
  std::unique_ptr<ElementStream> open() const override { return std::make_unique<Stream>(input_, keep_); }

 private:
  class Stream final : public ElementStream {
   public:
    Stream(const std::shared_ptr<const Recipe>& input, std::function<bool(const Element&)> keep)
        : number_(input->stages + 1), input_(input), keep_(std::move(keep)) {}
    void restart(uint64_t epoch) override { input_.begin_epoch(epoch); }
    bool next(ElementBuffer& buffer) override {
      while (const Element* element = input_.advance()) {
        if (!in_stage("filter", number_, input_.position(), [&] { return keep_(*element); })) continue;
        buffer.copy(*element, "filter");
        return true;
      }
      return false;
    }
    void save(StateWriter& state) const override { state.put_text(input_.state()); }
    void restore(StateReader& state) override { input_.resume(state.get_text()); }

   private:
    int number_;
    mutable Loader input_;
    std::function<bool(const Element&)> keep_;
  };

  std::function<bool(const Element&)> keep_;
};

class UnbatchSource final : public OverInput {
 public:
  static std::shared_ptr<const StreamSource> make(std::shared_ptr<const Recipe> input) {
    Layout row = merged(input->results());
    for (size_t i = 0; i < row.specs.size(); ++i) {
      TensorSpec& spec = row.specs[i];
      require(spec.shape.rank() >= 1, ErrorCode::kInvalidArgument, "unbatch",
              "'{}' is a scalar; it has no rows", row.names[i]);
      Shape shape;
      for (int axis = 1; axis < spec.shape.rank(); ++axis) shape.push_back(spec.shape[axis]);
      spec.shape = shape;
    }
    const int64_t rows = rows_of(*input);
    return std::make_shared<UnbatchSource>(std::move(input), std::vector{row}, rows);
  }
  using OverInput::OverInput;
  std::unique_ptr<ElementStream> open() const override { return std::make_unique<Stream>(input_); }

 private:
  /// The number of elements in all batches of an epoch, if it follows from the signatures.
  static int64_t rows_of(const Recipe& input) {
    if (input.size < 0) return input.size;
    if (input.size == 0) return kUnknown;  // an empty shard: there are no elements either
    const std::vector<Layout>& forms = input.results();
    const int64_t full = forms[kFull].specs[0].shape[0];
    if (forms.size() == 1) return full == kAnyExtent ? kUnknown : checked_mul(input.size, full, "unbatch");
    return kUnknown;
  }

  class Stream final : public ElementStream {
   public:
    explicit Stream(const std::shared_ptr<const Recipe>& input)
        : batch_(merged(input->results())), held_(batch_), input_(input) {}
    void restart(uint64_t epoch) override {
      input_.begin_epoch(epoch);
      current_ = nullptr;
    }
    bool next(ElementBuffer& buffer) override {
      while (!current_ || at_ == (*current_)[0].extent(0)) {
        current_ = nullptr;
        current_ = input_.advance();
        if (!current_) return false;
        at_ = 0;
        for (int i = 0; i < current_->size(); ++i) {
          require_contiguous(*current_, i, "unbatch");
          require((*current_)[i].extent(0) == (*current_)[0].extent(0), ErrorCode::kShapeMismatch, "unbatch",
                  "the tensors of a batch differ in their first extent: {}", current_->str());
        }
      }
      for (int i = 0; i < current_->size(); ++i) {
        const Tensor& batch = (*current_)[i];
        const Shape shape(batch.shape().span().subspan(1));
        std::byte* to = buffer.room(i, shape);
        const size_t bytes = batch.size_bytes() / static_cast<size_t>(batch.extent(0));
        if (bytes > 0) std::memcpy(to, batch.raw() + static_cast<size_t>(at_) * bytes, bytes);
      }
      ++at_;
      return true;
    }
    void save(StateWriter& state) const override {
      state.put_text(input_.state());
      state.put(current_ ? at_ : int64_t{-1});
      if (!current_) return;
      ElementBuffer copy(batch_);
      copy.copy(*current_, "unbatch");
      copy.save(state);
    }
    void restore(StateReader& state) override {
      input_.resume(state.get_text());
      current_ = nullptr;
      at_ = state.get_between(-1, INT64_MAX, "a row");
      if (at_ < 0) return;
      held_.restore(state);
      for (int i = 0; i < held_.element().size(); ++i) {
        if (held_.element()[i].extent(0) != held_.element()[0].extent(0)) state.refuse("a batch");
      }
      if (at_ > held_.element()[0].extent(0)) state.refuse("a row of a batch");
      current_ = &held_.element();
    }

   private:
    Layout batch_;
    ElementBuffer held_;  // a restored batch
    mutable Loader input_;
    const Element* current_ = nullptr;
    int64_t at_ = 0;  // the next row of `current_`
  };
};

class InterleaveSource final : public OverInput {
 public:
  InterleaveSource(std::shared_ptr<const Recipe> input, RecipeFunction function,
                   const InterleaveOptions& options, const char* where, std::vector<Layout> layouts)
      : OverInput(input, std::move(layouts), input->size == kInfinite ? kInfinite : kUnknown),
        function_(std::move(function)),
        options_(options),
        where_(where) {}
  uint64_t fingerprint() const override {
    return Fingerprint().add(OverInput::fingerprint()).add(options_.cycle).add(options_.block).value();
  }
  std::unique_ptr<ElementStream> open() const override {
    return std::make_unique<Stream>(input_, function_, options_, where_, layouts());
  }

 private:
  class Stream final : public ElementStream {
   public:
    Stream(const std::shared_ptr<const Recipe>& input, RecipeFunction function,
           const InterleaveOptions& options, const char* where, const std::vector<Layout>& layouts)
        : input_layout_(merged(input->results())),
          number_(input->stages + 1),
          input_(input),
          function_(std::move(function)),
          options_(options),
          where_(where),
          layout_(merged(layouts)),
          branch_(BranchScope::current()),
          places_(static_cast<size_t>(options.cycle)) {}

    void restart(uint64_t epoch) override {
      input_.begin_epoch(epoch);
      for (Place& place : places_) place.dataset.reset();
      at_ = 0;
      given_ = 0;
      more_ = true;
    }

    bool next(ElementBuffer& buffer) override {
      for (size_t idle = 0; idle < places_.size();) {
        Place& place = places_[at_];
        if (!place.dataset && more_) open_next(place);
        if (place.dataset) {
          idle = 0;
          const auto advance = [&place] { return place.dataset->advance(); };
          if (const Element* element = in_stage(where_, number_, place.position, advance)) {
            buffer.copy(*element, where_);
            if (++given_ == options_.block) to_next_place();
            return true;
          }
          place.dataset.reset();  // the next dataset opens at this place's next turn
        } else {
          ++idle;
        }
        to_next_place();
      }
      return false;
    }

    void save(StateWriter& state) const override {
      state.put_text(input_.state());
      state.put(static_cast<uint64_t>(more_));
      state.put(static_cast<uint64_t>(at_));
      state.put(given_);
      for (const Place& place : places_) {
        state.put(static_cast<uint64_t>(place.dataset != nullptr));
        if (!place.dataset) continue;
        place.of->save(state);
        state.put(place.position.epoch);
        state.put(place.position.element);
        state.put_text(place.dataset->state());
      }
    }
    void restore(StateReader& state) override {
      input_.resume(state.get_text());
      more_ = state.get_between(0, 1, "0 or 1") == 1;
      at_ = static_cast<size_t>(state.get_between(0, options_.cycle - 1, "a place in the cycle"));
      given_ = state.get_between(0, options_.block, "a place in the block");
      for (Place& place : places_) {
        place.dataset.reset();
        if (state.get_between(0, 1, "0 or 1") == 0) continue;
        if (!place.of) place.of = std::make_unique<ElementBuffer>(input_layout_);
        place.of->restore(state);
        place.position.epoch = state.get();
        place.position.element = state.get_between(0, INT64_MAX, "an element's number");
        open_for(place);
        place.dataset->resume(state.get_text());
      }
    }

   private:
    struct Place {
      std::unique_ptr<ElementBuffer> of;  // the element that the dataset is for
      Position position;                  // of that element
      std::unique_ptr<Loader> dataset;
    };

    void to_next_place() {
      at_ = (at_ + 1) % places_.size();
      given_ = 0;
    }
    void open_next(Place& place) {
      const Element* element = input_.advance();
      more_ = element != nullptr;
      if (!more_) return;
      if (!place.of) place.of = std::make_unique<ElementBuffer>(input_layout_);
      place.of->copy(*element, where_);
      place.position = input_.position();
      open_for(place);
      place.dataset->begin_epoch(input_.epoch());
    }
    void open_for(Place& place) {
      const BranchScope scope(branch_of(branch_, static_cast<uint64_t>(place.position.element)));
      place.dataset = in_stage(where_, number_, place.position, [&] {
        auto recipe = function_(place.of->element());
        const Layout got = merged(recipe->results());
        if (!(got == layout_) && layout_.fixed()) {
          fail(ErrorCode::kShapeMismatch, where_, "expected a dataset of {}, got one of {}", layout_.str(),
               got.str());
        }
        return std::make_unique<Loader>(std::move(recipe));
      });
    }

    Layout input_layout_;
    int number_;
    mutable Loader input_;
    RecipeFunction function_;
    InterleaveOptions options_;
    const char* where_;
    Layout layout_;
    uint64_t branch_;
    std::vector<Place> places_;
    size_t at_ = 0;      // place whose turn it is
    int64_t given_ = 0;  // elements of it in this turn
    bool more_ = true;   // the input has not ended
  };

  RecipeFunction function_;
  InterleaveOptions options_;
  const char* where_;
};

/// Rows in blocks of equal size, the last one shorter.
class CachedRows final : public RowSource {
 public:
  CachedRows(const std::shared_ptr<const Recipe>& input, size_t limit_bytes)
      : fingerprint_(data::fingerprint(*input)), layout_(input->results()[kFull]) {
    for (const TensorSpec& spec : layout_.specs) row_bytes_.push_back(spec.size_bytes());
    const size_t all = std::max<size_t>(1, layout_.size_bytes());
    block_rows_ =
        input->size > 0 ? input->size : std::max<int64_t>(1, static_cast<int64_t>(kBlockBytes / all));
    require(input->size < 0 || all <= limit_bytes / static_cast<size_t>(std::max<int64_t>(1, input->size)),
            ErrorCode::kOutOfMemory, "cache",
            "{} elements of {} bytes exceed the limit of {} bytes; raise it, or cache fewer", input->size,
            all, limit_bytes);
    Loader loader(input);
    loader.begin_epoch(0);
    while (const Element* element = loader.next()) {
      require(all <= limit_bytes / static_cast<size_t>(rows_ + 1), ErrorCode::kOutOfMemory, "cache",
              "{} elements of {} bytes exceed the limit of {} bytes; raise it, or cache fewer", rows_ + 1,
              all, limit_bytes);
      add(*element);
    }
    require(rows_ > 0, ErrorCode::kInvalidArgument, "cache", "the dataset yields no element");
  }

  const Layout& layout() const override { return layout_; }
  int64_t rows() const override { return rows_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  void read(const Position& position, std::span<std::byte* const> into) const override {
    for (size_t i = 0; i < into.size(); ++i) std::memcpy(into[i], place(position.row, i), row_bytes_[i]);
  }
  std::byte* first_row(int index) const override {
    return rows_ <= block_rows_ ? place(0, static_cast<size_t>(index)) : nullptr;
  }

 private:
  static constexpr size_t kBlockBytes = size_t{1} << 20;

  std::byte* place(int64_t row, size_t tensor) const {
    const Ref<Storage>& block = blocks_[static_cast<size_t>(row / block_rows_)][tensor];
    return block->data() + static_cast<size_t>(row % block_rows_) * row_bytes_[tensor];
  }
  void add(const Element& element) {
    if (rows_ % block_rows_ == 0) {
      std::vector<Ref<Storage>>& block = blocks_.emplace_back();
      for (size_t bytes : row_bytes_) {
        block.push_back(Buffer::create(
            pipeline_allocator(), checked_mul<size_t>(bytes, static_cast<size_t>(block_rows_)), "cache"));
      }
    }
    for (int i = 0; i < element.size(); ++i) {
      copy_tensor(element, i, place(rows_, static_cast<size_t>(i)), "cache");
    }
    ++rows_;
  }

  uint64_t fingerprint_;
  Layout layout_;
  std::vector<size_t> row_bytes_;
  int64_t block_rows_ = 1, rows_ = 0;
  std::vector<std::vector<Ref<Storage>>> blocks_;
};

}  // namespace

std::shared_ptr<const StreamSource> filter_source(std::shared_ptr<const Recipe> input,
                                                  std::function<bool(const Element&)> keep) {
  return std::make_shared<FilterSource>(std::move(input), std::move(keep));
}

std::shared_ptr<const StreamSource> interleave_source(std::shared_ptr<const Recipe> input,
                                                      RecipeFunction function,
                                                      const InterleaveOptions& options, const char* where) {
  std::unique_ptr<Loader> loader;
  const Element& first = first_element(input, loader, where);
  const auto sample = in_stage(where, input->stages + 1, loader->position(), [&] { return function(first); });
  return std::make_shared<InterleaveSource>(std::move(input), std::move(function), options, where,
                                            sample->results());
}

std::shared_ptr<const StreamSource> unbatch_source(std::shared_ptr<const Recipe> input) {
  return UnbatchSource::make(std::move(input));
}

std::shared_ptr<const RowSource> cached_rows(const std::shared_ptr<const Recipe>& input, size_t limit_bytes) {
  return std::make_shared<CachedRows>(input, limit_bytes);
}

}  // namespace isochron::data
