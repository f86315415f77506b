#include "isochron/core/tensor/signature.h"

#include <fmt/format.h>

namespace isochron {

std::string signature_str(std::span<const TensorSpec> signature) {
  std::string text = "(";
  for (const TensorSpec& spec : signature)
    text += fmt::format("{}{}", text.size() > 1 ? ", " : "", spec.str());
  return text + ")";
}

bool has_fewer_rows(const Signature& other, const Signature& usual) {
  if (other.size() != usual.size()) return false;
  bool fewer = false;
  for (size_t i = 0; i < other.size(); ++i) {
    const Shape &a = other[i].shape, &b = usual[i].shape;
    if (other[i] == usual[i]) continue;
    if (other[i].dtype != usual[i].dtype || a.rank() != b.rank() || a.rank() == 0 || a[0] >= b[0])
      return false;
    for (int axis = 1; axis < a.rank(); ++axis) {
      if (a[axis] != b[axis]) return false;
    }
    fewer = true;
  }
  return fewer;
}

}  // namespace isochron
