// Operands of element programs, and how a broadcast one is laid out as tiles.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isochron/core/tensor/tensor.h"

namespace isochron::ops {

/// How an operand's element follows from the flat index.
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
  int64_t period = 0;   // kPeriodic: length; kRepeated: how often each element repeats
  Strides strides;      // kGeneral
  int input = -1;       // kernel input; -1: immediate
  int slot = -1;        // scratch slot, unless direct or immediate
  bool steady = false;  // the slot's content is the same for every tile: filled once per run
};

/// An operand of this spec in a program over `shape`: access, dtype, period and strides.
Operand classify_operand(const TensorSpec& spec, const Shape& shape);
/// Lays elements [begin, begin + n) of a broadcast operand at `base` out as a tile.
void load_operand(const Operand& operand, const Shape& shape, const std::byte* base, std::byte* tile,
                  int64_t begin, int64_t n);

}  // namespace isochron::ops
