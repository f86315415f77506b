#include "isochron/data/pipeline/infer_layouts.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "isochron/data/element/element_slots.h"
#include "isochron/data/element/interrupt.h"
#include "isochron/data/pipeline/element_builder.h"
#include "isochron/data/pipeline/loader.h"

namespace isochron::data {
namespace {

/// `rows` row numbers from the beginning, repeated if there are fewer rows.
std::vector<int64_t> first_rows(int64_t rows, int64_t source_rows) {
  std::vector<int64_t> indices(static_cast<size_t>(rows));
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i) % source_rows;
  return indices;
}

void fill_with_zeros(ElementBuffer& buffer, const Layout& layout) {
  for (size_t i = 0; i < layout.specs.size(); ++i) {
    Shape shape = layout.specs[i].shape;
    for (int64_t& extent : shape) extent = extent == kAnyExtent ? 1 : extent;
    std::byte* to = buffer.room(static_cast<int>(i), shape);
    std::memset(to, 0, TensorSpec{layout.specs[i].dtype, shape}.size_bytes());
  }
}

/// Indices of elements to pass to a map function: one per form of the last level.
class SampleIndices {
 public:
  explicit SampleIndices(const Recipe& recipe) : recipe_(recipe), slots_(recipe.levels[0].memory) {
    if (!recipe.stream) return;
    number_ = slots_.take();
    const auto stream = recipe.stream->open();
    const DrawingScope users({t_drawing.interrupt, false});  // a user function may be making the dataset
    stream->restart(0);
    // A dataset within another dataset's flat_map may be empty; an element of zeros is then used.
    if (!stream->next(slots_.at(number_).buffer))
      fill_with_zeros(slots_.at(number_).buffer, recipe.levels[0].inputs[kFull]);
  }

  const ElementSlots* slots() const { return recipe_.stream ? &slots_ : nullptr; }
  std::vector<int64_t> indices_of(size_t form) {
    const bool batched = recipe_.levels.size() > 1;
    const int64_t rows = batched && form == kPartial ? recipe_.partial_rows : recipe_.levels.back().rows;
    if (recipe_.rows) return first_rows(rows, recipe_.rows->rows());
    const std::vector<Layout>& forms = recipe_.levels.back().inputs;
    ElementBuffer& buffer = slots_.at(number_).buffer;
    if (!batched && !forms[form].matches(buffer.element())) fill_with_zeros(buffer, forms[form]);
    return std::vector<int64_t>(static_cast<size_t>(rows), number_);
  }

 private:
  const Recipe& recipe_;
  ElementSlots slots_;
  int64_t number_ = 0;
};

Layout checked_layout(const Element& result) {
  require(result.size() > 0, ErrorCode::kInvalidArgument, "map",
          "the function returned an element without tensors");
  for (int i = 0; i < result.size(); ++i) {
    require(result[i].defined() && !result[i].is_value(), ErrorCode::kInvalidArgument, "map",
            "the function returned '{}' without content", result.name(i));
  }
  return Layout::of(result);
}

}  // namespace

std::vector<Layout> declared_results(const Recipe& recipe, const Layout& declared) {
  const Level& level = recipe.levels.back();
  std::vector<Layout> results;
  for (size_t form = 0; form < level.inputs.size(); ++form) {
    // The declared layout is that of a full element; a partial batch has a different first extent.
    Layout& result = results.emplace_back(declared);
    if (recipe.levels.size() == 1 || form != kPartial) continue;
    for (TensorSpec& spec : result.specs) {
      if (spec.shape.rank() > 0 && spec.shape[0] == level.batch_elems) {
        spec.shape[0] = level.inputs[kPartial].specs[0].shape[0];
      }
    }
  }
  return results;
}

std::vector<Layout> infer_results(const Recipe& recipe, const MapStage& map, const Signature& declared) {
  std::vector<Layout> results;
  SampleIndices samples(recipe);
  ElementBuilder builder(recipe, recipe.levels.size() - 1, samples.slots(), true);
  for (size_t form = 0; form < recipe.results().size(); ++form) {
    const auto indices = samples.indices_of(form);
    const Position position{0, 0, recipe.stream ? 0 : indices[0]};
    Element element = builder.fill(indices, position);
    call_map(map, element, nullptr, position);
    results.push_back(checked_layout(element));
    builder.retire();
  }
  if (declared.empty()) return results;
  require(declared.size() == results[kFull].specs.size(), ErrorCode::kInvalidArgument, "map",
          "{} tensors are declared, but the function returned {}", declared.size(), results[kFull].str());
  return declared_results(recipe, {results[kFull].names, declared});
}

/// Whether `dtype` can hold `value`; floating dtypes can, with rounding.
bool holds(DType dtype, double value) {
  if (dtype == DType::kI64) return value == std::trunc(value) && value >= -0x1p63 && value < 0x1p63;
  if (dtype == DType::kI32) return value == std::trunc(value) && value >= INT32_MIN && value <= INT32_MAX;
  if (dtype == DType::kU8) return value == std::trunc(value) && value >= 0 && value <= UINT8_MAX;
  return dtype != DType::kBool || value == 0 || value == 1;
}

Layout padded_layout(const Layout& layout, const PaddedBatchOptions& options, std::vector<double>& padding) {
  Layout result = layout;
  padding.assign(layout.names.size(), 0.0);
  const auto index_of = [&](const std::string& name) {
    const auto found = std::ranges::find(layout.names, name);
    require(found != layout.names.end(), ErrorCode::kInvalidArgument, "padded_batch",
            "an element has no tensor '{}'; it is {}", name, layout.str());
    return static_cast<size_t>(found - layout.names.begin());
  };
  for (const auto& [name, shape] : options.shapes) {
    TensorSpec& spec = result.specs[index_of(name)];
    require(shape.rank() == spec.shape.rank(), ErrorCode::kInvalidArgument, "padded_batch",
            "'{}' is {}, but its padded shape is {}; the ranks must be equal", name, spec.str(), shape.str());
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const bool fits =
          spec.shape[axis] == kAnyExtent || shape[axis] == kAnyExtent || shape[axis] >= spec.shape[axis];
      require(fits, ErrorCode::kInvalidArgument, "padded_batch",
              "'{}' is {}, which exceeds its padded shape {}", name, spec.str(), shape.str());
      if (shape[axis] != kAnyExtent) spec.shape[axis] = shape[axis];
    }
  }
  for (const auto& [name, value] : options.padding) {
    const size_t i = index_of(name);
    require(holds(result.specs[i].dtype, value), ErrorCode::kInvalidArgument, "padded_batch",
            "'{}' is {}, which can't represent the padding value {}", name, result.specs[i].str(), value);
    padding[i] = value;
  }
  return result;
}

const Element& first_element(const std::shared_ptr<const Recipe>& recipe, std::unique_ptr<Loader>& loader,
                             std::string_view where) {
  auto plain = std::make_shared<Recipe>(*recipe);
  plain->prefetch_elems = 0;
  plain->workers = 1;
  loader = std::make_unique<Loader>(std::move(plain));
  loader->begin_epoch();
  const Element* first = loader->next();
  require(first != nullptr, ErrorCode::kInvalidArgument, where, "the dataset yields no element");
  return *first;
}

void drop_partial(Recipe& recipe) {
  recipe.partial_rows = 0;
  Level& level = recipe.levels.back();
  if (level.inputs.size() <= kPartial || recipe.levels.size() == 1) return;
  level.inputs.resize(1);
  for (MapStage& map : level.maps) map.results.resize(1);
}

}  // namespace isochron::data
