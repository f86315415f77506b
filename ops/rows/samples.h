// Turns the samples of an op definition (graph/ir/op.h) into inputs, and states how far two computations of
// one call may differ. For tests, and for comparing a device with the CPU.
#pragma once

#include <string>
#include <vector>

#include "isochron/graph/ir/op.h"

namespace isochron::ops {

/// The dtypes that the op is tested in.
const std::vector<DType>& tested_dtypes(const graph::OpDef& op);
/// The inputs of `sample`: reproducible values in the sample's ranges, of `dtype` or of the dtype that the
/// input states.
std::vector<Tensor> make_inputs(const graph::OpSample& sample, DType dtype);
/// The call as one line of text.
std::string sample_text(const graph::OpSample& sample, DType dtype);

struct Tolerance {
  double relative = 0;
  double absolute = 0;
};
/// The tolerance for results of dtype `result` of a call in dtype `computed`; 0 for dtypes that aren't
/// floating.
Tolerance tolerance_of(const graph::OpDef& op, DType computed, DType result);
/// NaN agrees only with NaN.
bool agrees(double got, double want, const Tolerance& tolerance);
/// The first element in which the two differ, as text; empty if there is none.
std::string difference_of(const std::vector<double>& got, const std::vector<double>& want,
                          const Tolerance& tolerance);

}  // namespace isochron::ops
