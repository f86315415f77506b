#include "isochron/core/tensor/finite.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "isochron/core/base/error.h"

namespace isochron {
namespace {

/// All bits of the exponent are set in NaN and infinity, and in nothing else.
template <typename Bits>
bool not_finite(Bits bits, Bits exponent) {
  return (bits & exponent) == exponent;
}

template <typename Bits>
std::optional<NotFinite> find(const std::byte* data, int64_t elems, Bits exponent) {
  constexpr int64_t kBlock = 1024;
  const auto load = [data](int64_t i) {
    Bits bits;
    std::memcpy(&bits, data + i * static_cast<int64_t>(sizeof bits), sizeof bits);
    return bits;
  };
  std::optional<NotFinite> found;
  for (int64_t begin = 0; begin < elems; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, elems);
    Bits bad = 0;  // at most kBlock, so it fits into Bits, and the loop vectorizes without widening
    for (int64_t i = begin; i < end; ++i) bad = static_cast<Bits>(bad + not_finite<Bits>(load(i), exponent));
    if (bad == 0) continue;
    if (!found) {
      int64_t first = begin;
      while (!not_finite<Bits>(load(first), exponent)) ++first;
      found = NotFinite{first, 0, 0};
    }
    found->count += bad;
    for (int64_t i = begin; i < end; ++i) {
      const auto size = static_cast<Bits>(load(i) << 1);  // without the sign
      found->nans += size > static_cast<Bits>(exponent << 1);
    }
  }
  return found;
}

}  // namespace

std::optional<NotFinite> find_not_finite(const TensorSpec& spec, const std::byte* data) {
  const int64_t elems = spec.shape.elems();
  switch (spec.dtype) {
    case DType::kF64:
      return find<uint64_t>(data, elems, 0x7FF0'0000'0000'0000);
    case DType::kF32:
      return find<uint32_t>(data, elems, 0x7F80'0000);
    case DType::kF16:
      return find<uint16_t>(data, elems, 0x7C00);
    case DType::kBF16:
      return find<uint16_t>(data, elems, 0x7F80);
    default:
      return std::nullopt;
  }
}

std::string not_finite_text(const TensorSpec& spec, const NotFinite& found) {
  return fmt::format("{}: {} of {} elements are NaN or infinite, the first at {}", spec.str(), found.count,
                     spec.shape.elems(), dims_str(unravel(found.first, spec.shape)));
}

}  // namespace isochron
