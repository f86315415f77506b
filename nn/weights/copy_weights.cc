#include "isochron/nn/weights/copy_weights.h"

#include "isochron/ops/elementwise/elementwise.h"

namespace isochron::nn {
namespace {

using Pairs = std::vector<std::pair<Variable, Variable>>;

/// The variables of both lists, name by name.
Pairs paired(const Module::NamedVariables& from, const Module::NamedVariables& to, std::string_view what) {
  const auto require_in = [&](const std::string& name, const Module::NamedVariables& other,
                              std::string_view which) {
    const auto found = std::ranges::find(other, name, &std::pair<std::string, Variable>::first);
    require(found != other.end(), ErrorCode::kInvalidArgument, "copy_weights",
            "the module copied {} has no {} '{}'; both must be of one structure, and built (Module::build)",
            which, what, name);
    return found->second;
  };
  for (const auto& [name, variable] : to) require_in(name, from, "from");
  Pairs pairs;
  for (const auto& [name, variable] : from) {
    const Variable target = require_in(name, to, "to");
    require(target.spec() == variable.spec(),
            target.dtype() == variable.dtype() ? ErrorCode::kShapeMismatch : ErrorCode::kDtypeMismatch,
            "copy_weights", "'{}' is {} in the module copied from, but {} in the other", name,
            variable.spec().str(), target.spec().str());
    if (!(target == variable)) pairs.emplace_back(variable, target);
  }
  return pairs;
}

}  // namespace

void copy_weights(Module& from, Module& to, double share) {
  require(share > 0 && share <= 1, ErrorCode::kInvalidArgument, "copy_weights",
          "the share must be above 0 and at most 1, got {}", share);
  const Module::NamedVariables parameters = from.named_parameters();
  require(!parameters.empty(), ErrorCode::kInvalidArgument, "copy_weights",
          "the module copied from has no parameters yet; call it or build it first");
  const Pairs of_parameters = paired(parameters, to.named_parameters(), "parameter");
  const Pairs of_buffers = paired(from.named_buffers(), to.named_buffers(), "buffer");
  for (const auto& [source, target] : of_parameters) {
    const Tensor here = target.tensor(), there = source.tensor();
    target.assign(share < 1 ? here + (there - here) * share : there);
  }
  for (const auto& [source, target] : of_buffers) target.assign(source.tensor());
}

}  // namespace isochron::nn
