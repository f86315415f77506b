// The dtypes and shapes of a call's arguments, or of an element's tensors.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

using Signature = std::vector<TensorSpec>;

/// "(f32(32, 10), i64(32))".
std::string signature_str(std::span<const TensorSpec> signature);
/// Whether `other` equals `usual` except for fewer rows: a partial last batch.
bool has_fewer_rows(const Signature& other, const Signature& usual);

}  // namespace isochron
