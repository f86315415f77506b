// Files of this folder and its neighbors as text, for compilation at run time (isochron_texts in
// cmake/IsochronTargets.cmake). "behind": the named texts must precede it.
#pragma once

#include <string_view>

namespace isochron::backends::texts {

extern const std::string_view kScalarFunctors;  // ops/elementwise/scalar_functors.h
extern const std::string_view kFunctors;        // ops/elementwise/functors-inl.h
extern const std::string_view kAttention;       // backends/cuda/attention/attention_text.h
extern const std::string_view kBlockSizes;      // backends/cuda/common/block_sizes.h
extern const std::string_view
    kConvolution;  // backends/cuda/convolution/convolution_text.h, behind kMatmul and kWindow
extern const std::string_view kDebug;           // backends/cuda/control/debug_text.h, behind kRows
extern const std::string_view kElementPrelude;  // backends/cuda/common/element_prelude.h
extern const std::string_view kFloat8;          // ops/elementwise/float8_numbers.h, behind kElementPrelude
extern const std::string_view kInterpolation;   // backends/cuda/shape/interpolation_text.h, behind
                                                // kInterpolationWeights and kRows
extern const std::string_view kInterpolationWeights;  // ops/shape/interpolation_weights.h
extern const std::string_view kLoops;                 // backends/cuda/common/loop_text.h
extern const std::string_view kMatmul;                // backends/cuda/matmul/matmul_text.h
extern const std::string_view kMatrix;                // backends/cuda/linalg/matrix_text.h, behind kRows
extern const std::string_view kMoments;               // backends/cuda/reduction/moments_text.h
extern const std::string_view kParts;                 // backends/cuda/matmul/parts_text.h
extern const std::string_view kPooling;    // backends/cuda/convolution/pooling_text.h, behind kWindow
extern const std::string_view kRandom;     // backends/cuda/random/random_text.h
extern const std::string_view kIndexing;   // backends/cuda/indexing/indexing_text.h
extern const std::string_view kRecurrent;  // backends/cuda/recurrent/recurrent_text.h, behind kRecurrentStep
extern const std::string_view kRecurrentStep;   // backends/cuda/recurrent/recurrent_step.h
extern const std::string_view kReflections;     // backends/cuda/linalg/reflections_text.h, behind kMatrix
extern const std::string_view kRows;            // backends/cuda/reduction/rows_text.h
extern const std::string_view kScans;           // backends/cuda/reduction/scan_text.h
extern const std::string_view kSort;            // backends/cuda/reduction/sort_text.h
extern const std::string_view kUpdateNumbers;   // ops/optimizer/update_numbers.h
extern const std::string_view kUpdateFunctors;  // ops/optimizer/update_functors-inl.h
extern const std::string_view kUpdate;          // backends/cuda/optimizer/update_text.h
extern const std::string_view kWindow;          // backends/cuda/convolution/window_text.h

}  // namespace isochron::backends::texts
