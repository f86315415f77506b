#include "isochron/data/stages/combine.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "isochron/core/base/checked.h"
#include "isochron/core/base/rng.h"
#include "isochron/core/base/seed.h"
#include "isochron/data/element/branch.h"
#include "isochron/data/element/element_buffer.h"
#include "isochron/data/element/fingerprint.h"
#include "isochron/data/element/stacking.h"
#include "isochron/data/pipeline/loader.h"
#include "isochron/data/pipeline/recipe_rows.h"

namespace isochron::data {
namespace {

using Recipes = std::vector<std::shared_ptr<const Recipe>>;

Recipes recipes_of(std::span<const Dataset> datasets) {
  Recipes result;
  for (const Dataset& dataset : datasets) result.push_back(dataset.recipe());
  return result;
}

std::vector<std::unique_ptr<RecipeRows>> rows_of(const Recipes& recipes) {
  std::vector<std::unique_ptr<RecipeRows>> result;
  for (const auto& recipe : recipes) result.push_back(std::make_unique<RecipeRows>(recipe));
  return result;
}

uint64_t fingerprint_of(std::string_view what, const Recipes& recipes) {
  Fingerprint print;
  print.add(what);
  for (const auto& recipe : recipes) print.add(fingerprint(*recipe));
  return print.value();
}

Position in_part(Position position, uint64_t number) {
  position.branch = branch_of(position.branch, number);
  return position;
}

bool all_rows(const Recipes& recipes) {
  return std::ranges::all_of(recipes, [](const auto& recipe) { return RecipeRows::possible(*recipe); });
}

/// A stream over several datasets.
class OverSeveral : public ElementStream {
 public:
  explicit OverSeveral(const Recipes& recipes) {
    for (const auto& recipe : recipes) {
      const BranchScope scope(branch_of(BranchScope::current(), inputs_.size()));
      inputs_.push_back(std::make_unique<Loader>(recipe));
    }
  }
  void restart(uint64_t epoch) override {
    for (auto& input : inputs_) input->begin_epoch(epoch);
  }
  void save(StateWriter& state) const override {
    for (const auto& input : inputs_) state.put_text(input->state());
  }
  void restore(StateReader& state) override {
    for (auto& input : inputs_) input->resume(state.get_text());
  }

 protected:
  std::vector<std::unique_ptr<Loader>> inputs_;
};

/// A source defined by its layouts, its size, and a function that opens it.
class OpenedBy final : public StreamSource {
 public:
  using Open = std::function<std::unique_ptr<ElementStream>(const std::vector<Layout>&)>;
  OpenedBy(std::vector<Layout> layouts, int64_t size, uint64_t fingerprint, Open open)
      : layouts_(std::move(layouts)), size_(size), fingerprint_(fingerprint), open_(std::move(open)) {}
  const std::vector<Layout>& layouts() const override { return layouts_; }
  int64_t size() const override { return size_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  std::unique_ptr<ElementStream> open() const override { return open_(layouts_); }

 private:
  std::vector<Layout> layouts_;
  int64_t size_;
  uint64_t fingerprint_;
  Open open_;
};

class ZipRows final : public RowSource {
 public:
  ZipRows(const Recipes& recipes, Layout layout)
      : fingerprint_(fingerprint_of("zip", recipes)), parts_(rows_of(recipes)), layout_(std::move(layout)) {
    rows_ = parts_[0]->rows();
    for (const auto& part : parts_) rows_ = std::min(rows_, part->rows());
  }
  const Layout& layout() const override { return layout_; }
  int64_t rows() const override { return rows_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  void read(const Position& position, std::span<std::byte* const> into) const override {
    for (size_t i = 0; i < parts_.size(); ++i) {
      const size_t tensors = parts_[i]->layout().specs.size();
      parts_[i]->read(in_part(position, i), into.first(tensors));
      into = into.subspan(tensors);
    }
  }

 private:
  uint64_t fingerprint_;
  std::vector<std::unique_ptr<RecipeRows>> parts_;
  Layout layout_;
  int64_t rows_;
};

class ZipStream final : public OverSeveral {
 public:
  explicit ZipStream(const Recipes& recipes) : OverSeveral(recipes) {
    layouts_.reserve(recipes.size());
    for (const auto& recipe : recipes) layouts_.push_back(merged(recipe->results()));
    for (const Layout& layout : layouts_) restored_.push_back(std::make_unique<ElementBuffer>(layout));
  }
  void restart(uint64_t epoch) override {
    OverSeveral::restart(epoch);
    parts_.clear();
  }
  bool next(ElementBuffer& buffer) override {
    while (parts_.size() < inputs_.size()) {
      const Element* part = inputs_[parts_.size()]->advance();
      if (!part) return false;
      parts_.push_back(part);
    }
    int to = 0;
    for (const Element* part : parts_) {
      for (int i = 0; i < part->size(); ++i, ++to) {
        require_contiguous(*part, i, "zip");
        copy_tensor(*part, i, buffer.room(to, (*part)[i].shape()), "zip");
      }
    }
    parts_.clear();
    return true;
  }
  void save(StateWriter& state) const override {
    state.put(static_cast<uint64_t>(parts_.size()));
    for (size_t i = 0; i < parts_.size(); ++i) {
      ElementBuffer copy(layouts_[i]);
      copy.copy(*parts_[i], "zip");
      copy.save(state);
    }
    OverSeveral::save(state);
  }
  void restore(StateReader& state) override {
    parts_.clear();
    const int64_t parts = state.get_between(0, static_cast<int64_t>(inputs_.size()), "a dataset's number");
    while (static_cast<int64_t>(parts_.size()) < parts) {
      ElementBuffer& part = *restored_[parts_.size()];
      part.restore(state);
      parts_.push_back(&part.element());
    }
    OverSeveral::restore(state);
  }

