#include "isochron/data/pipeline/dataset.h"

#include <algorithm>
#include <utility>

#include "isochron/core/base/checked.h"
#include "isochron/core/base/seed.h"
#include "isochron/data/element/interrupt.h"
#include "isochron/data/element/slices.h"
#include "isochron/data/pipeline/infer_layouts.h"
#include "isochron/data/pipeline/loader.h"
#include "isochron/data/pipeline/sharding.h"
#include "isochron/data/pipeline/streams.h"
#include "isochron/memory/cuda/gpu.h"

namespace isochron::data {
namespace {

/// If a shuffle's buffer holds all elements and there are more than this, the order is a computed
/// permutation. Fewer elements are cheap to buffer, and to draw again on resume.
constexpr int64_t kMaxBuffered = 4096;

/// A copy of `recipe` to which one more stage is added.
std::shared_ptr<Recipe> next_stage(const Recipe& recipe) {
  auto result = std::make_shared<Recipe>(recipe);
  ++result->stages;
  return result;
}

void add_order(Recipe& recipe, OrderStage stage) {
  stage.salt = recipe.first_salt + recipe.order.size();
  stage.rows = recipe.levels.back().rows;
  stage.partial_rows = recipe.partial_rows;
  stage.input_size = recipe.size;
  stage.seekable = recipe.seekable && recipe.rows;
  recipe.order.push_back(stage);
}

/// `size` minus `elems`, at least 0. Unknown and infinite sizes stay.
int64_t size_without(int64_t size, int64_t elems) {
  return size < 0 ? size : std::max<int64_t>(0, size - elems);
}

void require_fixed(const Recipe& recipe, std::string_view where) {
  const Layout& layout = recipe.results()[kFull];
  require(layout.fixed(), ErrorCode::kInvalidArgument, where,
          "the extents of elements vary ({}); use padded_batch", layout.str());
}

}  // namespace

void rethrow_in_stage(std::string_view stage, int number, const Position& position) {
  const auto refuse = [&](ErrorCode code, const char* text) {
    const std::string row = position.row == kNoRow ? "" : fmt::format(", row {}", position.row);
    fail(code, fmt::format("{} (stage {})", stage, number), "element {} of epoch {}{}: {}", position.element,
         position.epoch, row, text);
  };
  try {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& error) {
    refuse(error.code(), error.what());
  } catch (const std::exception& error) {
    refuse(ErrorCode::kInvalidArgument, error.what());
  } catch (...) {
    refuse(ErrorCode::kInvalidArgument, "the function threw something that is not a std::exception");
  }
  __builtin_unreachable();
}

void call_map(const MapStage& map, Element& element, ElementBuffer* memory, const Position& position) {
  in_stage("map", map.number, position, [&] {
    const ElementDraws draws(static_cast<uint64_t>(map.number), position.branch, position.epoch,
                             static_cast<uint64_t>(position.element));
    if (map.into) {
      map.into(element, *memory, position);
      element = memory->element();
    } else {
      map.function(element, position);
    }
  });
}

std::shared_ptr<Recipe> recipe_over(std::shared_ptr<const RowSource> rows) {
  auto recipe = std::make_shared<Recipe>();
  recipe->size = rows->rows();
  recipe->levels.push_back({.inputs = {rows->layout()}, .memory = rows->layout()});
  recipe->rows = std::move(rows);
  return recipe;
}

std::shared_ptr<Recipe> recipe_over(std::shared_ptr<const StreamSource> stream) {
  auto recipe = std::make_shared<Recipe>();
  recipe->size = stream->size();
  recipe->levels.push_back({.inputs = stream->layouts(), .memory = merged(stream->layouts())});
  recipe->stream = std::move(stream);
  return recipe;
}

uint64_t next_salt(const Recipe& recipe) {
  const bool shuffles = std::ranges::any_of(recipe.order, &OrderStage::shuffles);
  return shuffles || recipe.first_salt > 0 ? recipe.first_salt + recipe.order.size() : 0;
}

Dataset counted_on(const Recipe& input, const Dataset& dataset) {
  auto recipe = std::make_shared<Recipe>(*dataset.recipe());
  recipe->stages = input.stages + 1;
  recipe->first_salt = next_salt(input);
  return Dataset(std::move(recipe));
}

Dataset::Dataset(std::shared_ptr<const Recipe> recipe) : recipe_(std::move(recipe)) {}
Dataset::Dataset(const Dataset& other) : recipe_(other.recipe_) {}
// A moved-from dataset keeps its recipe.
Dataset::Dataset(Dataset&& other) noexcept
    : recipe_(other.recipe_),
      loader_(std::move(other.loader_)),
      next_epoch_(std::exchange(other.next_epoch_, std::nullopt)) {}
Dataset& Dataset::operator=(Dataset other) noexcept {
  recipe_ = std::move(other.recipe_);
  loader_ = std::move(other.loader_);
  next_epoch_ = std::exchange(other.next_epoch_, std::nullopt);
  return *this;
}
Dataset::~Dataset() = default;

Dataset::Dataset(const Element& sources) : Dataset(std::make_shared<SliceSource>(sources)) {}

Dataset::Dataset(std::shared_ptr<const RowSource> rows) {
  require(rows != nullptr && rows->rows() > 0, ErrorCode::kInvalidArgument, "dataset",
          "the source has no rows");
  recipe_ = recipe_over(std::move(rows));
}

Dataset::Dataset(std::shared_ptr<const StreamSource> stream) {
  require(stream != nullptr && !stream->layouts().empty(), ErrorCode::kInvalidArgument, "dataset",
          "the source declares no layout");
  require(stream->size() != 0, ErrorCode::kInvalidArgument, "dataset", "the source has no elements");
  recipe_ = recipe_over(std::move(stream));
}

Dataset Dataset::map(std::function<Element(Element)> function, MapOptions options) const {
  require(function != nullptr, ErrorCode::kInvalidArgument, "map", "the function is empty");
  return map_with_position([function = std::move(function)](
                               Element& element, const Position&) { element = function(std::move(element)); },
                           std::move(options));
}

Dataset Dataset::map_with_position(MapFunction function, MapOptions options) const {
  require(function != nullptr, ErrorCode::kInvalidArgument, "map", "the function is empty");
  MapStage map{.number = recipe_->stages + 1, .function = std::move(function)};
  map.results = infer_results(*recipe_, map, options.result);
  return with_map(std::move(map), options);
}

Dataset Dataset::map_into(std::vector<std::string> names, Signature signature, IntoFunction function,
                          MapOptions options) const {
  require(function != nullptr, ErrorCode::kInvalidArgument, "map_into", "the function is empty");
  require(!names.empty() && names.size() == signature.size(), ErrorCode::kInvalidArgument, "map_into",
          "{} names and {} specs; expected one spec per name, and at least one", names.size(),
          signature.size());
  require(options.result.empty(), ErrorCode::kInvalidArgument, "map_into",
          "the result is declared by the signature, not in the options");
  MapStage map{.number = recipe_->stages + 1, .into = std::move(function)};
  map.results = declared_results(*recipe_, {std::move(names), std::move(signature)});
  map.memory = merged(map.results);
  return with_map(std::move(map), options);
}

Dataset Dataset::with_map(MapStage map, const MapOptions& options) const {
  constexpr int64_t kMaxParallel = 256;
  require(options.parallel == kAutotune || (options.parallel >= 1 && options.parallel <= kMaxParallel),
          ErrorCode::kInvalidArgument, "map", "parallel: expected kAutotune or a count in [1, {}], got {}",
          kMaxParallel, options.parallel);
  auto recipe = next_stage(*recipe_);
  if (options.parallel == 1) map.one_at_a_time = std::make_shared<std::mutex>();
  recipe->levels.back().maps.push_back(std::move(map));
  if (options.parallel != 1) {
    const bool automatic = options.parallel == kAutotune || recipe->workers == kAutotune;
    recipe->workers = automatic ? kAutotune : std::max(recipe->workers, options.parallel);
    if (recipe->prefetch_elems == 0) recipe->prefetch_elems = kAutotune;
  }
  if (!options.deterministic) recipe->deterministic = false;
  return Dataset(std::move(recipe));
}

Dataset Dataset::filter(std::function<bool(const Element&)> keep) const {
  require(keep != nullptr, ErrorCode::kInvalidArgument, "filter", "the function is empty");
  return after(filter_source(recipe_, std::move(keep)));
}

Dataset Dataset::flat_map(std::function<Dataset(const Element&)> function) const {
  return interleaved(std::move(function), {.cycle = 1}, "flat_map");
}

Dataset Dataset::interleave(std::function<Dataset(const Element&)> function,
                            InterleaveOptions options) const {
  return interleaved(std::move(function), options, "interleave");
}

Dataset Dataset::interleaved(std::function<Dataset(const Element&)> function, InterleaveOptions options,
                             const char* where) const {
  require(function != nullptr, ErrorCode::kInvalidArgument, where, "the function is empty");
  require(options.cycle >= 1 && options.block >= 1, ErrorCode::kInvalidArgument, where,
          "cycle and block must be >= 1, got {} and {}", options.cycle, options.block);
  constexpr int64_t kMaxCycle = 65'536;
  require(options.cycle <= kMaxCycle, ErrorCode::kInvalidArgument, where, "cycle must be <= {}, got {}",
          kMaxCycle, options.cycle);
  return after(interleave_source(
      recipe_,
      [function = std::move(function)](const Element& element) { return function(element).recipe(); },
      options, where));
}

Dataset Dataset::unbatch() const { return after(unbatch_source(recipe_)); }

/// A dataset over a stream that reads this one.
Dataset Dataset::after(std::shared_ptr<const StreamSource> stream) const {
  return counted_on(*recipe_, Dataset(std::move(stream)));
}

Dataset Dataset::shuffle(int64_t buffer_elems, ShuffleOptions options) const {
  constexpr int64_t kMaxBufferedRows = int64_t{1} << 30;
  require(buffer_elems >= 1, ErrorCode::kInvalidArgument, "shuffle",
          "expected a buffer of at least 1 element, got {}", buffer_elems);
  const bool seeded = options.seed || !options.reshuffle;
  if (!options.seed) options.seed = default_seed("shuffle");
  auto recipe = next_stage(*recipe_);
  const int64_t used = recipe->size < 0 ? buffer_elems : std::min(buffer_elems, recipe->size);
  const bool whole = used == recipe->size && used > kMaxBuffered && recipe->seekable && recipe->rows;
  require(whole || used <= kMaxBufferedRows / recipe->levels.back().rows, ErrorCode::kInvalidArgument,
          "shuffle", "a buffer of {} elements of {} rows exceeds the limit of {} rows", used,
          recipe->levels.back().rows, kMaxBufferedRows);
  add_order(*recipe, {.kind = whole ? OrderStage::kPermute : OrderStage::kShuffle,
                      .elems = used,
                      .shuffle = options,
                      .seeded = seeded});
  recipe->partial_is_last = false;
  if (!whole) recipe->seekable = false;
  return Dataset(std::move(recipe));
}

Dataset Dataset::batch(int64_t batch_elems, BatchOptions options) const {
  require_fixed(*recipe_, "batch");
  return with_batches(
      batch_elems, {.drop_remainder = options.drop_remainder, .pad_remainder = options.pad_remainder}, false);
}

Dataset Dataset::padded_batch(int64_t batch_elems, PaddedBatchOptions options) const {
  return with_batches(batch_elems, options, true);
}

Dataset Dataset::with_batches(int64_t batch_elems, const PaddedBatchOptions& options, bool padded) const {
  const char* where = padded ? "padded_batch" : "batch";
  require(batch_elems >= 1, ErrorCode::kInvalidArgument, where, "expected at least 1 element, got {}",
          batch_elems);
  require(recipe_->partial_rows == 0, ErrorCode::kInvalidArgument, where,
          "the last element has fewer rows than the others; batch those with drop_remainder first");
  require(recipe_->results().size() == 1, ErrorCode::kInvalidArgument, where,
          "elements have {} different signatures", recipe_->results().size());
  require(!options.drop_remainder || !options.pad_remainder, ErrorCode::kInvalidArgument, where,
          "the remainder is either dropped or padded");
  auto recipe = next_stage(*recipe_);
  const Level& below = recipe->levels.back();
  const int64_t size = recipe->size;
  require(size < 0 || !options.drop_remainder || size >= batch_elems, ErrorCode::kInvalidArgument, where,
          "nothing is left: {} elements give no batch of {} and the remainder is dropped", size, batch_elems);
  require(size != kUnknown || options.drop_remainder || options.pad_remainder, ErrorCode::kInvalidArgument,
          where,
          "the number of elements isn't known, so a partial last batch can't be planned; drop_remainder, "
          "pad_remainder, or cache() the elements first, which counts them");
  // If a single batch takes all elements, it is the full one.
  const int64_t held = size <= 0 || options.pad_remainder ? batch_elems : std::min(batch_elems, size);
  const int64_t partial = size < 0 || options.drop_remainder || options.pad_remainder ? 0 : size % held;
  Level level;
  level.number = recipe->stages;
  level.batch_elems = held;
  level.rows = checked_mul(below.rows, held, where);
  level.padded = padded;
  level.marks_valid = options.pad_remainder;
  const Layout row =
      padded ? padded_layout(below.results()[kFull], options, level.padding) : below.results()[kFull];
  level.inputs.push_back(stacked(row, held));
  if (partial > 0) level.inputs.push_back(stacked(row, partial));
  if (level.marks_valid) {
    require(std::ranges::find(row.names, "valid") == row.names.end(), ErrorCode::kInvalidArgument, where,
            "an element has a tensor 'valid' already; pad_remainder needs the name");
    level.inputs[kFull].names.push_back("valid");
    level.inputs[kFull].specs.push_back({DType::kBool, {held}});
  }
  level.memory = merged(level.inputs);
  recipe->partial_rows = partial * below.rows;
  add_order(*recipe, {.kind = OrderStage::kBatch,
                      .elems = held,
                      .drop_remainder = options.drop_remainder,
                      .pad_remainder = options.pad_remainder});
  if (size >= 0) recipe->size = size / held + (size % held > 0 && !options.drop_remainder);
  recipe->partial_is_last = true;
  recipe->levels.push_back(std::move(level));
  return Dataset(std::move(recipe));
}

Dataset Dataset::repeat(int64_t times) const {
  require(times == kInfinite || times >= 1, ErrorCode::kInvalidArgument, "repeat",
          "expected at least 1 or kInfinite, got {}", times);
  auto recipe = next_stage(*recipe_);
  add_order(*recipe, {.kind = OrderStage::kRepeat, .elems = times});
  if (times == kInfinite) {
    if (recipe->size != 0) recipe->size = kInfinite;
  } else if (recipe->size >= 0) {
    recipe->size = checked_mul(recipe->size, times, "repeat");
  }
  if (times != 1) recipe->partial_is_last = false;
  return Dataset(std::move(recipe));
}

Dataset Dataset::take(int64_t elems) const {
  require(elems >= 1, ErrorCode::kInvalidArgument, "take", "expected at least 1 element, got {}", elems);
  auto recipe = next_stage(*recipe_);
  add_order(*recipe, {.kind = OrderStage::kTake, .elems = elems});
  if (recipe->size == kInfinite || elems < recipe->size) {
    if (recipe->partial_is_last) drop_partial(*recipe);
    recipe->size = elems;
  }
  return Dataset(std::move(recipe));
}

Dataset Dataset::skip(int64_t elems) const {
  require(elems >= 0, ErrorCode::kInvalidArgument, "skip", "expected at least 0 elements, got {}", elems);
  require(recipe_->size < 0 || elems < recipe_->size || elems == 0, ErrorCode::kInvalidArgument, "skip",
          "nothing is left: {} of {} elements are skipped", elems, recipe_->size);
  auto recipe = next_stage(*recipe_);
  add_order(*recipe, {.kind = OrderStage::kSkip, .elems = elems});
  recipe->size = size_without(recipe->size, elems);
  return Dataset(std::move(recipe));
}

Dataset Dataset::shard(int64_t shards, int64_t index, int64_t block) const {
  require(shards >= 1 && index >= 0 && index < shards, ErrorCode::kInvalidArgument, "shard",
          "expected 0 <= index < shards, got index {} of {}", index, shards);
  require(block >= 1 && block <= INT64_MAX / shards, ErrorCode::kInvalidArgument, "shard",
          "expected a block of at least 1 element, and shards * block below 2^63, got {} blocks of {}",
          shards, block);
  auto recipe = next_stage(*recipe_);
  add_order(*recipe, {.kind = OrderStage::kShard, .elems = shards, .index = index, .block = block});
  if (recipe->size >= 0) {
    const Sharding sharding{shards, index, block};
    if (recipe->partial_is_last && recipe->partial_rows > 0 && !sharding.takes(recipe->size - 1))
      drop_partial(*recipe);
    recipe->size = sharding.elems_of(recipe->size);
  }
  return Dataset(std::move(recipe));
}

Dataset Dataset::cache(size_t limit_bytes) const {
  require(recipe_->size != kInfinite, ErrorCode::kInvalidArgument, "cache",
          "the dataset has no end; limit it with take()");
  require(recipe_->results().size() == 1, ErrorCode::kInvalidArgument, "cache",
          "elements have {} different signatures; cache before batch", recipe_->results().size());
  require_fixed(*recipe_, "cache");
  return counted_on(*recipe_, Dataset(cached_rows(recipe_, limit_bytes)));
}

Dataset Dataset::prefetch(int64_t elems) const {
  constexpr int64_t kMaxElems = 1024;
  require(elems == kAutotune || (elems >= 1 && elems <= kMaxElems), ErrorCode::kInvalidArgument, "prefetch",
          "expected kAutotune or a count in [1, {}], got {}", kMaxElems, elems);
  auto recipe = next_stage(*recipe_);
  recipe->prefetch_elems = elems;
  return Dataset(std::move(recipe));
}

std::vector<Signature> Dataset::signatures() const {
  std::vector<Signature> result;
  for (const Layout& layout : recipe_->results()) result.push_back(layout.specs);
  return result;
}

const std::vector<std::string>& Dataset::names() const { return recipe_->results()[kFull].names; }

int64_t Dataset::size() const { return recipe_->size; }

Loader& Dataset::loader() {
  if (!loader_) loader_ = std::make_unique<Loader>(recipe_);
  return *loader_;
}

uint64_t Dataset::next_epoch() const {
  if (next_epoch_) return *next_epoch_;
  return loader_ ? loader_->next_epoch() : 0;
}

Dataset::Iterator Dataset::begin() {
  const uint64_t epoch = next_epoch();
  next_epoch_.reset();
  loader().begin_epoch(epoch);
  return Iterator(loader());
}

void Dataset::pin_memory(Device device) {
  if (device.is_cpu()) return;
  cuda::gpu(device);
  if (loader_) return;
  auto recipe = std::make_shared<Recipe>(*recipe_);
  recipe->device = device;
  recipe_ = std::move(recipe);
}

std::string Dataset::state() { return loader().state(); }

Dataset::Iterator Dataset::resume(std::string_view state) {
  next_epoch_.reset();
  loader().resume(state);
  return Iterator(loader());
}

PipelineStats Dataset::stats() const { return loader_ ? loader_->stats() : PipelineStats{}; }

Dataset::Iterator::Iterator(Loader& loader)
    : loader_(&loader), epoch_(loader.epoch()), loop_(loader.loop()), element_(loader.next()) {}

Dataset::Iterator& Dataset::Iterator::operator++() {
  require(
      loader_->loop() == loop_, ErrorCode::kStale, "dataset",
      "this loop is over epoch {}, but another loop, over epoch {}, has begun since; use one loop at a time",
      epoch_, loader_->epoch());
  element_ = loader_->next();
  return *this;
}

}  // namespace isochron::data
