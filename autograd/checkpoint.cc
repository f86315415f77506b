#include "isochron/autograd/checkpoint.h"

#include "isochron/graph/capture/capture.h"

namespace isochron {

std::vector<Tensor> checkpoint(const std::function<std::vector<Tensor>(std::span<const Tensor>)>& function,
                               std::span<const Tensor> inputs) {
  require(function != nullptr, ErrorCode::kInvalidArgument, "checkpoint", "the function is empty");
  std::vector<Tensor> results;
  {
    const graph::CheckpointScope scope;
    results = function(inputs);
  }
  const bool outermost = graph::CheckpointScope::current() == 0;
  for (const Tensor& result : results) {
    if (!outermost || !result.defined() || !result.is_value()) continue;
    graph::Node* producer = static_cast<graph::Value*>(result.value().get())->producer;
    if (producer) producer->checkpoint_result = true;
  }
  return results;
}

Tensor checkpoint(const std::function<Tensor(const Tensor&)>& function, const Tensor& x) {
  require(function != nullptr, ErrorCode::kInvalidArgument, "checkpoint", "the function is empty");
  return checkpoint([&](std::span<const Tensor> inputs) { return std::vector<Tensor>{function(inputs[0])}; },
                    {&x, 1})[0];
}

}  // namespace isochron
