// Keys: the order of elements as row numbers. The key of an element is the list of source rows it is made of;
// of a stream's elements it is the list of items that hold them (item_store.h). Where a batch is filled up,
// kNoRow stands for what isn't there, so that keys of full elements have one length.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "isochron/data/item_store.h"
#include "isochron/data/recipe.h"

namespace isochron::data {

class KeyStream {
 public:
  virtual ~KeyStream() = default;
  /// Goes to the beginning of an epoch. The keys of an epoch are a function of the recipe and its number.
  virtual void restart(uint64_t epoch) = 0;
  /// Writes the next key; returns its number of rows, 0 at the end of the epoch. May throw Interrupted
  /// (interrupt.h).
  virtual int64_t next(int64_t* key) = 0;
  /// Gives back a key that nobody will use.
  virtual void drop(const int64_t* key, int64_t rows) = 0;

  /// Over rows: goes to element `position` of an epoch; its size is the end.
  virtual void seek(uint64_t epoch, int64_t position) = 0;

  /// Over a stream: where it stands, with all that it holds, and back. `epoch` is that of the last restart.
  virtual void save(StateWriter& state) const = 0;
  virtual void restore(StateReader& state, uint64_t epoch) = 0;
  virtual void save_key(StateWriter& state, const int64_t* key, int64_t rows) const = 0;
  virtual void restore_key(StateReader& state, int64_t* key, int64_t rows) = 0;
};

/// Whether `key` is one of an element of `level`: kNoRow only where a batch is filled up, and nothing behind
/// it.
bool is_key(const Recipe& recipe, size_t level, std::span<const int64_t> key);

/// `store` is null unless the recipe's source is a stream.
std::unique_ptr<KeyStream> make_keys(const Recipe& recipe, ItemStore* store);

}  // namespace isochron::data
