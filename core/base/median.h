// The middle of a few numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace isochron {

/// The value in the middle, the larger one of two. Of one value at least.
template <typename T>
double middle_of(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return static_cast<double>(*middle);
}

}  // namespace isochron
