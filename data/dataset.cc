#include "isochron/data/dataset.h"

#include <algorithm>
#include <charconv>

#include "isochron/core/checked.h"
#include "isochron/data/loader.h"

namespace isochron::data {
namespace {

/// The specs of `batch_elems` stacked elements of `layout`.
Layout stacked(const Layout& layout, int64_t batch_elems) {
  Layout result{layout.names, {}};
  for (const TensorSpec& spec : layout.specs) {
    Shape shape{batch_elems};
    for (int64_t extent : spec.shape) shape.push_back(extent);
    result.specs.push_back({spec.dtype, shape});
    static_cast<void>(result.specs.back().size_bytes());  // refuses what overflows
  }
  return result;
}

/// An element made of the first rows, as `map` shows it to its function.
std::vector<int64_t> first_rows(int64_t rows, int64_t source_rows) {
  std::vector<int64_t> key(static_cast<size_t>(rows));
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<int64_t>(i) % source_rows;
  return key;
}

/// A copy of `recipe` to which one more stage is added.
std::shared_ptr<Recipe> next_stage(const Recipe& recipe) {
  auto result = std::make_shared<Recipe>(recipe);
  ++result->stages;
  return result;
}

void add_order(Recipe& recipe, OrderStage stage) {
  stage.salt = recipe.order.size();
  stage.rows = recipe.levels.back().rows;
  recipe.order.push_back(stage);
}

int64_t element_bytes(const Recipe& recipe) {
  int64_t bytes = 1;
  for (const TensorSpec& spec : recipe.levels.back().result(kFull).specs) {
    bytes += static_cast<int64_t>(spec.size_bytes());
  }
  return bytes;
}

}  // namespace

Layout Layout::of(const Element& element) {
  Layout result;
  for (int i = 0; i < element.size(); ++i) result.names.push_back(element.name(i));
  result.specs = element.signature();
  return result;
}

bool Layout::matches(const Element& element) const {
  if (!element.has(specs)) return false;
  for (int i = 0; i < element.size(); ++i) {
    if (element.name(i) != names[static_cast<size_t>(i)]) return false;
  }
  return true;
}

std::string Layout::str() const {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += fmt::format("{}{}: {}", i ? ", " : "", names[i], specs[i].str());
  }
  return text;
}

Element call_map(const MapStage& map, Element element, const Position& position, int64_t row) {
  const auto refuse = [&](ErrorCode code, const char* text) {
    fail(code, fmt::format("map (stage {})", map.number), "element {} of epoch {}, row {}: {}",
         position.element, position.epoch, row, text);
  };
  try {
    return map.function(std::move(element));
  } catch (const Error& error) {
    refuse(error.code(), error.what());
  } catch (const std::exception& error) {
    refuse(ErrorCode::kInvalidArgument, error.what());
  }
  __builtin_unreachable();
}

Dataset::Dataset(std::shared_ptr<const Recipe> recipe) : recipe_(std::move(recipe)) {}
Dataset::Dataset(const Dataset& other) : recipe_(other.recipe_) {}
Dataset::Dataset(Dataset&&) noexcept = default;
Dataset& Dataset::operator=(Dataset other) noexcept {
  recipe_ = std::move(other.recipe_);
  loader_ = std::move(other.loader_);
  return *this;
}
Dataset::~Dataset() = default;

Dataset::Dataset(const Element& sources) {
  constexpr std::string_view kWhere = "from_tensor_slices";
  require(sources.size() > 0, ErrorCode::kInvalidArgument, kWhere, "needs at least one tensor");
  auto recipe = std::make_shared<Recipe>();
  Layout row;
  for (int i = 0; i < sources.size(); ++i) {
    const Tensor& tensor = sources[i];
    const std::string& name = sources.name(i);
    static_cast<void>(tensor.raw());  // refuses undefined tensors and graph values
    require(tensor.rank() >= 1, ErrorCode::kInvalidArgument, kWhere, "'{}' is a scalar; it has no rows",
            name);
    require(tensor.contiguous(), ErrorCode::kInvalidArgument, kWhere,
            "'{}' is strided; pass contiguous() of it", name);
    require(tensor.extent(0) == sources[0].extent(0), ErrorCode::kShapeMismatch, kWhere,
            "'{}' has {} rows, '{}' has {}; all tensors need the same first extent", sources.name(0),
            sources[0].extent(0), name, tensor.extent(0));
    row.names.push_back(name);
    row.specs.push_back({tensor.dtype(), Shape(tensor.shape().span().subspan(1))});
  }
  recipe->sources = sources;
  recipe->source_rows = recipe->size = sources[0].extent(0);
  require(recipe->size > 0, ErrorCode::kInvalidArgument, kWhere, "the dataset is empty: {} has no row",
          sources.str());
  recipe->levels.push_back({.inputs = {row, {}}, .maps = {}});
  recipe_ = std::move(recipe);
}

