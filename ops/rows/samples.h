// What a row's samples (graph/ir/op.h) come to: inputs to call it with, and how far two computations of one
// call may be apart. For tests, and for the comparison of a device with the CPU.
#pragma once

#include <string>
#include <vector>

#include "isochron/graph/ir/op.h"

namespace isochron::ops {

/// The row's dtypes under test.
const std::vector<DType>& tested_dtypes(const graph::OpDef& op);
/// Inputs of `sample`: reproducible values of the sample's ranges in `dtype` (or the input's own).
std::vector<Tensor> make_inputs(const graph::OpSample& sample, DType dtype);
/// The call in a line.
std::string sample_text(const graph::OpSample& sample, DType dtype);

struct Tolerance {
  double relative = 0;
  double absolute = 0;
};
/// Of results in `result` of a call in `computed`; 0 for numbers that aren't floating.
Tolerance tolerance_of(const graph::OpDef& op, DType computed, DType result);
/// NaN agrees with NaN alone.
bool agrees(double got, double want, const Tolerance& tolerance);
/// The first element in which the two differ, as text; empty where there is none.
std::string difference_of(const std::vector<double>& got, const std::vector<double>& want,
                          const Tolerance& tolerance);

}  // namespace isochron::ops
