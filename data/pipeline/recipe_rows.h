// RecipeRows: presents the elements of a dataset over rows as rows, so that datasets built from it are over
// rows, too.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "isochron/data/pipeline/element_builder.h"
#include "isochron/data/pipeline/sampling_order.h"

namespace isochron::data {

class RecipeRows final : public RowSource {
 public:
  /// Whether the elements of `recipe` have one fixed signature and a known number, and can be accessed in
  /// any order.
  static bool possible(const Recipe& recipe);

  /// Precondition: possible.
  explicit RecipeRows(std::shared_ptr<const Recipe> recipe) : recipe_(std::move(recipe)) {}

  const Layout& layout() const override { return recipe_->results()[kFull]; }
  int64_t rows() const override { return recipe_->size; }
  uint64_t fingerprint() const override { return data::fingerprint(*recipe_); }
  /// Maps get the position of the element for which the row is read, as if they were stages of that dataset.
  void read(const Position& position, std::span<std::byte* const> into) const override;

 private:
  /// What one thread needs to make elements. Continuing from its current position costs nothing.
  struct Reader {
    explicit Reader(const Recipe& recipe);
    std::unique_ptr<SamplingOrder> order;
    ElementBuilder builder;
    std::vector<int64_t> indices;
    uint64_t epoch = 0;
    int64_t next = -1;
  };
  std::unique_ptr<Reader> take_reader(uint64_t epoch, int64_t row) const;

  std::shared_ptr<const Recipe> recipe_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Reader>> idle_;
};

}  // namespace isochron::data
