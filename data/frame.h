// Frame: the place where one element is made from its key, with the memory it lies in.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "isochron/data/recipe.h"

namespace isochron::data {

class Frame {
 public:
  /// A frame for elements of `level`, with all the memory it will need. `recipe` must outlive it.
  Frame(const Recipe& recipe, size_t level);

  /// Makes the element of `key`; it stays until the next `fill`. Throws what a map function causes.
  const Element& fill(std::span<const int64_t> key, const Position& position);
  /// Ends the element's time: reading handles on it throws kStale from now on.
  void retire();

 private:
  class RowStorage;
  class BatchStorage;

  void make_row_views();
  void make_batch_views();
  void point_at_row(int64_t row);
  void gather_rows(std::span<const int64_t> rows);
  void stack_children(std::span<const int64_t> key, const Position& position);

  const Recipe& recipe_;
  const Level& level_;
  std::unique_ptr<Frame> child_;              // makes the elements of the level below; null on level 0
  std::vector<Ref<Storage>> storages_;        // one a tensor of the level's input
  std::array<std::vector<Tensor>, 2> views_;  // by Form, over the storages
  std::array<Element, 2> inputs_;             // by Form, the views by name
  Element result_;                            // of the maps
};

}  // namespace isochron::data
