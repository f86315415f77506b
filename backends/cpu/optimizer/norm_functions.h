// The vector loops of backends/cpu/optimizer/norm_updates.h over one run of elements, compiled per
// instruction set.
#pragma once

#include <cstdint>

#include "isochron/core/tensor/dtype.h"

namespace isochron::ops {

/// One run of a parameter's elements under LAMB. Outputs may be the same arrays as inputs. All arrays have
/// the dtype given to norm_functions.
struct LambRun {
  const void* parameter;
  const void* gradient;
  const void* states[2];
  void* new_parameter;
  void* new_states[2];
  int64_t count;
};
struct LambNumbers {
  double gradient_factor = 1;
  double parameter_factor = 1;  // factor by which weight decay multiplies the parameter
  double new_1 = 0;             // weights of the newest gradient and of its square in the moments
  double new_2 = 0;
  double mean_factor = 1;  // bias corrections of the first moment and of the second's root
  double root_factor = 1;
  double epsilon = 0;
};
struct SquareSums {
  double parameter = 0;
  double other = 0;
};

/// One row of a parameter under Adafactor: the second moment of element j is `scale` times column[j].
struct FactoredRow {
  const void* gradient;
  const void* column;
  double gradient_factor;
  double scale;
  int64_t count;
};

struct NormFunctions {
  /// Computes new moments. Returns the sums of squares of the decayed parameter and of the update direction.
  SquareSums (*lamb_moments)(const LambNumbers& numbers, const LambRun& run);
  /// new_parameter = the decayed parameter - `rate` times the update direction.
  void (*lamb_move)(const LambNumbers& numbers, const LambRun& run, double rate);
  /// Sums of squares of the decayed parameter and of the gradient.
  SquareSums (*square_sums)(const void* parameter, double parameter_factor, const void* gradient,
                            double factor, int64_t count);
  /// moment = old_share moment + (1 - old_share)(square of the gradient + epsilon).
  void (*square_moment)(const void* gradient, double factor, double old_share, double epsilon,
                        const void* moment, void* new_moment, int64_t count);
  /// sums[j] = the sum over `rows` rows, `stride` elements apart, of the square of element j of the gradient.
  void (*column_squares)(const void* gradient, double factor, int64_t rows, int64_t stride, int64_t columns,
                         double* sums);
  /// The sum of squares of the update direction.
  double (*move_squares)(const FactoredRow& row);
  /// new_parameter = the decayed parameter - `rate` times the update direction.
  void (*move)(const FactoredRow& row, const void* parameter, double parameter_factor, double rate,
               void* new_parameter);
};

/// `dtype`: f32 or f64.
NormFunctions norm_functions(DType dtype);

}  // namespace isochron::ops
