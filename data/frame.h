// Frame: the place where one element is made from its key, with the memory it lies in.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "isochron/data/item.h"
#include "isochron/data/recipe.h"

namespace isochron::data {

class Frame {
 public:
  /// A frame for elements of `level`, with all the memory it will need unless extents vary. `recipe` must
  /// outlive it.
  /// `concurrent`: others make elements of the recipe at the same time.
  Frame(const Recipe& recipe, size_t level, bool concurrent);

  /// Makes the element of `key`; it stays until the next `fill`, `retire`, or the end of the items that `key`
  /// names. `position`: of the element. Throws what a map function causes.
  const Element& fill(std::span<const int64_t> key, const Position& position);
  /// Ends the element's time: reading handles on it throws kStale from now on.
  void retire();
  /// Whether the element may lie in the items of its key. If not, they are of no use once it is made.
  bool borrows_items() const { return recipe_.stream && !child_; }

 private:
  class RowStorage;

  void make_row_views();
  const Element& make_input(std::span<const int64_t> key, const Position& position);
  const Element& read_row(int64_t row, const Position& position);
  const Element& stack(std::span<const int64_t> key, const Position& position);
  void gather_rows(std::span<const int64_t> rows, const Position& position);
  template <typename Use>
  void each_child(std::span<const int64_t> key, const Position& position, Use use);
  void stack_ragged(std::span<const int64_t> key, const Position& position);
  void place(const Element& child, int64_t index, std::span<const int64_t> key, const Position& position);
  Position child_position(std::span<const int64_t> key, const Position& position, int64_t index) const;
  void prefetch_row(int64_t row) const;
  void mark_valid(int64_t elems);
  size_t form_of(const Element& element) const;

  const Recipe& recipe_;
  const bool concurrent_;
  const Level& level_;
  std::unique_ptr<Frame> child_;            // makes the elements of the level below; null on level 0
  Item memory_;                             // of a batch, or of a row that must be read
  std::vector<Ref<Storage>> row_storages_;  // where rows lie in memory: views that move from row to row
  Element row_;
  std::vector<std::byte*> bases_;  // first rows
  std::vector<std::byte*> into_;   // scratch: where a row is read to
  std::vector<std::unique_ptr<Item>>
      ragged_;      // elements of a batch whose extents the largest of them decides
  Element result_;  // of the maps
  std::vector<std::unique_ptr<Item>>
      outputs_;  // one a map, where those put their results that write to memory
};

}  // namespace isochron::data
