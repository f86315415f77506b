// A slow backend that computes each op in f64 with the reference in its row of the registry.
#pragma once

#include <algorithm>
#include <vector>

#include "isochron/core/tensor/elements.h"
#include "isochron/core/tensor/tensor.h"
#include "isochron/graph/ir/backend.h"
#include "isochron/graph/ir/half_storage.h"

namespace isochron {

class ReferenceBackend final : public graph::Backend {
 public:
  std::string_view name() const override { return "the definitions"; }
  bool runs(const graph::OpDef& op) const override { return op.reference != nullptr; }
  bool runs_half_storage(const graph::OpDef&) const override { return false; }

  std::unique_ptr<graph::Kernel> make_kernel(const graph::KernelRequest& request) const override {
    if (graph::has_half_storage(request)) return nullptr;
    return std::make_unique<Definition>(request);
  }

 private:
  class Definition final : public graph::Kernel {
   public:
    explicit Definition(const graph::KernelRequest& request)
        : op_(request.op),
          attributes_(request.attributes),
          inputs_(request.inputs.begin(), request.inputs.end()),
          outputs_(request.outputs.begin(), request.outputs.end()) {}

    void run(const graph::KernelArgs& args) override {
      std::vector<std::vector<double>> numbers;
      for (size_t i = 0; i < inputs_.size(); ++i)
        numbers.push_back(inputs_[i].shape.elems() == 0
                              ? std::vector<double>()
                              : Tensor::from_external(args.inputs[i], inputs_[i]).to_vector());
      const auto results = op_.reference({op_, inputs_, attributes_}, outputs_, numbers);
      for (size_t o = 0; o < outputs_.size(); ++o) {
        if (args.outputs[o] == nullptr) continue;
        for (size_t i = 0; i < results[o].size(); ++i) {
          const size_t at = i * dtype_size(outputs_[o].dtype);
          store_number(args.outputs[o] + at, outputs_[o].dtype, results[o][i]);
        }
      }
    }

   private:
    const graph::OpDef& op_;
    graph::Attributes attributes_;
    std::vector<TensorSpec> inputs_;
    std::vector<TensorSpec> outputs_;
  };
};

}  // namespace isochron
