// How an optimizer's step separates its gradients into gradients of whole parameters and gradients of tables
// that are updated by rows. optim/optimizer.h says when that is the case; optimizer_step.cc uses this header.
#pragma once

#include <span>
#include <vector>

#include "isochron/optim/optimizer.h"

namespace isochron::optim {

struct Optimizer::Gradients {
  std::vector<Variable> parameters;
  std::vector<Tensor> gradients;     // for tables: (indices, ...), the sums of their rows, then zeros
  std::vector<Tensor> rows, counts;  // of tables, as in CoalescedRows

  std::span<const Variable> whole() const { return {parameters.data(), parameters.size() - rows.size()}; }
  std::span<const Variable> tables() const { return std::span(parameters).last(rows.size()); }
};

}  // namespace isochron::optim
