// The order of elements as row numbers. The indices of an element are the source rows that it is made of;
// over a stream they are the buffers that hold its elements (element_slots.h). If a batch is padded, kNoRow
// marks the missing rows, so that all full elements have the same number of indices.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "isochron/data/element/element_slots.h"
#include "isochron/data/pipeline/recipe.h"

namespace isochron::data {

class SamplingOrder {
 public:
  virtual ~SamplingOrder() = default;
  /// Moves to the beginning of an epoch. The order of an epoch is a function of the recipe and its number.
  virtual void restart(uint64_t epoch) = 0;
  /// Writes the indices of the next element and returns how many rows it has; 0 at the end of the epoch. May
  /// throw Interrupted (interrupt.h).
  virtual int64_t next(int64_t* indices) = 0;
  /// Releases indices that won't be used.
  virtual void drop(const int64_t* indices, int64_t rows) = 0;

  /// Over rows: goes to element `position` of an epoch; its size is the end.
  virtual void seek(uint64_t epoch, int64_t position) = 0;

  /// Over a stream: save and restore the position and everything the stage holds. `epoch` is that of the
  /// last restart.
  virtual void save(StateWriter& state) const = 0;
  virtual void restore(StateReader& state, uint64_t epoch) = 0;
  virtual void save_indices(StateWriter& state, const int64_t* indices, int64_t rows) const = 0;
  virtual void restore_indices(StateReader& state, int64_t* indices, int64_t rows) = 0;
};

/// Whether `indices` can be the indices of an element of `level`: kNoRow occurs only where a batch is
/// padded, and nothing follows it.
bool are_indices_of(const Recipe& recipe, size_t level, std::span<const int64_t> indices);

/// `slots` is null unless the recipe's source is a stream.
std::unique_ptr<SamplingOrder> make_order(const Recipe& recipe, ElementSlots* slots);

}  // namespace isochron::data
