// Operands of element programs, and how broadcast operands are expanded into tiles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isochron/core/tensor/tensor.h"

namespace isochron::ops {

/// How the flat index of the program determines an operand's element.
enum class Access : uint8_t {
  kDirect,    // contiguous: the tile is the operand's own memory
  kScalar,    // one element for all
  kPeriodic,  // index % period
  kRepeated,  // index / repeat
  kGeneral,   // strides
};

struct Operand {
  Access access = Access::kDirect;
  DType dtype = DType::kF32;
  int64_t period = 0;   // kPeriodic: length of a period; kRepeated: repeats of each element
  Strides strides;      // kGeneral
  int input = -1;       // kernel input; -1: immediate
  int slot = -1;        // scratch slot, unless direct or immediate
  bool steady = false;  // every tile has the same content, so the slot is filled once per run
};

/// The operand for `spec` in a program over `shape`, with access, dtype, period and strides set.
Operand classify_operand(const TensorSpec& spec, const Shape& shape);
/// Copies elements [begin, begin + n) of the broadcast operand at `base` to `tile`.
void load_operand(const Operand& operand, const Shape& shape, const std::byte* base, std::byte* tile,
                  int64_t begin, int64_t n);

}  // namespace isochron::ops
