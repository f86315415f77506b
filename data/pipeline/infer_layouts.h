// What stages learn of their elements while a chain of calls is written down.
#pragma once

#include <vector>

#include "isochron/data/pipeline/recipe.h"

namespace isochron::data {

/// The layouts of what `map` gives for the elements of `recipe`, one for each of their forms: `declared`,
/// stacked alike, unless that is empty; else those of its results for elements made of the first ones. Throws
/// what the function causes, kInvalidArgument for results without content.
std::vector<Layout> infer_results(const Recipe& recipe, const MapStage& map, const Signature& declared);

/// The layouts of elements declared to be `declared`, one for each form of the last level.
std::vector<Layout> declared_results(const Recipe& recipe, const Layout& declared);

/// An element of `layout` padded as `options` say; writes one number a tensor to `padding`. Throws
/// kInvalidArgument for unknown names and other ranks.
Layout padded_layout(const Layout& layout, const PaddedBatchOptions& options, std::vector<double>& padding);

/// The first element of the first epoch, valid as long as `loader`, which it gives. Throws kInvalidArgument
/// when there is none.
const Element& first_element(const std::shared_ptr<const Recipe>& recipe, std::unique_ptr<Loader>& loader,
                             std::string_view where);

/// Leaves no odd batch.
void drop_odd(Recipe& recipe);

}  // namespace isochron::data
