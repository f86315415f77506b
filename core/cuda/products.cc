#include "isochron/core/cuda/products.h"

#include "isochron/core/error.h"

namespace isochron::cuda {

void check(const ProductSpec& spec) {
  const auto refuse = [](bool good, const char* what) {
    require(good, ErrorCode::kInvalidArgument, "cuda", "a product {}", what);
  };
  refuse(spec.m > 0 && spec.n > 0 && spec.k > 0 && spec.count > 0, "with an extent below 1");
  refuse(spec.a_lead >= (spec.transpose_a ? spec.k : spec.m) &&
             spec.b_lead >= (spec.transpose_b ? spec.n : spec.k) && spec.c_lead >= spec.m,
         "whose columns overlap");
  refuse(spec.count == 1 || spec.c_step >= spec.c_lead * spec.n, "whose results overlap");
  const bool narrow = spec.factors == DType::kF16 || spec.factors == DType::kBF16;
  refuse(spec.result == spec.factors || (narrow && spec.result == DType::kF32),
         "whose result is of another dtype than its factors");
  refuse(narrow || spec.factors == DType::kF32 || spec.factors == DType::kF64, "of no floating dtype");
}

#ifndef ISOCHRON_CUDA
ProductLibrary* machine_products() { return nullptr; }
#endif

}  // namespace isochron::cuda
