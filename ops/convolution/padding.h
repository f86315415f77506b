// The padding of convolution and pooling.
#pragma once

#include <concepts>

#include "isochron/core/tensor/shape.h"

namespace isochron {

/// The padding around the image: none (`valid`); enough for ceil(extent / stride) outputs (`same`,
/// TensorFlow's rule: if their number is odd, the extra element goes to the end); enough at the start that no
/// output depends on later elements (`causal`, one axis only); or explicit numbers of elements.
class Padding {
 public:
  static Padding valid() { return Padding(Kind::kValid, {}); }
  static Padding same() { return Padding(Kind::kSame, {}); }
  static Padding causal() { return Padding(Kind::kCausal, {}); }
  /// {before, after} of each spatial axis in turn, e.g. {top, bottom, left, right}.
  static Padding explicitly(const Dims& pairs) { return Padding(Kind::kExplicit, pairs); }
  template <std::integral... Numbers>
  requires(sizeof...(Numbers) >= 2) static Padding explicitly(Numbers... numbers) {
    return explicitly(Dims{static_cast<int64_t>(numbers)...});
  }
  /// {before, after} of each spatial axis in turn, for images of `extents`. Throws kInvalidArgument if the
  /// lists differ in length, a number is out of range, or `causal` padding is used with more than one axis;
  /// kUnsupported for a window that reaches too far.
  Dims resolve(const Dims& extents, const Dims& window, const Dims& stride, const Dims& dilation) const;
  bool is_same() const { return kind_ == Kind::kSame; }
  bool is_causal() const { return kind_ == Kind::kCausal; }

 private:
  enum class Kind { kValid, kSame, kCausal, kExplicit };
  Padding(Kind kind, Dims extents) : kind_(kind), extents_(extents) {}
  Kind kind_;
  Dims extents_;
};

}  // namespace isochron
