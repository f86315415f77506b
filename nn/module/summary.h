// A table of a model's modules, with their paths, kinds, results and parameters.
//
//   fmt::print("{}", nn::summary(model, {DType::kF32, {32, 784}}).str());
//
//   path     kind        output       parameters  trainable      bytes
//   -        sequential  f32(32, 10)           0          0        0 B
//   dense    dense       f32(32, 64)      50,240     50,240  200.96 KB
//   dense_1  dense       f32(32, 10)         650        650    2.60 KB
//
//   50,890 parameters, 50,890 of them trainable, 203.56 KB; buffers 0 B
#pragma once

#include <array>
#include <concepts>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "isochron/nn/module/module.h"

namespace isochron::nn {

struct ModuleSummary {
  std::string path;  // empty for the model itself
  std::string kind;
  /// The results of its calls, in order: one spec for each call, but a spec that repeats is listed once.
  /// Empty if there was no input, and for modules whose `forward` wasn't called.
  std::vector<TensorSpec> outputs;
  /// Its own parameters, without its children's. Parameters counted in an earlier row are left out, so that
  /// the rows add up.
  int64_t parameters = 0;
  int64_t trainable = 0;
  size_t bytes = 0;         // of the parameters
  size_t buffer_bytes = 0;  // of its own buffers
};

struct Summary {
  std::vector<ModuleSummary> modules;  // each before its children, in the order of `members`
  int64_t parameters = 0;
  int64_t trainable = 0;
  size_t bytes = 0;
  size_t buffer_bytes = 0;
  /// A table and a line of totals.
  std::string str() const;
};
std::ostream& operator<<(std::ostream& out, const Summary& summary);

/// The summary of what has been built so far, without results. A layer listed twice appears at its first
/// path.
Summary summary(Module& model);
/// Builds the model for inputs of these specs, as Module::build does, and records each module's results.
/// Throws the same errors as `build`.
Summary summary(Module& model, const TensorSpec& input);
Summary summary(Module& model, std::span<const TensorSpec> inputs);
template <std::same_as<TensorSpec>... Others>
Summary summary(Module& model, const TensorSpec& a, const TensorSpec& b, const Others&... others) {
  return summary(model, std::array{a, b, others...});
}

}  // namespace isochron::nn
