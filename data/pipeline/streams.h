// Sources that read other datasets element by element; filter, interleave, unbatch and cache use them. The
// state of such a stream includes the states of the datasets that it reads.
#pragma once

#include <functional>
#include <memory>

#include "isochron/data/element/source.h"
#include "isochron/data/pipeline/dataset.h"

namespace isochron::data {

using RecipeFunction = std::function<std::shared_ptr<const Recipe>(const Element&)>;

std::shared_ptr<const StreamSource> filter_source(std::shared_ptr<const Recipe> input,
                                                  std::function<bool(const Element&)> keep);
std::shared_ptr<const StreamSource> interleave_source(std::shared_ptr<const Recipe> input,
                                                      RecipeFunction function,
                                                      const InterleaveOptions& options, const char* where);
std::shared_ptr<const StreamSource> unbatch_source(std::shared_ptr<const Recipe> input);
/// Runs `input` once and keeps its elements as rows.
std::shared_ptr<const RowSource> cached_rows(const std::shared_ptr<const Recipe>& input, size_t limit_bytes);

}  // namespace isochron::data
