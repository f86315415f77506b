// A graph as a plain list of nodes, which `graph` makes and other code shows (TensorBoard's files in
// `observe`).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "isochron/core/tensor/shape.h"

namespace isochron {

struct ListedNode {
  std::string name;  // unique in the listing; the parts before a '/' are scopes
  std::string op;
  std::vector<std::string> inputs = {};  // names of nodes; "name:1" for the second result
  std::vector<TensorSpec> outputs = {};
  std::vector<std::pair<std::string, std::string>> attributes = {};
};
/// In topological order.
using GraphListing = std::vector<ListedNode>;

}  // namespace isochron
