#include "isochron/data/stages/chosen_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <numeric>

#include "isochron/core/base/rng.h"
#include "isochron/core/base/seed.h"
#include "isochron/data/element/branch.h"
#include "isochron/data/element/fingerprint.h"
#include "isochron/data/pipeline/recipe_rows.h"

namespace isochron::data {
namespace {

/// Rows of a dataset, each of which is a row of `base`.
class ChosenRows : public RowSource {
 public:
  explicit ChosenRows(const Dataset& dataset) : base_(dataset.recipe()) {}
  const Layout& layout() const override { return base_.layout(); }
  void read(const Position& position, std::span<std::byte* const> into) const override {
    Position of_base = position;
    of_base.row = chosen(position);
    base_.read(of_base, into);
  }

 protected:
  uint64_t base_fingerprint() const { return base_.fingerprint(); }

 private:
  virtual int64_t chosen(const Position& position) const = 0;

  RecipeRows base_;
};

class SubsetRows final : public ChosenRows {
 public:
  SubsetRows(const Dataset& dataset, std::vector<int64_t> rows)
      : ChosenRows(dataset), rows_(std::move(rows)) {}
  int64_t rows() const override { return static_cast<int64_t>(rows_.size()); }
  uint64_t fingerprint() const override {
    Fingerprint print;
    print.add("subset").add(base_fingerprint());
    for (const int64_t row : rows_) print.add(row);
    return print.value();
  }

 private:
  int64_t chosen(const Position& position) const override { return rows_[static_cast<size_t>(position.row)]; }

  std::vector<int64_t> rows_;
};

class SampledRows final : public ChosenRows {
 public:
  SampledRows(const Dataset& dataset, const std::vector<double>& weights, int64_t count,
              std::optional<uint64_t> seed)
      : ChosenRows(dataset),
        sums_(weights),
        count_(count),
        seed_(seed ? *seed : default_seed("sample_rows")),
        seeded_(seed.has_value()) {
    std::partial_sum(sums_.begin(), sums_.end(), sums_.begin());
    // Rows of weight 0 at the end are never drawn, even if the sum is rounded.
    while (weights[last_] == 0) --last_;
  }
  int64_t rows() const override { return count_; }
  uint64_t fingerprint() const override {
    Fingerprint print;
    print.add("sample_rows").add(base_fingerprint()).add(seed_).add(count_);
    for (const double sum : sums_) print.add(std::bit_cast<uint64_t>(sum));
    return print.value();
  }

 private:
  int64_t chosen(const Position& position) const override {
    constexpr uint64_t kWordsOfDraw = 2;
    Rng rng(Rng::State{seed_in_branch(seed_, seeded_, position.branch), position.epoch,
                       kWordsOfDraw * static_cast<uint64_t>(position.row)});
    const double drawn = rng.uniform() * sums_.back();
    const auto found = std::ranges::upper_bound(sums_, drawn) - sums_.begin();
    return std::min<int64_t>(found, static_cast<int64_t>(last_));
  }

  std::vector<double> sums_;
  int64_t count_;
  uint64_t seed_;
  bool seeded_;  // by the user: the same in all branches
  size_t last_ = sums_.size() - 1;
};

void require_rows(const Dataset& dataset, std::string_view where) {
  require(
      RecipeRows::possible(*dataset.recipe()), ErrorCode::kUnsupported, where,
      "the dataset isn't over rows of one shape that can be read in any order; call {} before shuffle and "
      "filter, or cache() the elements first",
      where);
}

}  // namespace

Dataset subset(const Dataset& dataset, std::vector<int64_t> rows) {
  require_rows(dataset, "subset");
  require(!rows.empty(), ErrorCode::kInvalidArgument, "subset", "no row is chosen");
  for (const int64_t row : rows) {
    require(row >= 0 && row < dataset.size(), ErrorCode::kOutOfRange, "subset", "row {} lies outside [0, {})",
            row, dataset.size());
  }
  return counted_on(*dataset.recipe(), Dataset(std::make_shared<SubsetRows>(dataset, std::move(rows))));
}

Dataset sample_rows(const Dataset& dataset, const std::vector<double>& weights, int64_t count,
                    std::optional<uint64_t> seed) {
  constexpr std::string_view kWhere = "sample_rows";
  require_rows(dataset, kWhere);
  require(static_cast<int64_t>(weights.size()) == dataset.size(), ErrorCode::kInvalidArgument, kWhere,
          "{} weights for {} rows; expected one weight per row", weights.size(), dataset.size());
  require(count >= 1, ErrorCode::kInvalidArgument, kWhere, "the count must be >= 1, got {}", count);
  double total = 0;
  for (const double weight : weights) {
    require(std::isfinite(weight) && weight >= 0, ErrorCode::kInvalidArgument, kWhere,
            "a weight must be finite and >= 0, got {}", weight);
    total += weight;
  }
  require(total > 0 && std::isfinite(total), ErrorCode::kInvalidArgument, kWhere,
          "the sum of the weights is {}, expected a finite number above 0", total);
  return counted_on(*dataset.recipe(), Dataset(std::make_shared<SampledRows>(dataset, weights, count, seed)));
}

std::vector<Fold> k_folds(int64_t rows, int64_t folds, std::optional<uint64_t> seed) {
  require(folds >= 2 && folds <= rows, ErrorCode::kInvalidArgument, "k_folds",
          "expected 2 to {} folds of {} rows, got {}", rows, rows, folds);
  std::vector<int64_t> order(static_cast<size_t>(rows));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (seed) {
    Rng rng(*seed);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  }
  std::vector<Fold> result(static_cast<size_t>(folds));
  for (int64_t f = 0; f < folds; ++f) {
    const int64_t begin = rows * f / folds, end = rows * (f + 1) / folds;
    Fold& fold = result[static_cast<size_t>(f)];
    for (int64_t i = 0; i < rows; ++i)
      (i >= begin && i < end ? fold.validation : fold.train).push_back(order[static_cast<size_t>(i)]);
    std::ranges::sort(fold.train);
    std::ranges::sort(fold.validation);
  }
  return result;
}

}  // namespace isochron::data