 private:
  std::vector<Layout> layouts_;
  std::vector<std::unique_ptr<ElementBuffer>> restored_;
  std::vector<const Element*> parts_;  // of the next element; only some if its draw was interrupted
};

class ConcatenatedRows final : public RowSource {
 public:
  explicit ConcatenatedRows(const Recipes& recipes)
      : fingerprint_(fingerprint_of("concatenate", recipes)), parts_(rows_of(recipes)) {}
  const Layout& layout() const override { return parts_[0]->layout(); }
  int64_t rows() const override { return checked_add(parts_[0]->rows(), parts_[1]->rows(), "concatenate"); }
  uint64_t fingerprint() const override { return fingerprint_; }
  void read(const Position& position, std::span<std::byte* const> into) const override {
    const int64_t first = parts_[0]->rows();
    if (position.row < first) return parts_[0]->read(in_part(position, 0), into);
    Position of_second = in_part(position, 1);
    of_second.row -= first;
    parts_[1]->read(of_second, into);
  }

 private:
  uint64_t fingerprint_;
  std::vector<std::unique_ptr<RecipeRows>> parts_;
};

class ConcatenatedStream final : public OverSeveral {
 public:
  using OverSeveral::OverSeveral;
  void restart(uint64_t epoch) override {
    OverSeveral::restart(epoch);
    at_ = 0;
  }
  bool next(ElementBuffer& buffer) override {
    for (; at_ < inputs_.size(); ++at_) {
      if (const Element* element = inputs_[at_]->advance()) {
        buffer.copy(*element, "concatenate");
        return true;
      }
    }
    return false;
  }
  void save(StateWriter& state) const override {
    state.put(static_cast<uint64_t>(at_));
    OverSeveral::save(state);
  }
  void restore(StateReader& state) override {
    at_ =
        static_cast<size_t>(state.get_between(0, static_cast<int64_t>(inputs_.size()), "a dataset's number"));
    OverSeveral::restore(state);
  }

