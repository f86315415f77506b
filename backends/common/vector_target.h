// The instruction set of the kernels: what the machine's processor has, unless the environment variable
// `ISOCHRON_VECTOR_TARGET` limits the process to less, so that runs on different machines can be compared.
// Kernels of our own (Highway) and oneDNN's are limited alike; the C library, which computes pow, fmod, atan2
// and the f64 erf, keeps choosing for itself.
#pragma once

#include <string>
#include <vector>

#include "isochron/core/tensor/dtype.h"
#include "isochron/graph/passes/precision.h"

namespace isochron::ops {

/// Applies `ISOCHRON_VECTOR_TARGET` (e.g. `sse4`, `avx2`, `avx3`, which is AVX-512; empty counts as unset) on
/// the first call. Called when the registry of ops is made, which is before any kernel. Throws
/// kInvalidArgument for a name that is not in vector_targets(), and kUnsupported where a program has used
/// oneDNN before, which then can't be limited any more.
void limit_vector_target();

/// What this machine supports and the kernels are compiled for, best first: the names accepted.
std::vector<std::string> vector_targets();
/// The one that the kernels use, e.g. "avx3". Throws as limit_vector_target.
std::string vector_target();
/// The instruction set up to which oneDNN may go, e.g. "avx512_core". Throws as limit_vector_target.
std::string onednn_target();
/// Whether the processor, as far as it may be used, multiplies numbers of a 16-bit dtype and sums in f32.
/// Without that kernels convert them to f32; none does f16 (oneDNN has none before 3.0). Throws as
/// limit_vector_target.
bool multiplies_in(DType dtype);
/// One line for people: how this machine computes under `precision`. Throws as limit_vector_target.
std::string half_arithmetic(Precision precision);

}  // namespace isochron::ops
