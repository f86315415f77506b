// Position: the position of an element in a dataset.
#pragma once

#include <cstdint>

namespace isochron::data {

struct Position {
  uint64_t epoch = 0;
  int64_t element = 0;  // of the stage, from 0 in this epoch, counted across passes of a repeat; see shard
  int64_t row = 0;      // of the source; for a batch, the row of its first element
  uint64_t branch = 0;  // of a part of a joined dataset (branch.h); 0 outside of these. Belongs to the key of
                        // random numbers, as epoch and element do
};

}  // namespace isochron::data
