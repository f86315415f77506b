// A tensor of channels as group normalization sees it.
#pragma once

#include <cstdint>

#include "isochron/core/tensor/shape.h"
#include "isochron/graph/ir/attributes.h"

namespace isochron::ops {

/// x (..., C) as (samples, positions, groups, width): moments are taken over positions and width. With
/// `batch` they are also taken over the samples: the view then has one sample with the positions of all.
struct GroupView {
  int64_t samples = 1;
  int64_t positions = 1;
  int64_t groups = 1;
  int64_t width = 1;

  GroupView(const Shape& x, int64_t group_count, bool batch)
      : samples(batch || x.rank() < 2 ? 1 : x[0]), groups(group_count), width(x.back() / group_count) {
    const int64_t channels = x.back();
    positions = samples * channels == 0 ? 0 : x.elems() / (samples * channels);
  }
  int64_t channels() const { return groups * width; }
  /// The number of elements per moment.
  int64_t count() const { return positions * width; }
};

inline GroupView group_view(const Shape& x, const graph::Attributes& attributes) {
  return {x, attributes.get<int64_t>("groups"), attributes.get<bool>("batch")};
}

}  // namespace isochron::ops
