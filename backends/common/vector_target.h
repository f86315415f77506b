// The instruction set of the kernels: the best that the machine's processor supports, unless the environment
// variable `ISOCHRON_VECTOR_TARGET` limits the process to less, so that runs on different machines can be
// compared. The limit applies to our own kernels (Highway) and to oneDNN. It doesn't apply to the C library,
// which computes pow, fmod, atan2, the f64 erf and a few others (ops/elementwise/elementwise.h).
#pragma once

#include <string>
#include <vector>

#include "isochron/core/tensor/dtype.h"
#include "isochron/graph/passes/precision.h"

namespace isochron::ops {

/// Applies `ISOCHRON_VECTOR_TARGET` (e.g. `sse4`, `avx2`, `avx3`, which is AVX-512; empty counts as unset) on
/// the first call. Called when the registry of ops is created, i.e. before any kernel exists. Throws
/// kInvalidArgument for a name that isn't in vector_targets(), and kUnsupported if the program has already
/// used oneDNN, because the limit would come too late.
void limit_vector_target();

/// The accepted names: the instruction sets that this machine supports and the kernels are compiled for, best
/// first.
std::vector<std::string> vector_targets();
/// The instruction set that the kernels use, e.g. "avx3". Throws as limit_vector_target.
std::string vector_target();
/// The best instruction set that oneDNN may use, e.g. "avx512_core". Throws as limit_vector_target.
std::string onednn_target();
/// Whether the processor, within that limit, multiplies numbers of a 16-bit dtype and sums in f32. If not,
/// kernels convert them to f32. Always false for f16 (oneDNN has no such products before 3.0). Throws as
/// limit_vector_target.
bool multiplies_in(DType dtype);
/// One human-readable line about how this machine computes under `precision`. Throws as limit_vector_target.
std::string half_arithmetic(Precision precision);

}  // namespace isochron::ops
