// The median of a few numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace isochron {

/// The median, or the larger of the two middle values. `values` must not be empty.
template <typename T>
double middle_of(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return static_cast<double>(*middle);
}

}  // namespace isochron
