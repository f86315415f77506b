// Keys: the order of elements as row numbers. The key of an element is the list of source rows it is made of.
#pragma once

#include <cstdint>
#include <memory>

#include "isochron/data/recipe.h"

namespace isochron::data {

class KeyStream {
 public:
  virtual ~KeyStream() = default;
  /// Goes to the beginning of an epoch. The keys of an epoch are a function of the recipe and its number.
  virtual void restart(uint64_t epoch) = 0;
  /// Writes the next key; returns its number of rows, 0 at the end of the epoch.
  virtual int64_t next(int64_t* key) = 0;
};

std::unique_ptr<KeyStream> make_keys(const Recipe& recipe);

}  // namespace isochron::data
