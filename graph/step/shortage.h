// The text of the error for a plan that doesn't fit into memory.
#pragma once

#include <string>

#include "isochron/core/tensor/signature.h"
#include "isochron/graph/program/plan.h"

namespace isochron {

/// Names what is live at the plan's memory peak, and how many rows of a batch would fit into `available`
/// bytes.
std::string shortage_text(const graph::PlanReport& report, const Signature& signature, size_t available);

}  // namespace isochron
