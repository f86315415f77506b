#include "isochron/core/dtype.h"

namespace isochron {

DType parse_dtype(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (dtype_name(static_cast<DType>(i)) == name) return static_cast<DType>(i);
  }
  fail(ErrorCode::kInvalidArgument, "dtype", "expected one of f64 f32 f16 bf16 i64 i32 u8 bool, got '{}'",
       name);
}

}  // namespace isochron
