// Activations by name, as layers take them.
#pragma once

#include <cstdint>
#include <string_view>

#include "isochron/core/tensor/tensor.h"

namespace isochron::nn {

enum class Activation : uint8_t {
  kNone,
  kRelu,
  kRelu6,
  kLeakyRelu,  // slope 0.3 below 0, as in Keras
  kElu,
  kSelu,
  kGelu,      // exact
  kGeluTanh,  // its tanh approximation
  kSilu,
  kSoftplus,
  kSigmoid,
  kTanh,
  kSoftsign,
  kHardSigmoid,
  kHardSwish,
  kMish,
  kSoftmax,  // over the last axis
};

/// Applies `activation` to x: elementwise, except for softmax, which runs over the last axis.
Tensor activate(const Tensor& x, Activation activation);

}  // namespace isochron::nn
