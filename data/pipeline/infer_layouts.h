// How stages learn the layouts of their elements while a chain of calls is built.
#pragma once

#include <vector>

#include "isochron/data/pipeline/recipe.h"

namespace isochron::data {

/// The layouts of the results of `map` for the elements of `recipe`, one per form. If `declared` isn't
/// empty, it describes a full element. Otherwise they are inferred from results for elements made from the
/// first ones. Throws errors of the function, and kInvalidArgument for results without content.
std::vector<Layout> infer_results(const Recipe& recipe, const MapStage& map, const Signature& declared);

/// The layouts of elements declared to be `declared`, one for each form of the last level.
std::vector<Layout> declared_results(const Recipe& recipe, const Layout& declared);

/// The layout of elements of `layout` padded according to `options`; writes one number per tensor to
/// `padding`. Throws kInvalidArgument for unknown names and wrong ranks.
Layout padded_layout(const Layout& layout, const PaddedBatchOptions& options, std::vector<double>& padding);

/// The first element of the first epoch; it is valid as long as `loader`, which this function sets. Throws
/// kInvalidArgument if there is no element.
const Element& first_element(const std::shared_ptr<const Recipe>& recipe, std::unique_ptr<Loader>& loader,
                             std::string_view where);

/// Removes the partial batch from the recipe's last level.
void drop_partial(Recipe& recipe);

}  // namespace isochron::data
