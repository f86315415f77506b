#include "isochron/data/element/layout.h"

#include <algorithm>

#include "isochron/core/base/checked.h"

namespace isochron::data {
namespace {

bool matches_spec(const TensorSpec& expected, const Tensor& tensor) {
  if (!tensor.defined() || tensor.is_value()) return false;
  if (expected.dtype != tensor.dtype() || expected.shape.rank() != tensor.rank()) return false;
  for (int axis = 0; axis < tensor.rank(); ++axis) {
    const int64_t extent = expected.shape[axis];
    if (extent != kAnyExtent && extent != tensor.shape()[axis]) return false;
  }
  return true;
}

bool fixed_spec(const TensorSpec& spec) { return !spec.shape.contains(kAnyExtent); }

}  // namespace

Layout Layout::of(const Element& element) {
  Layout result;
  for (int i = 0; i < element.size(); ++i) result.names.push_back(element.name(i));
  result.specs = element.signature();
  return result;
}

bool Layout::matches(const Element& element) const {
  if (static_cast<size_t>(element.size()) != specs.size()) return false;
  for (int i = 0; i < element.size(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (element.name(i) != names[at] || !matches_spec(specs[at], element[i])) return false;
  }
  return true;
}

bool Layout::fixed() const { return std::ranges::all_of(specs, fixed_spec); }

size_t Layout::size_bytes() const {
  size_t bytes = 0;
  for (const TensorSpec& spec : specs) bytes = checked_add(bytes, spec.size_bytes(), "element");
  return bytes;
}

std::string Layout::str() const {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    text += fmt::format("{}{}: {}", i ? ", " : "", names[i], specs[i].str());
  }
  return text;
}

Layout stacked(const Layout& layout, int64_t elems) {
  Layout result{layout.names, {}};
  for (const TensorSpec& spec : layout.specs) {
    TensorSpec more{spec.dtype, Shape{elems}};
    for (int64_t extent : spec.shape) more.shape.push_back(extent);
    if (fixed_spec(more)) static_cast<void>(more.size_bytes());  // refuses what overflows
    result.specs.push_back(more);
  }
  return result;
}

Layout merged(const std::vector<Layout>& layouts) {
  Layout result = layouts[0];
  for (const Layout& layout : layouts) {
    const auto refuse_unless = [&](bool alike) {
      require(alike, ErrorCode::kInvalidArgument, "dataset",
              "elements need the same names, dtypes and ranks, got {} and {}", layouts[0].str(),
              layout.str());
    };
    refuse_unless(layout.names == result.names);
    for (size_t i = 0; i < result.specs.size(); ++i) {
      TensorSpec& spec = result.specs[i];
      const TensorSpec& other = layout.specs[i];
      refuse_unless(spec.dtype == other.dtype && spec.shape.rank() == other.shape.rank());
      for (int axis = 0; axis < spec.shape.rank(); ++axis) {
        if (spec.shape[axis] != other.shape[axis]) spec.shape[axis] = kAnyExtent;
      }
    }
  }
  return result;
}

}  // namespace isochron::data
