#include "isochron/backends/cuda/libraries/products.h"

#include "isochron/core/base/error.h"

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
  if (spec.add_matrix || spec.add_bias || spec.relu)
    refuse(!spec.in_bytes(), "of bytes with something added to it");
  if (spec.add_bias || spec.relu) refuse(spec.factors != DType::kF64, "in f64 with a bias or a relu");
  if (spec.in_bytes() || spec.b_bytes != Float8::kNone) {
    refuse(spec.in_bytes() && spec.b_bytes != Float8::kNone, "with one factor in bytes");
    refuse(spec.a_bytes != Float8::kE5M2 || spec.b_bytes != Float8::kE5M2, "with both factors in E5M2");
    refuse(spec.transpose_a && !spec.transpose_b, "whose bytes don't lie along the summed axis");
    for (const int64_t extent : {spec.m, spec.k, spec.a_lead, spec.b_lead})
      refuse(extent % 16 == 0, "of bytes with an extent that is no multiple of 16");
    refuse(spec.result == DType::kF32 || spec.result == DType::kBF16,
           "of bytes with a result not in f32 or bf16");
    return;
  }
  const bool half = spec.factors == DType::kF16 || spec.factors == DType::kBF16;
  refuse(spec.result == spec.factors || (half && spec.result == DType::kF32),
         "whose result is of another dtype than its factors");
  refuse(half || spec.factors == DType::kF32 || spec.factors == DType::kF64, "of no floating dtype");
}

#ifndef ISOCHRON_CUDA
ProductLibrary* machine_products() { return nullptr; }
#endif

}  // namespace isochron::cuda
