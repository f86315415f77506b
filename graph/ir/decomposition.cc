#include "isochron/graph/ir/decomposition.h"

namespace isochron::graph {

std::vector<Tensor> decomposed(const OpCall& call, std::span<const Tensor> inputs,
                               std::span<const TensorSpec> outputs) {
  std::vector<Tensor> results = call.op.decompose(call, inputs);
  require(results.size() == outputs.size(), ErrorCode::kInvalidArgument, call.op.name,
          "its decomposition has {} results, not {}", results.size(), outputs.size());
  for (size_t i = 0; i < results.size(); ++i) {
    require(results[i].spec() == outputs[i], ErrorCode::kInvalidArgument, call.op.name,
            "result {} of its decomposition is {}, not {}", i, results[i].spec().str(), outputs[i].str());
  }
  return results;
}

}  // namespace isochron::graph
