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

/// Which of the contiguous elements at `data` are NaN or infinite; none for dtypes that can't be. About as
/// fast as memory is read.
std::optional<NotFinite> find_not_finite(const TensorSpec& spec, const std::byte* data);

/// "f32(4, 10): 3 of 40 elements are NaN or infinite, the first at (0, 7)".
std::string not_finite_text(const TensorSpec& spec, const NotFinite& found);

}  // namespace isochron
