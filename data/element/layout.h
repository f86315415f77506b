// Layout: the names, dtypes and shapes that the elements of a stage have.
#pragma once

#include <string>
#include <vector>

#include "isochron/data/element/element.h"

namespace isochron::data {

struct Layout {
  std::vector<std::string> names;
  Signature specs;

  static Layout of(const Element& element);
  /// Whether `element` has these names and specs; kAnyExtent matches every extent.
  bool matches(const Element& element) const;
  /// Whether no extent varies.
  bool fixed() const;
  /// The bytes of an element, for a fixed layout. Throws kOverflow.
  size_t size_bytes() const;
  std::string str() const;

  friend bool operator==(const Layout&, const Layout&) = default;
};

/// The layout of `elems` elements of `layout` stacked along a new first axis. Throws kOverflow,
/// kInvalidArgument (rank).
Layout stacked(const Layout& layout, int64_t elems);

/// A layout that covers all of `layouts`, which must have equal names, dtypes and ranks: extents that differ
/// become kAnyExtent. Throws kInvalidArgument otherwise.
Layout merged(const std::vector<Layout>& layouts);

}  // namespace isochron::data
