// Recipe: what a Dataset describes, in the form that its machinery reads. keys.h turns it into row numbers,
// frame.h turns row numbers into elements, loader.h runs both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isochron/data/dataset.h"

namespace isochron::data {

/// Names and specs that an element must have.
struct Layout {
  std::vector<std::string> names;
  Signature specs;

  static Layout of(const Element& element);
  bool matches(const Element& element) const;
  std::string str() const;
};

/// Elements of a level come in at most two forms: full, and the odd last batch.
enum Form : int { kFull, kOdd };

struct MapStage {
  int number;  // of the stage in the chain, from 1
  MapFunction function;
  Layout results[2];  // by Form
};

/// Level 0 holds rows; each `batch` makes a level whose elements stack those of the level below.
struct Level {
  int64_t batch_elems = 1;  // elements of the level below in a full one
  int64_t rows = 1;         // source rows in a full element
  Layout inputs[2];         // by Form, before the maps
  std::vector<MapStage> maps;

  const Layout& result(Form form) const { return maps.empty() ? inputs[form] : maps.back().results[form]; }
};

/// A stage that acts on the order of elements.
struct OrderStage {
  enum Kind { kShuffle, kBatch, kRepeat, kTake, kSkip } kind;
  int64_t elems = 0;  // buffer, batch, times, taken or skipped
  bool drop_remainder = false;
  ShuffleOptions shuffle = {};
  uint64_t salt = 0;  // place among these stages: keeps apart shuffles that share a seed
  int64_t rows = 1;   // source rows in a full element of the input
};

struct Recipe {
  Element sources;
  int64_t source_rows = 0;
  std::vector<OrderStage> order;
  std::vector<Level> levels;
  int stages = 1;              // so far, from_tensor_slices included
  int64_t size = 0;            // elements an epoch, or kInfinite
  int64_t odd_rows = 0;        // source rows in the odd last batch; 0 without one
  bool odd_is_last = true;     // it stands at the epoch's end and occurs once
  int64_t prefetch_elems = 0;  // 0: no background thread
};

/// Where an element stands, for errors.
struct Position {
  uint64_t epoch = 0;
  int64_t element = 0;
};

/// Calls a map function. Throws Error naming the stage and the position for whatever the function throws.
Element call_map(const MapStage& map, Element element, const Position& position, int64_t row);

}  // namespace isochron::data
