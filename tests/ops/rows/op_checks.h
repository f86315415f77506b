// The promises of a registry row, checked from the row alone. Each function returns its findings, one per
// line, and nothing if the row keeps its promise. Thus a test can also check that a broken row is reported.
#pragma once

#include <string>
#include <vector>

#include "isochron/graph/ir/op.h"

namespace isochron {

using Findings = std::vector<std::string>;

/// Every sample in every dtype of the row against its reference in doubles, and against the inferred specs.
Findings check_reference(const graph::OpDef& op);
/// Inputs laid out with transposed, padded or negative strides give the same bits as contiguous ones.
Findings check_strided(const graph::OpDef& op);
/// A second run gives the same bits.
Findings check_repeatable(const graph::OpDef& op);
/// Captured equals eager: bit for bit with passes off, also if only one of the outputs is read; within
/// tolerance with passes on, and when folded.
Findings check_captured(const graph::OpDef& op);
/// Calls on tensors stored in 16 bits (graph/ir/half_storage.h) against the same in f32 on the rounded
/// numbers, with results in 16 bits and in f32; for rows that follow or are low under mixed precision.
Findings check_stored(const graph::OpDef& op);
/// Gradients by tape and by capture against central differences, in f64.
Findings check_gradient(const graph::OpDef& op);
/// The gradient's own gradient, by tape and by capture, against central differences of the first.
Findings check_second_gradient(const graph::OpDef& op);
/// The row's error samples and wrong numbers of inputs, eager and captured.
Findings check_errors(const graph::OpDef& op);

}  // namespace isochron
