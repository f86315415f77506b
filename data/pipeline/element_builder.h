// ElementBuilder: makes one element at a time from its indices, and holds the element's memory.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "isochron/data/element/element_slots.h"
#include "isochron/data/pipeline/recipe.h"

namespace isochron::data {

class ElementBuilder {
 public:
  /// A builder for elements of `level`, with all the memory that it needs unless extents vary. `slots`: the
  /// slots of the stream's elements; null unless the source is a stream. `recipe` and `slots` must outlive
  /// the builder. `concurrent`: other builders make elements of the recipe at the same time.
  ElementBuilder(const Recipe& recipe, size_t level, const ElementSlots* slots, bool concurrent);

  /// Makes the element of `indices`. It stays valid until the next `fill` or `retire`, or until the buffers
  /// in `indices` are released. `position` is that of the element. Throws errors of map functions.
  const Element& fill(std::span<const int64_t> indices, const Position& position);
  /// Ends the lifetime of the element: reading through its handles throws kStale from now on.
  void retire();
  /// Whether the element may refer to the buffers in its indices. If not, they can be released once it is
  /// made.
  bool borrows_buffers() const { return recipe_.stream && !child_; }

 private:
  class RowStorage;

  void make_row_views();
  const Element& make_input(std::span<const int64_t> indices, const Position& position);
  void read_source(const Position& position);
  const Element& read_row(const Position& position);
  const Element& stack(std::span<const int64_t> indices, const Position& position);
  void gather_rows(std::span<const int64_t> rows, const Position& position);
  template <typename Use>
  void each_child(std::span<const int64_t> indices, const Position& position, Use use);
  void stack_ragged(std::span<const int64_t> indices, const Position& position);
  void place(const Element& child, int64_t index, std::span<const int64_t> indices, const Position& position);
  Position child_position(std::span<const int64_t> indices, const Position& position, int64_t index) const;
  void prefetch_row(int64_t row) const;
  void mark_valid(int64_t elems);
  size_t form_of(const Element& element) const;

  const Recipe& recipe_;
  const ElementSlots* const slots_;
  const bool concurrent_;
  const Level& level_;
  std::unique_ptr<ElementBuilder> child_;   // makes the elements of the level below; null on level 0
  ElementBuffer memory_;                    // of a batch, or of a row that must be read
  std::vector<Ref<Storage>> row_storages_;  // where rows lie in memory: views that move from row to row
  Element row_;
  std::vector<std::byte*> bases_;  // first rows
  std::vector<std::byte*> into_;   // scratch: where a row is read to
  std::vector<std::unique_ptr<ElementBuffer>>
      ragged_;      // elements of a batch whose extents follow its largest elements
  Element result_;  // of the maps
  std::vector<std::unique_ptr<ElementBuffer>>
      outputs_;  // one per map: the results of maps that write to memory
};

}  // namespace isochron::data