 private:
  size_t at_ = 0;
};

class SampledStream final : public OverSeveral {
 public:
  SampledStream(const Recipes& recipes, std::vector<double> weights, uint64_t seed, bool stop_on_empty)
      : OverSeveral(recipes),
        weights_(std::move(weights)),
        seed_(seed),
        stop_on_empty_(stop_on_empty),
        left_(weights_.size()) {}
  void restart(uint64_t epoch) override {
    OverSeveral::restart(epoch);
    rng_ = Rng(seed_, epoch);
    left_ = weights_;
  }
  bool next(ElementBuffer& buffer) override {
    for (;;) {
      const double total = std::accumulate(left_.begin(), left_.end(), 0.0);
      if (total == 0) return false;
      Rng rng = rng_;  // a copy: `rng_` must not advance if the draw is interrupted
      const size_t at = drawn(rng.uniform() * total);
      const Element* element = inputs_[at]->advance();
      rng_ = rng;
      if (element) {
        buffer.copy(*element, "sample_from_datasets");
        return true;
      }
      if (stop_on_empty_) left_.assign(left_.size(), 0);
      left_[at] = 0;
    }
  }
  void save(StateWriter& state) const override {
    state.put(rng_.state().stream);
    state.put(rng_.state().position);
    for (double weight : left_) state.put(static_cast<uint64_t>(weight > 0));
    OverSeveral::save(state);
  }
  void restore(StateReader& state) override {
    const uint64_t stream = state.get();
    rng_ = Rng(Rng::State{seed_, stream, state.get()});
    left_ = weights_;
    for (double& weight : left_) {
      if (state.get_between(0, 1, "0 or 1") == 0) weight = 0;
    }
    OverSeveral::restore(state);
  }

 private:
  /// The first dataset at which the sum of the weights exceeds `sum`. If rounding leaves none, the last one.
  size_t drawn(double sum) const {
    size_t last = 0;
    for (size_t i = 0; i < left_.size(); ++i) {
      if (left_[i] == 0) continue;
      if (sum < left_[i]) return i;
      sum -= left_[i];
      last = i;
    }
    return last;
  }

  std::vector<double> weights_;
  uint64_t seed_;
  bool stop_on_empty_;
  Rng rng_;
  std::vector<double> left_;  // weights of the datasets that have not ended
};

class GeneratorStream final : public ElementStream {
 public:
  GeneratorStream(const Layout& layout, std::function<Generator(uint64_t)> make)
      : layout_(layout), make_(std::move(make)) {}
  void restart(uint64_t epoch) override {
    epoch_ = epoch;
    given_ = 0;
    generator_ = make_(epoch);
    require(generator_ != nullptr, ErrorCode::kInvalidArgument, "from_generator", "the generator is empty");
  }
  bool next(ElementBuffer& buffer) override {
    const Position position{epoch_, given_, kNoRow};
    if (!generator_ || !in_stage("from_generator", 0, position, [&] { return generator_(buffer); })) {
      generator_ = nullptr;
      return false;
    }
    for (int i = 0; i < buffer.element().size(); ++i) {
      const Tensor& written = buffer.element()[i];
      require(
          written.defined() && !written.stale(), ErrorCode::kInvalidArgument, "from_generator",
          "the generator returned true for element {} of epoch {} without writing '{}'; write every tensor "
          "by room() or copy()",
          given_, epoch_, layout_.names[static_cast<size_t>(i)]);
    }
    ++given_;
    return true;
  }
  void save(StateWriter& state) const override {
    state.put(epoch_);
    state.put(given_);
    state.put(static_cast<uint64_t>(generator_ == nullptr));
  }
  void restore(StateReader& state) override {
    const uint64_t epoch = state.get();
    const int64_t given = state.get_between(0, INT64_MAX, "a number of elements");
    const bool ended = state.get_between(0, 1, "0 or 1") == 1;
    restart(epoch);
    ElementBuffer passed_over(layout_);
    while (given_ < given) {
      if (!next(passed_over)) state.refuse("a place that the generator reaches");
    }
    if (ended) generator_ = nullptr;
  }