Dataset Dataset::map(MapFunction function) const {
  require(function != nullptr, ErrorCode::kInvalidArgument, "map", "the function is empty");
  auto recipe = next_stage(*recipe_);
  MapStage map{recipe->stages, std::move(function), {}};
  Frame frame(*recipe_, recipe_->levels.size() - 1);
  const auto learn = [&](Form form, int64_t rows) {
    const auto key = first_rows(rows, recipe_->source_rows);
    const Element result = call_map(map, frame.fill(key, {}), {}, key[0]);
    require(result.size() > 0, ErrorCode::kInvalidArgument, "map",
            "the function gives an element without tensors");
    for (int i = 0; i < result.size(); ++i) {
      require(result[i].defined() && !result[i].is_value(), ErrorCode::kInvalidArgument, "map",
              "the function leaves '{}' without content", result.name(i));
    }
    map.results[form] = Layout::of(result);
    frame.retire();
  };
  learn(kFull, recipe->levels.back().rows);
  if (recipe->odd_rows > 0) learn(kOdd, recipe->odd_rows);
  recipe->levels.back().maps.push_back(std::move(map));
  return Dataset(std::move(recipe));
}

Dataset Dataset::shuffle(int64_t buffer_elems, ShuffleOptions options) const {
  constexpr int64_t kMaxBufferedRows = int64_t{1} << 30;
  require(buffer_elems >= 1, ErrorCode::kInvalidArgument, "shuffle",
          "expected a buffer of at least 1 element, got {}", buffer_elems);
  auto recipe = next_stage(*recipe_);
  const int64_t used = recipe->size == kInfinite ? buffer_elems : std::min(buffer_elems, recipe->size);
  require(used <= kMaxBufferedRows / recipe->levels.back().rows, ErrorCode::kInvalidArgument, "shuffle",
          "a buffer of {} elements of {} rows exceeds the limit of {} rows", used, recipe->levels.back().rows,
          kMaxBufferedRows);
  add_order(*recipe, {.kind = OrderStage::kShuffle, .elems = used, .shuffle = options});
  recipe->odd_is_last = false;
  return Dataset(std::move(recipe));
}

Dataset Dataset::batch(int64_t batch_elems, BatchOptions options) const {
  require(batch_elems >= 1, ErrorCode::kInvalidArgument, "batch", "expected at least 1 element, got {}",
          batch_elems);
  require(recipe_->odd_rows == 0, ErrorCode::kInvalidArgument, "batch",
          "the last element has fewer rows than the others; batch those with drop_remainder first");
  auto recipe = next_stage(*recipe_);
  const Level& below = recipe->levels.back();
  const bool endless = recipe->size == kInfinite;
  require(endless || !options.drop_remainder || recipe->size >= batch_elems, ErrorCode::kInvalidArgument,
          "batch", "nothing is left: {} elements give no batch of {} and the remainder is dropped",
          recipe->size, batch_elems);
  // Where one batch takes all there is, that is the full one.
  const int64_t held = endless ? batch_elems : std::min(batch_elems, recipe->size);
  const int64_t odd = endless || options.drop_remainder ? 0 : recipe->size % held;
  Level level;
  level.batch_elems = held;
  level.rows = checked_mul(below.rows, held, "batch");
  level.inputs[kFull] = stacked(below.result(kFull), held);
  recipe->odd_rows = odd * below.rows;
  if (odd > 0) level.inputs[kOdd] = stacked(below.result(kFull), odd);
  add_order(*recipe, {.kind = OrderStage::kBatch, .elems = held, .drop_remainder = options.drop_remainder});
  if (!endless) recipe->size = recipe->size / held + (odd > 0);
  recipe->odd_is_last = true;
  recipe->levels.push_back(std::move(level));
  return Dataset(std::move(recipe));
}

