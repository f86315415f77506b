#include "isochron/backends/cpu/elementwise/tile_operands.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "isochron/core/tensor/elements.h"

namespace isochron::ops {
namespace {

void load_periodic(const Operand& operand, const std::byte* base, std::byte* tile, int64_t begin, int64_t n,
                   size_t size) {
  const int64_t offset = begin % operand.period;
  int64_t done = std::min(n, operand.period - offset);
  std::memcpy(tile, base + static_cast<size_t>(offset) * size, static_cast<size_t>(done) * size);
  if (done < n) {
    const int64_t whole = std::min(n - done, operand.period);
    std::memcpy(tile + static_cast<size_t>(done) * size, base, static_cast<size_t>(whole) * size);
    const int64_t cycle = done;
    done += whole;
    // The tile repeats itself from `cycle` on: append what is already there, doubling it each time.
    while (done < n) {
      const int64_t have = (done - cycle) / operand.period * operand.period;
      const int64_t take = std::min(n - done, have);
      std::memcpy(tile + static_cast<size_t>(done) * size, tile + static_cast<size_t>(cycle) * size,
                  static_cast<size_t>(take) * size);
      done += take;
    }
  }
}

/// Copies runs along the innermost axis, where elements are contiguous or all the same.
void load_general(const Operand& operand, const Shape& shape, const std::byte* base, std::byte* tile,
                  int64_t begin, int64_t n, size_t size) {
  const int inner = shape.rank() - 1;
  std::array<int64_t, kMaxRank> index{};
  int64_t rest = begin;
  int64_t offset = 0;
  for (int axis = inner; axis >= 0; --axis) {
    index[static_cast<size_t>(axis)] = rest % shape[axis];
    rest /= shape[axis];
    offset += index[static_cast<size_t>(axis)] * operand.strides[axis];
  }
  for (int64_t i = 0; i < n;) {
    int64_t& column = index[static_cast<size_t>(inner)];
    const int64_t run = std::min(n - i, shape[inner] - column);
    const std::byte* from = base + static_cast<size_t>(offset) * size;
    std::byte* to = tile + static_cast<size_t>(i) * size;
    if (operand.strides[inner] == 0) {
      fill_elements(to, operand.dtype, from, run);
    } else {
      std::memcpy(to, from, static_cast<size_t>(run) * size);
    }
    i += run;
    column += run - 1;
    offset += operand.strides[inner] * (run - 1);
    for (int axis = inner; axis >= 0; --axis) {
      offset += operand.strides[axis];
      if (++index[static_cast<size_t>(axis)] < shape[axis]) break;
      index[static_cast<size_t>(axis)] = 0;
      offset -= operand.strides[axis] * shape[axis];
    }
  }
}

}  // namespace

Operand classify_operand(const TensorSpec& spec, const Shape& shape) {
  Operand operand;
  operand.dtype = spec.dtype;
  const int64_t elems = shape.elems();
  if (spec.shape.elems() == elems) return operand;  // only extents of one differ
  const Strides strides = broadcast_strides(spec.shape, contiguous_strides(spec.shape), shape);
  if (spec.shape.elems() == 1) {
    operand.access = Access::kScalar;
    return operand;
  }
  // Leading axes at stride 0 over a contiguous rest, or the reverse?
  int64_t inner = 1;
  int axis = shape.rank() - 1;
  while (axis >= 0 && (shape[axis] == 1 || strides[axis] != 0)) inner *= shape[axis--];
  const auto zero_above = [&](int from) {
    for (int i = from; i >= 0; --i) {
      if (shape[i] != 1 && strides[i] != 0) return false;
    }
    return true;
  };
  if (inner > 1 && zero_above(axis)) {
    operand.access = Access::kPeriodic;
    operand.period = inner;
    return operand;
  }
  int64_t repeat = 1;
  axis = shape.rank() - 1;
  while (axis >= 0 && (shape[axis] == 1 || strides[axis] == 0)) repeat *= shape[axis--];
  bool outer_full = repeat > 1;
  for (int i = axis; i >= 0; --i) outer_full = outer_full && (shape[i] == 1 || strides[i] != 0);
  if (outer_full) {
    operand.access = Access::kRepeated;
    operand.period = repeat;
    return operand;
  }
  operand.access = Access::kGeneral;
  operand.strides = strides;
  return operand;
}

void load_operand(const Operand& operand, const Shape& shape, const std::byte* base, std::byte* tile,
                  int64_t begin, int64_t n) {
  const size_t size = dtype_size(operand.dtype);
  switch (operand.access) {
    case Access::kScalar:
      fill_elements(tile, operand.dtype, base, n);
      return;
    case Access::kPeriodic:
      load_periodic(operand, base, tile, begin, n, size);
      return;
    case Access::kRepeated:
      for (int64_t i = 0; i < n;) {
        const int64_t source = (begin + i) / operand.period;
        const int64_t run = std::min(n - i, (source + 1) * operand.period - (begin + i));
        fill_elements(tile + static_cast<size_t>(i) * size, operand.dtype,
                      base + static_cast<size_t>(source) * size, run);
        i += run;
      }
      return;
    case Access::kGeneral:
      load_general(operand, shape, base, tile, begin, n, size);
      return;
    case Access::kDirect:
      return;
  }
}

}  // namespace isochron::ops