 private:
  const Layout& layout_;
  std::function<Generator(uint64_t)> make_;
  Generator generator_;
  uint64_t epoch_ = 0;
  int64_t given_ = 0;
};

void require_alike(std::span<const Dataset> datasets) {
  std::vector<Layout> layouts;
  for (const Dataset& dataset : datasets) layouts.push_back(merged(dataset.recipe()->results()));
  static_cast<void>(merged(layouts));
}

/// The layouts of a dataset's elements in a zip of `size` elements: of all except the last, and of the last.
std::pair<Layout, Layout> zipped_forms(const Recipe& recipe, int64_t size) {
  const std::vector<Layout>& forms = recipe.results();
  if (forms.size() == 1) return {forms[0], forms[0]};
  if (recipe.partial_rows == 0 || !recipe.partial_is_last || recipe.size < 0 || size < 0) {
    const Layout any = merged(forms);
    return {any, any};
  }
  return {forms[kFull], forms[recipe.size == size ? kPartial : kFull]};
}

/// All different layouts of the datasets' elements.
std::vector<Layout> layouts_of(const Recipes& recipes) {
  std::vector<Layout> result;
  for (const auto& recipe : recipes) {
    for (const Layout& layout : recipe->results()) {
      if (std::ranges::find(result, layout) == result.end()) result.push_back(layout);
    }
  }
  return result;
}

int64_t larger(int64_t a, int64_t b) { return a == kAutotune || b == kAutotune ? kAutotune : std::max(a, b); }

/// A salt above those of all shuffles in `recipes`.
uint64_t next_salt_of(const Recipes& recipes) {
  uint64_t result = 0;
  for (const auto& recipe : recipes) result = std::max(result, next_salt(*recipe));
  return result;
}

/// A dataset over `rows`, made from `recipes`. It takes the largest numbers of threads and prefetched
/// elements among them, and keeps its order if any of them does.
Dataset over_rows(std::shared_ptr<const RowSource> rows, const Recipes& recipes) {
  const std::shared_ptr<Recipe> recipe = recipe_over(std::move(rows));
  recipe->first_salt = next_salt_of(recipes);
  recipe->deterministic = false;
  for (const auto& input : recipes) {
    recipe->prefetch_elems = larger(recipe->prefetch_elems, input->prefetch_elems);
    recipe->workers = larger(recipe->workers, input->workers);
    recipe->deterministic |= input->deterministic;
  }
  return Dataset(recipe);
}

Dataset over_stream(std::vector<Layout> layouts, int64_t size, uint64_t fingerprint, const Recipes& recipes,
                    OpenedBy::Open open) {
  const std::shared_ptr<Recipe> recipe =
      recipe_over(std::make_shared<OpenedBy>(std::move(layouts), size, fingerprint, std::move(open)));
  recipe->first_salt = next_salt_of(recipes);
  return Dataset(recipe);
}

}  // namespace

Dataset zip(std::initializer_list<std::pair<std::string_view, Dataset>> datasets) {
  require(datasets.size() > 0, ErrorCode::kInvalidArgument, "zip", "needs at least one dataset");
  Recipes recipes;
  Element names;  // refuses repeated and too many
  int64_t size = kInfinite;
  for (const auto& [name, dataset] : datasets) {
    recipes.push_back(dataset.recipe());
    const int64_t more = dataset.size();
    if (size == kInfinite || more == kUnknown) {
      size = size == kUnknown ? kUnknown : more;
    } else if (more >= 0 && size >= 0) {
      size = std::min(size, more);
    }
  }
  Layout full, last;
  size_t part = 0;
  for (const auto& [name, dataset] : datasets) {
    const auto [of_full, of_last] = zipped_forms(*recipes[part++], size);
    for (size_t i = 0; i < of_full.names.size(); ++i) {
      full.names.push_back(of_full.names.size() == 1 ? std::string(name)
                                                     : fmt::format("{}/{}", name, of_full.names[i]));
      full.specs.push_back(of_full.specs[i]);
      last.specs.push_back(of_last.specs[i]);
      names.add(full.names.back(), Tensor());
    }
  }
  last.names = full.names;
  if (all_rows(recipes)) return over_rows(std::make_shared<ZipRows>(recipes, std::move(full)), recipes);
  std::vector<Layout> layouts = {std::move(full)};
  if (last.specs != layouts[0].specs) layouts.push_back(std::move(last));
  return over_stream(std::move(layouts), size, fingerprint_of("zip", recipes), recipes,
                     [recipes](const auto&) { return std::make_unique<ZipStream>(recipes); });
}

Dataset concatenate(const Dataset& first, const Dataset& second) {
  const Dataset both[] = {first, second};
  require_alike(both);
  require(first.size() != kInfinite, ErrorCode::kInvalidArgument, "concatenate",
          "the first dataset has no end, so nothing would follow it");
  const Recipes recipes = recipes_of(both);
  if (all_rows(recipes) && recipes[0]->results() == recipes[1]->results()) {
    return over_rows(std::make_shared<ConcatenatedRows>(recipes), recipes);
  }
  const bool known = first.size() >= 0 && second.size() >= 0;
  const int64_t size = known                        ? first.size() + second.size()
                       : second.size() == kInfinite ? kInfinite
                                                    : kUnknown;
  return over_stream(layouts_of(recipes), size, fingerprint_of("concatenate", recipes), recipes,
                     [recipes](const auto&) { return std::make_unique<ConcatenatedStream>(recipes); });
}

Dataset sample_from_datasets(const std::vector<Dataset>& datasets, const std::vector<double>& weights,
                             SampleOptions options) {
  constexpr std::string_view kWhere = "sample_from_datasets";
  const bool seeded = options.seed.has_value();
  const uint64_t seed = seeded ? *options.seed : default_seed(kWhere);
  require(!datasets.empty() && datasets.size() == weights.size(), ErrorCode::kInvalidArgument, kWhere,
          "{} datasets and {} weights; expected one weight per dataset, and at least one", datasets.size(),
          weights.size());
  double total = 0;
  for (double weight : weights) {
    require(std::isfinite(weight) && weight >= 0, ErrorCode::kInvalidArgument, kWhere,
            "a weight must be finite and >= 0, got {}", weight);
    total += weight;
  }
  require(total > 0, ErrorCode::kInvalidArgument, kWhere, "the weights are all 0");
  require(std::isfinite(total), ErrorCode::kInvalidArgument, kWhere, "the sum of the weights overflows");
  require_alike(datasets);
  const Recipes recipes = recipes_of(datasets);
  bool endless = false;
  for (size_t i = 0; i < recipes.size(); ++i) endless |= weights[i] > 0 && recipes[i]->size == kInfinite;
  int64_t size = endless && !options.stop_on_empty_dataset ? kInfinite : kUnknown;
  if (!endless && !options.stop_on_empty_dataset) {
    size = 0;
    for (size_t i = 0; i < recipes.size(); ++i) {
      if (weights[i] == 0) continue;
      size = recipes[i]->size < 0 || size < 0 ? kUnknown : size + recipes[i]->size;
    }
  }
  Fingerprint print;
  print.add(fingerprint_of("sample", recipes)).add(seed);
  print.add(static_cast<uint64_t>(options.stop_on_empty_dataset));
  for (double weight : weights) print.add(std::bit_cast<uint64_t>(weight));
  return over_stream(layouts_of(recipes), size, print.value(), recipes,
                     [=, stop = options.stop_on_empty_dataset](const auto&) {
                       const uint64_t own_seed = seed_in_branch(seed, seeded, BranchScope::current());
                       return std::make_unique<SampledStream>(recipes, weights, own_seed, stop);
                     });
}

Dataset from_generator(std::vector<std::string> names, Signature signature,
                       std::function<Generator(uint64_t epoch)> make) {
  constexpr std::string_view kWhere = "from_generator";
  require(make != nullptr, ErrorCode::kInvalidArgument, kWhere, "the function is empty");
  require(!names.empty() && names.size() == signature.size(), ErrorCode::kInvalidArgument, kWhere,
          "{} names and {} specs; expected one spec per name, and at least one", names.size(),
          signature.size());
  Element checked;  // refuses repeated and too many
  for (const std::string& name : names) checked.add(name, Tensor());
  return over_stream({{std::move(names), std::move(signature)}}, kUnknown,
                     Fingerprint().add("generator").value(), {},
                     [make = std::move(make)](const std::vector<Layout>& layouts) {
                       return std::make_unique<GeneratorStream>(layouts[0], make);
                     });
}

}  // namespace isochron::data
