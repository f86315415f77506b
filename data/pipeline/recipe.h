// Recipe: what a Dataset describes, in the form that the pipeline reads. sampling_order.h turns it into an
// order of rows, element_builder.h turns rows into elements, and loader.h runs both.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/data/element/layout.h"
#include "isochron/data/element/source.h"
#include "isochron/data/pipeline/dataset.h"

namespace isochron::data {

struct MapStage {
  int number;                                           // of the stage in the chain, from 1
  std::shared_ptr<std::mutex> one_at_a_time = nullptr;  // held during a call; null if calls may overlap
  MapFunction function = {};
  IntoFunction into = {};            // instead of `function`: writes to the builder's memory
  std::vector<Layout> results = {};  // one for each form of the level
  Layout memory = {};                // of `into`: large enough for any result
};

/// Level 0 holds the elements of the source; each `batch` adds a level whose elements stack those of the
/// level below. The elements of a level come in a few forms: a batch is either full or, possibly, the
/// incomplete last one.
struct Level {
  int number = 1;                    // of the stage that makes it
  int64_t batch_elems = 1;           // elements of the level below in a full element
  int64_t rows = 1;                  // source rows in a full element
  std::vector<Layout> inputs;        // before the maps
  Layout memory;                     // large enough for any of them: extents that differ are kAnyExtent
  bool padded = false;               // smaller tensors are filled up with `padding`
  std::vector<double> padding = {};  // one number per tensor
  bool marks_valid = false;  // a partial batch is padded, too, and the last tensor marks the valid elements
  std::vector<MapStage> maps = {};

  const std::vector<Layout>& results() const { return maps.empty() ? inputs : maps.back().results; }
};

inline constexpr size_t kFull = 0, kPartial = 1;  // forms of a batch

/// A stage that acts on the order of elements.
struct OrderStage {
  enum Kind { kShuffle, kPermute, kBatch, kRepeat, kTake, kSkip, kShard } kind;
  int64_t elems = 0;  // buffer, batch, times, taken, skipped or number of shards
  int64_t index = 0;  // of the shard
  int64_t block = 1;  // of the shard: elements of the input that stay together
  bool drop_remainder = false;
  bool pad_remainder = false;
  bool passes_are_epochs = false;  // for a repeat of known size: Position counts its passes as epochs
  ShuffleOptions shuffle = {};     // with a seed
  bool seeded = true;              // all branches have one order: a user's seed, or no reshuffling
  uint64_t salt = 0;               // its number among these stages: separates shuffles with one seed
  int64_t rows = 1;                // source rows in a full element of the input
  int64_t partial_rows = 0;        // in a partial one; 0 if there is none
  int64_t input_size = 0;          // elements of the input per epoch, kInfinite or kUnknown
  bool seekable = false;           // the input is over rows and seeks directly

  bool shuffles() const { return kind == kShuffle || kind == kPermute; }
};

struct Recipe {
  // One of the two.
  std::shared_ptr<const RowSource> rows;
  std::shared_ptr<const StreamSource> stream;

  std::vector<OrderStage> order;
  std::vector<Level> levels;
  int stages = 1;               // number so far, including the source and stages of datasets that it reads
  uint64_t first_salt = 0;      // of `order`: above those of the shuffles that the source reads
  int64_t size = 0;             // elements per epoch, kInfinite or kUnknown
  int64_t partial_rows = 0;     // source rows in the partial last batch; 0 without one
  bool partial_is_last = true;  // the partial batch is the last of the epoch and occurs once
  bool seekable = true;         // the order can seek to any element directly
  int64_t prefetch_elems = 0;   // 0: made on the calling thread; kAutotune
  int64_t workers = 1;          // threads that make elements ahead, or kAutotune
  bool deterministic = true;    // elements come in order, however many workers
  Device device;                // to which elements are copied from page-locked memory; CPU: none

  const std::vector<Layout>& results() const { return levels.back().results(); }
};

/// A recipe over a source. The source may be empty, as a shard may be.
std::shared_ptr<Recipe> recipe_over(std::shared_ptr<const RowSource> rows);
std::shared_ptr<Recipe> recipe_over(std::shared_ptr<const StreamSource> stream);

/// A salt above those of all shuffles in `recipe` and in what it reads; 0 if there are none.
uint64_t next_salt(const Recipe& recipe);

/// Returns `dataset`, whose source reads the dataset of `input`, with stage numbers that continue those of
/// `input`. Random maps and shuffles draw by these numbers.
Dataset counted_on(const Recipe& input, const Dataset& dataset);

/// A hash of everything that determines the elements and their order, except functions, which can't be
/// compared.
uint64_t fingerprint(const Recipe& recipe);

/// Rethrows the exception being handled as an Error that names the stage and the element. All errors of user
/// functions reach the consumer this way. Interrupted is rethrown unchanged.
[[noreturn]] void rethrow_in_stage(std::string_view stage, int number, const Position& position);
/// Calls a user function on the element at `position`; throws like `rethrow_in_stage`.
template <typename Call>
auto in_stage(std::string_view stage, int number, const Position& position, Call call) {
  try {
    return call();
  } catch (...) {
    rethrow_in_stage(stage, number, position);
  }
}

/// Calls a map function. A function that writes its result to memory writes it to `memory`. Throws Error
/// naming the stage and the position for whatever the function throws.
void call_map(const MapStage& map, Element& element, ElementBuffer* memory, const Position& position);

}  // namespace isochron::data