Dataset Dataset::repeat(int64_t times) const {
  require(times == kInfinite || times >= 1, ErrorCode::kInvalidArgument, "repeat",
          "expected at least 1 or kInfinite, got {}", times);
  auto recipe = next_stage(*recipe_);
  add_order(*recipe, {.kind = OrderStage::kRepeat, .elems = times});
  if (times == kInfinite || recipe->size == kInfinite) {
    recipe->size = kInfinite;
  } else {
    recipe->size = checked_mul(recipe->size, times, "repeat");
  }
  if (times != 1) recipe->odd_is_last = false;
  return Dataset(std::move(recipe));
}

Dataset Dataset::take(int64_t elems) const {
  require(elems >= 1, ErrorCode::kInvalidArgument, "take", "expected at least 1 element, got {}", elems);
  auto recipe = next_stage(*recipe_);
  add_order(*recipe, {.kind = OrderStage::kTake, .elems = elems});
  if (recipe->size == kInfinite || elems < recipe->size) {
    if (recipe->odd_is_last) recipe->odd_rows = 0;
    recipe->size = elems;
  }
  return Dataset(std::move(recipe));
}

Dataset Dataset::skip(int64_t elems) const {
  require(elems >= 0, ErrorCode::kInvalidArgument, "skip", "expected at least 0 elements, got {}", elems);
  require(recipe_->size == kInfinite || elems < recipe_->size, ErrorCode::kInvalidArgument, "skip",
          "nothing is left: {} of {} elements are skipped", elems, recipe_->size);
  auto recipe = next_stage(*recipe_);
  add_order(*recipe, {.kind = OrderStage::kSkip, .elems = elems});
  if (recipe->size != kInfinite) recipe->size -= elems;
  return Dataset(std::move(recipe));
}

Dataset Dataset::prefetch(int64_t elems) const {
  constexpr int64_t kMaxElems = 1024, kAutotuneBytes = int64_t{32} << 20;
  require(elems == kAutotune || (elems >= 1 && elems <= kMaxElems), ErrorCode::kInvalidArgument, "prefetch",
          "expected kAutotune or a count in [1, {}], got {}", kMaxElems, elems);
  auto recipe = next_stage(*recipe_);
  recipe->prefetch_elems =
      elems == kAutotune ? std::clamp<int64_t>(kAutotuneBytes / element_bytes(*recipe), 2, 16) : elems;
  return Dataset(std::move(recipe));
}

std::vector<Signature> Dataset::signatures() const {
  const Level& top = recipe_->levels.back();
  std::vector<Signature> result{top.result(kFull).specs};
  if (recipe_->odd_rows > 0) result.push_back(top.result(kOdd).specs);
  return result;
}

const std::vector<std::string>& Dataset::names() const { return recipe_->levels.back().result(kFull).names; }

int64_t Dataset::size() const { return recipe_->size; }

Dataset::Iterator Dataset::begin() {
  if (!loader_) loader_ = std::make_unique<Loader>(recipe_);
  loader_->begin_epoch();
  return Iterator(*loader_);
}

std::string Dataset::state() const {
  return fmt::format("{} {}", loader_ ? loader_->epoch() : 0, loader_ ? loader_->taken() : 0);
}

Dataset::Iterator Dataset::resume(std::string_view state) {
  uint64_t epoch = 0;
  int64_t taken = 0;
  const char* const end = state.data() + state.size();
  const auto first = std::from_chars(state.data(), end, epoch);
  const bool spaced = first.ec == std::errc() && first.ptr != end && *first.ptr == ' ';
  const auto second = spaced ? std::from_chars(first.ptr + 1, end, taken) : first;
  require(spaced && second.ec == std::errc() && second.ptr == end && taken >= 0, ErrorCode::kBadFormat,
          "dataset", "'{}' is not the state of a dataset", state.substr(0, 100));
  loader_ = std::make_unique<Loader>(recipe_);
  loader_->resume(epoch, taken);
  return Iterator(*loader_);
}

Dataset::Iterator::Iterator(Loader& loader)
    : loader_(&loader), epoch_(loader.epoch()), element_(loader.next()) {}

Dataset::Iterator& Dataset::Iterator::operator++() {
  require(loader_->epoch() == epoch_, ErrorCode::kStale, "dataset",
          "this loop is over epoch {}, but epoch {} was begun; use one loop at a time", epoch_,
          loader_->epoch());
  element_ = loader_->next();
  return *this;
}

}  // namespace isochron::data
