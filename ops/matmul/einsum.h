// Einstein summation.
#pragma once

#include <string_view>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// Einstein's notation as in NumPy, PyTorch and TensorFlow: "bij,bjk->bik" names the axes of each operand by
/// letters (a-z, A-Z; spaces are ignored). Letters that the result doesn't contain are summed over; a letter
/// that occurs twice in one operand takes its diagonal. "..." stands for any further axes, aligned from the
/// last axis and broadcast; it is an error if the result doesn't contain them. Without "->" the result has
/// "..." first and then, in alphabetical order (capitals first), the letters that occur once.
///
/// Any number of operands of one dtype. Each step contracts the pair of operands that needs the fewest
/// multiplications; on a tie, the one with the smallest result. It uses matmul, or mul if nothing is summed,
/// so gradients of any order, capture and fusion work as for matmul, mul, sum and transpose. A single operand
/// may have any dtype that `sum` accepts. Two or more operands must be floating if letters are summed over.
///
/// Throws kInvalidArgument with the position of an error in the equation, kShapeMismatch if operands don't
/// fit it, kDtypeMismatch.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);

}  // namespace isochron
