// The order of elements as row numbers. The indices of an element are the list of source rows it is made
// of; of a stream's elements it is the list of buffers that hold them (element_slots.h). Where a batch is
// filled up, kNoRow stands for what isn't there, so that all full elements have equally many.
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
  /// Goes to the beginning of an epoch. The order of an epoch are a function of the recipe and its number.
  virtual void restart(uint64_t epoch) = 0;
  /// Writes the next indices; returns its number of rows, 0 at the end of the epoch. May throw Interrupted
  /// (interrupt.h).
  virtual int64_t next(int64_t* indices) = 0;
  /// Gives back indices that nobody will use.
  virtual void drop(const int64_t* indices, int64_t rows) = 0;

  /// Over rows: goes to element `position` of an epoch; its size is the end.
  virtual void seek(uint64_t epoch, int64_t position) = 0;

  /// Over a stream: where it stands, with all that it holds, and back. `epoch` is that of the last restart.
  virtual void save(StateWriter& state) const = 0;
  virtual void restore(StateReader& state, uint64_t epoch) = 0;
  virtual void save_indices(StateWriter& state, const int64_t* indices, int64_t rows) const = 0;
  virtual void restore_indices(StateReader& state, int64_t* indices, int64_t rows) = 0;
};

/// Whether `indices` is one of an element of `level`: kNoRow only where a batch is filled up, and nothing
/// behind it.
bool are_indices_of(const Recipe& recipe, size_t level, std::span<const int64_t> indices);

/// `slots` is null unless the recipe's source is a stream.
std::unique_ptr<SamplingOrder> make_order(const Recipe& recipe, ElementSlots* slots);

}  // namespace isochron::data
