// Draws of integers, composed of the ops in random.h. In a captured step, each replay draws new numbers. None
// has a gradient.
#pragma once

#include "isochron/ops/random/random.h"

namespace isochron {

/// i64, uniform in [low, high). Throws kInvalidArgument unless low < high and there are at most 2^53 numbers
/// in the range.
Tensor random_integers(const Shape& shape, int64_t low, int64_t high,
                       random::Generator& generator = random::default_generator());
/// i64 (count): the numbers 0 to count - 1 in random order. Throws kInvalidArgument unless count >= 1.
Tensor random_permutation(int64_t count, random::Generator& generator = random::default_generator());
/// Draws a class for each row of `logits`, with the probabilities softmax(logits), by the Gumbel-max trick
/// (Gumbel 1954). logits: (..., C), floating; result (...), i64. A class whose logit is -infinity is never
/// drawn, unless all are. A row with NaN gives class 0 (check_numerics finds it). f32 logits are accurate to
/// probabilities of about 1e-7. Throws kDtypeMismatch, kShapeMismatch for a scalar or C = 0.
Tensor random_categorical(const Tensor& logits, random::Generator& generator = random::default_generator());

}  // namespace isochron
