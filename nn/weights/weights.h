// A module's weights (its parameters and buffers) to and from safetensors files, under our names and layouts
// or those of another framework.
//
//   model.build({DType::kF32, {1, 224, 224, 3}});  // parameters exist from the first call or build on
//   nn::load_weights(model, "resnet.safetensors", {.naming = {.convention = nn::Convention::kPyTorch}});
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "isochron/nn/module/module.h"
#include "isochron/nn/weights/safetensors.h"
#include "isochron/nn/weights/weight_rules.h"

namespace isochron::nn {

/// What the tensors of a file are called and how they are laid out.
struct WeightNaming {
  /// Under kPyTorch paths are joined by dots, and the children of a Sequential go by their position, where an
  /// activation in a layer counts as a layer after it, which it is there: Dense(8, kRelu) stands for two.
  Convention convention = Convention::kIsochron;
  /// From a name under the convention to the name in the file, where these differ.
  std::function<std::string(const std::string& name)> rename = {};
  /// Rules that go before the convention's, for modules of one's own.
  std::vector<WeightRule> rules = {};
};

/// Writes all parameters and buffers built so far, complete or not at all. A shared variable is written once,
/// under its first name; loading reads over its others. Throws kInvalidArgument when nothing is built or two
/// get one name, kIo; kCaptureViolation in a capture.
struct SaveOptions {
  WeightNaming naming = {};
  /// kPyTorch adds "format": "pt", which its loaders ask for.
  SafetensorsMetadata metadata = {};
};
void save_weights(Module& module, const std::filesystem::path& path, const SaveOptions& options = {});

struct LoadOptions {
  WeightNaming naming = {};
  /// Whether a variable without a tensor, or a tensor without a variable, is an error.
  bool strict = true;
  /// Leaves variables as they are whose tensor has another shape or dtype, instead of an error.
  bool skip_mismatched = false;
};

/// Names as in the file.
struct LoadReport {
  size_t loaded = 0;  // variables
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<std::string> mismatched;  // "name: the file has ..., the model ..."

  /// Whether nothing is missing, unexpected or mismatched.
  bool fits() const { return missing.empty() && unexpected.empty() && mismatched.empty(); }
  /// The three lists for people, each on a line of its own and cut short; empty when all fits.
  std::string str() const;
};

/// Fills the module's variables from a file; floating dtypes are converted to each other. Either all that
/// fits is loaded or, on any error, nothing: all tensors are read before the first variable changes. Captured
/// steps see the new content. Throws as SafetensorsFile; kOutOfRange or, where shapes or dtypes differ,
/// kShapeMismatch, listing all that is missing, unexpected and mismatched; kInvalidArgument when nothing is
/// built; kCaptureViolation in a capture.
LoadReport load_weights(Module& module, const std::filesystem::path& path, const LoadOptions& options = {});

}  // namespace isochron::nn
