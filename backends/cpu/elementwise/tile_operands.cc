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
    // The tile repeats from `cycle` on: append copies of what is already there, doubling the length each
    // time.
    while (done < n) {
      const int64_t have = (done - cycle) / operand.period * operand.period;
      const int64_t take = std::min(n - done, have);
      std::memcpy(tile + static_cast<size_t>(done) * size, tile + static_cast<size_t>(cycle) * size,
                  static_cast<size_t>(take) * size);
      done += take;
    }
  }
}

/// Copies runs along the innermost axis, in which elements are contiguous or all the same. E is an unsigned
/// type of the elements' size, so that no function is called per run; runs may be short.
template <typename E>
void load_general(const Operand& operand, const Shape& shape, const std::byte* base_bytes, std::byte* tile,
                  int64_t begin, int64_t n) {
  const E* base = reinterpret_cast<const E*>(base_bytes);
  E* to = reinterpret_cast<E*>(tile);
  const int inner = shape.rank() - 1;
  const int64_t length = shape[inner], stride = operand.strides[inner];
  std::array<int64_t, kMaxRank> index{};
  int64_t rest = begin / length;
  int64_t column = begin % length;
  int64_t offset = 0;  // offset of the current line
  for (int axis = inner - 1; axis >= 0; --axis) {
    index[static_cast<size_t>(axis)] = rest % shape[axis];
    rest /= shape[axis];
    offset += index[static_cast<size_t>(axis)] * operand.strides[axis];
  }
  for (int64_t i = 0; i < n;) {
    const int64_t run = std::min(n - i, length - column);
    const E* from = base + offset;
    if (stride == 0) {
      const E element = *from;
      for (int64_t k = 0; k < run; ++k) to[i + k] = element;
    } else {
      for (int64_t k = 0; k < run; ++k) to[i + k] = from[column + k];
    }
    i += run;
    column = 0;
    for (int axis = inner - 1; axis >= 0; --axis) {
      offset += operand.strides[axis];
      if (++index[static_cast<size_t>(axis)] < shape[axis]) break;
      index[static_cast<size_t>(axis)] = 0;
      offset -= operand.strides[axis] * shape[axis];
    }
  }
}

/// Repeats each element `period` times in a row.
template <typename E>
void load_repeated(const Operand& operand, const std::byte* base_bytes, std::byte* tile, int64_t begin,
                   int64_t n) {
  E* to = reinterpret_cast<E*>(tile);
  const E* from = reinterpret_cast<const E*>(base_bytes) + begin / operand.period;
  int64_t left = operand.period - begin % operand.period;  // repeats of the current element
  for (int64_t i = 0; i < n; ++from) {
    const E element = *from;
    const int64_t end = std::min(n, i + left);
    for (; i < end; ++i) to[i] = element;
    left = operand.period;
  }
}

/// Calls `body` with a number of the unsigned type of `size` bytes.
template <typename Body>
void with_type_of_size(size_t size, Body&& body) {
  switch (size) {
    case 1:
      return body(uint8_t{});
    case 2:
      return body(uint16_t{});
    case 4:
      return body(uint32_t{});
    default:
      return body(uint64_t{});
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
  // Are the leading axes broadcast (stride 0) and the others contiguous, or the reverse?
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
      with_type_of_size(size, [&]<typename E>(E) { load_repeated<E>(operand, base, tile, begin, n); });
      return;
    case Access::kGeneral:
      with_type_of_size(size, [&]<typename E>(E) { load_general<E>(operand, shape, base, tile, begin, n); });
      return;
    case Access::kDirect:
      return;
  }
}

}  // namespace isochron::ops
