// Saves a module's weights (parameters and buffers) to safetensors files and loads them, under the names and
// in the layouts of this project or of another framework.
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
  /// Under kPyTorch, paths are joined by dots and the children of a Sequential are named by position. In
  /// PyTorch an activation is a layer of its own, so a layer here that has an activation counts as two:
  /// Dense(8, kRelu) takes two positions.
  Convention convention = Convention::kIsochron;
  /// Converts a name under the convention to the name in the file, if the two differ.
  std::function<std::string(const std::string& name)> rename = {};
  /// Rules that take precedence over the convention's, for user-defined modules.
  std::vector<WeightRule> rules = {};
};

struct SaveOptions {
  WeightNaming naming = {};
  /// kPyTorch adds "format": "pt", which its loaders ask for.
  SafetensorsMetadata metadata = {};
};
/// Writes all parameters and buffers built so far; the file is written completely or not at all. A shared
/// variable is written once, under its first name; loading skips its other names. Throws kInvalidArgument if
/// nothing is built or two tensors get the same name, kIo, and kCaptureViolation in a capture.
void save_weights(Module& module, const std::filesystem::path& path, const SaveOptions& options = {});

struct LoadOptions {
  WeightNaming naming = {};
  /// Whether a variable without a tensor, or a tensor without a variable, is an error.
  bool strict = true;
  /// If a tensor's shape or dtype differs from its variable's, leaves the variable unchanged instead of
  /// throwing.
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
  /// The three lists as readable text, one line per list, shortened if long; empty if everything fits.
  std::string str() const;
};

/// Fills the module's variables from a file; floating dtypes are converted to each other. All tensors are
/// read before the first variable changes: on any error nothing is loaded, otherwise everything that fits.
/// Captured steps see the new content. Throws the errors of SafetensorsFile; kOutOfRange or, if shapes or
/// dtypes differ, kShapeMismatch, listing everything that is missing, unexpected or mismatched;
/// kInvalidArgument if nothing is built; kCaptureViolation in a capture.
LoadReport load_weights(Module& module, const std::filesystem::path& path, const LoadOptions& options = {});

}  // namespace isochron::nn
