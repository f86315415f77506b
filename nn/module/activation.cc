#include "isochron/nn/module/activation.h"

#include "isochron/ops/elementwise/activations.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/softmax.h"

namespace isochron::nn {

Tensor activate(const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return relu(x);
    case Activation::kRelu6:
      return relu6(x);
    case Activation::kLeakyRelu:
      return leaky_relu(x, 0.3);
    case Activation::kElu:
      return elu(x);
    case Activation::kSelu:
      return selu(x);
    case Activation::kGelu:
      return gelu(x);
    case Activation::kGeluTanh:
      return gelu_tanh(x);
    case Activation::kSilu:
      return silu(x);
    case Activation::kSoftplus:
      return softplus(x);
    case Activation::kSigmoid:
      return sigmoid(x);
    case Activation::kTanh:
      return tanh(x);
    case Activation::kSoftsign:
      return softsign(x);
    case Activation::kHardSigmoid:
      return hard_sigmoid(x);
    case Activation::kHardSwish:
      return hard_swish(x);
    case Activation::kMish:
      return mish(x);
    case Activation::kSoftmax:
      return softmax(x);
  }
  fail(ErrorCode::kInvalidArgument, "activate", "activation {} does not exist", static_cast<int>(activation));
}

}  // namespace isochron::nn
