// How an optimizer's step sorts its gradients: those of whole parameters, and those of tables that are
// updated by rows. Between optim/optimizer.h, which says when that is, and optimizer_step.cc.
#pragma once

#include <span>
#include <vector>

#include "isochron/optim/optimizer.h"

namespace isochron::optim {

struct Optimizer::Gradients {
  std::vector<Variable> parameters;
  std::vector<Tensor> gradients;     // of tables: (indices, ...), the sums of their rows, then zeros
  std::vector<Tensor> rows, counts;  // of tables, as CoalescedRows

  std::span<const Variable> whole() const { return {parameters.data(), parameters.size() - rows.size()}; }
  std::span<const Variable> tables() const { return std::span(parameters).last(rows.size()); }
};

}  // namespace isochron::optim
