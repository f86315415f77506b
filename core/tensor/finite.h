// Looking for NaN and infinity.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "isochron/core/tensor/shape.h"

namespace isochron {

struct NotFinite {
  int64_t first = 0;  // element in row-major order
  int64_t count = 0;
  int64_t nans = 0;  // of these, how many are NaN
};

/// Finds the NaN and infinite elements among the contiguous elements at `data`. nullopt if there are none,
/// and for integers and bool. About as fast as memory can be read.
std::optional<NotFinite> find_not_finite(const TensorSpec& spec, const std::byte* data);

/// "f32(4, 10): 3 of 40 elements are NaN or infinite, the first at (0, 7)".
std::string not_finite_text(const TensorSpec& spec, const NotFinite& found);

}  // namespace isochron
