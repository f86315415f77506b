// Files of this folder and its neighbours as text, for compilers at run time (isochron_texts in
// cmake/IsochronTargets.cmake).
#pragma once

#include <string_view>

namespace isochron::backends::texts {

extern const std::string_view kScalarFunctors;  // ops/scalar_functors.h
extern const std::string_view kFunctors;        // ops/functors-inl.h
extern const std::string_view kAttention;       // backends/cuda/attention_text.h
extern const std::string_view kBlockSizes;      // backends/cuda/block_sizes.h
extern const std::string_view kConvolution;  // backends/cuda/convolution_text.h, behind kMatmul and kWindow
extern const std::string_view kElementPrelude;  // backends/cuda/element_prelude.h
extern const std::string_view kFloat8;          // ops/float8_numbers.h, behind kElementPrelude
extern const std::string_view kLoops;           // backends/cuda/loop_text.h
extern const std::string_view kMatmul;          // backends/cuda/matmul_text.h
extern const std::string_view kPooling;         // backends/cuda/pooling_text.h, behind kWindow
extern const std::string_view kRandom;          // backends/cuda/random_text.h
extern const std::string_view kRecurrent;       // backends/cuda/recurrent_text.h, behind kRecurrentStep
extern const std::string_view kRecurrentStep;   // backends/cuda/recurrent_step.h
extern const std::string_view kRows;            // backends/cuda/rows_text.h
extern const std::string_view kUpdateNumbers;   // ops/update_numbers.h
extern const std::string_view kUpdateRules;     // ops/update_rules-inl.h
extern const std::string_view kUpdate;          // backends/cuda/update_text.h
extern const std::string_view kWindow;          // backends/cuda/window_text.h

}  // namespace isochron::backends::texts
