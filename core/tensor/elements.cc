#include "isochron/core/tensor/elements.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace isochron {

void fill_elements(void* dst, DType dtype, const void* value, int64_t n) {
  dispatch_dtype(dtype, [&]<typename T>(T) {
    T element;
    std::memcpy(&element, value, sizeof(T));
    std::fill_n(static_cast<T*>(dst), n, element);
  });
}

void store_number(void* dst, DType dtype, double number) {
  dispatch_dtype(dtype, [&]<typename T>(T) {
    T element;
    if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
      element = T(static_cast<float>(number));
    } else if constexpr (std::is_same_v<T, bool>) {
      element = number != 0;
    } else {
      element = static_cast<T>(number);
    }
    std::memcpy(dst, &element, sizeof(T));
  });
}

}  // namespace isochron
