// Files of this folder and its neighbours as text, for compilers at run time (isochron_texts in
// cmake/IsochronTargets.cmake).
#pragma once

#include <string_view>

namespace isochron::ops::texts {

extern const std::string_view kScalarFunctors;  // ops/scalar_functors.h
extern const std::string_view kFunctors;        // ops/functors-inl.h
extern const std::string_view kAttention;       // ops/cuda/attention_text.h
extern const std::string_view kBlockSizes;      // ops/cuda/block_sizes.h
extern const std::string_view kConvolution;     // ops/cuda/convolution_text.h, behind kMatmul and kWindow
extern const std::string_view kElementPrelude;  // ops/cuda/element_prelude.h
extern const std::string_view kFloat8;          // ops/float8_numbers.h, behind kElementPrelude
extern const std::string_view kLoops;           // ops/cuda/loop_text.h
extern const std::string_view kMatmul;          // ops/cuda/matmul_text.h
extern const std::string_view kPooling;         // ops/cuda/pooling_text.h, behind kWindow
extern const std::string_view kRandom;          // ops/cuda/random_text.h
extern const std::string_view kRecurrent;       // ops/cuda/recurrent_text.h, behind kRecurrentStep
extern const std::string_view kRecurrentStep;   // ops/cuda/recurrent_step.h
extern const std::string_view kRows;            // ops/cuda/rows_text.h
extern const std::string_view kUpdateNumbers;   // ops/update_numbers.h
extern const std::string_view kUpdateRules;     // ops/update_rules-inl.h
extern const std::string_view kUpdate;          // ops/cuda/update_text.h
extern const std::string_view kWindow;          // ops/cuda/window_text.h

}  // namespace isochron::ops::texts
