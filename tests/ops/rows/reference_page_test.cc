// docs/ops.md is generated from the registry: this test checks that the page is up to date. `make
// ops-reference` regenerates it (with ISOCHRON_WRITE_OPS_REFERENCE set, this test does so).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "isochron/core/files/file.h"
#include "isochron/ops/elementwise/element_accuracy.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"

namespace isochron {
namespace {

using graph::FusionClass;
using graph::OpDef;

std::string inputs_text(const OpDef& op) {
  if (op.max_inputs < 0) return fmt::format("{} or more", op.min_inputs);
  if (op.max_inputs != op.min_inputs) return fmt::format("{} to {}", op.min_inputs, op.max_inputs);
  return fmt::format("{}", op.min_inputs);
}

/// The first sample as a call with its result: "f32(2, 3) axes=(1) -> f32(2)".
std::string example_text(const OpDef& op) {
  if (op.samples.empty()) return "";
  const graph::OpSample& sample = op.samples[0];
  const bool any_f32 = op.dtypes.empty() || std::count(op.dtypes.begin(), op.dtypes.end(), DType::kF32) > 0;
  std::vector<TensorSpec> specs;
  std::string text;
  for (const graph::InputSample& input : sample.inputs) {
    specs.push_back({input.dtype.value_or(any_f32 ? DType::kF32 : op.dtypes[0]), input.shape});
    text += fmt::format("{}{}", text.empty() ? "" : ", ", specs.back().str());
  }
  const std::string attributes = sample.attributes.str();
  if (!attributes.empty()) text += fmt::format("{}{}", text.empty() ? "" : "; ", attributes);
  std::string results;
  for (const TensorSpec& spec : graph::infer_outputs(op, specs, sample.attributes)) {
    results += fmt::format("{}{}", results.empty() ? "" : ", ", spec.str());
  }
  return fmt::format("`{} -> {}`", text, results);
}

std::string dtypes_text(const OpDef& op) {
  if (op.samples.empty()) return "";
  if (op.dtypes.empty()) return "f64 f32";
  std::string text;
  for (const DType dtype : op.dtypes) text += fmt::format("{}{}", text.empty() ? "" : " ", dtype_name(dtype));
  return text;
}

std::string notes_text(const OpDef& op) {
  std::string text = !op.gradient ? "" : (op.gradient == ops::no_gradient ? "gradient 0" : "gradient");
  const auto add = [&text](bool condition, std::string_view note) {
    if (condition) text += fmt::format("{}{}", text.empty() ? "" : ", ", note);
  };
  add(op.may_alias != nullptr, "in place");
  add(op.fusion == FusionClass::kView, "view");
  add(op.random, "random");
  add(op.side_effect, "side effect");
  add(op.precision.rule == graph::PrecisionRule::kLow, "low");
  add(op.precision.rule == graph::PrecisionRule::kFollow, "follows");
  return text;
}

void append_table(std::string& page, std::string_view title, bool (*belongs)(const OpDef&)) {
  page += fmt::format(
      "\n## {}\n\n| op | result | inputs | dtypes tested | example | |\n|---|---|---|---|---|---|\n", title);
  for (const OpDef& op : ops::registry().rows()) {
    if (!belongs(op)) continue;
    std::string summary;
    for (const char c : op.summary) summary += c == '|' ? std::string("\\|") : std::string(1, c);
    page += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", op.name, summary, inputs_text(op),
                        dtypes_text(op), example_text(op), notes_text(op));
  }
}

std::string bound_text(const ops::ErrorBound& bound) {
  if (bound.ulp == 0) return "exact";
  return fmt::format("{}{}", bound.ulp, bound.absolute > 0 ? fmt::format(" or {} eps", bound.absolute) : "");
}

void append_accuracies(std::string& page) {
  page +=
      "\n## Accuracy of the element functions\n\n"
      "Largest error, in units in the last place of the exact result, on every instruction set and over the\n"
      "whole domain; *or n eps*: at most n times the dtype's epsilon where that is more. 16-bit floats are\n"
      "computed in f32 and rounded once. The rules are in `ops/elementwise/element_accuracy.h`.\n\n"
      "| function | f32 | f64 |\n|---|---|---|\n";
  for (const ops::ElementAccuracy& row : ops::element_accuracies()) {
    page += fmt::format("| `{}` | {} | {} |\n", graph::element_op_name(row.op), bound_text(row.f32),
                        bound_text(row.f64));
  }
}

std::string reference_page() {
  std::string page =
      "# Op reference\n\n"
      "Written from the registry by `make ops-reference`; a test holds it to the registry. The functions "
      "that call\n"
      "these ops, with their shapes, errors and precision, are in the headers of `ops/`.\n\n"
      "Last column: *gradient*: differentiable, at least twice; *gradient 0*: no gradient flows\n"
      "through; *in place*: the result may reuse an input's memory; *view*: no kernel runs; *random*:\n"
      "each call draws new numbers; *side effect*: runs even if its result is unused. Under mixed\n"
      "precision, *low* ops take 16-bit operands, and ops that *follow* take the dtype of their\n"
      "neighbors and compute in f32, as do elementwise ops, reductions and ops that only move elements.\n"
      "All others run in f32.\n";
  append_table(page, "Element functions, which fuse with each other",
               [](const OpDef& op) { return op.fusion == FusionClass::kElementwise; });
  append_table(page, "Reductions, which close a fused group",
               [](const OpDef& op) { return op.fusion == FusionClass::kReduction; });
  append_table(page, "All others", [](const OpDef& op) {
    return op.fusion == FusionClass::kOpaque || op.fusion == FusionClass::kView;
  });
  append_accuracies(page);
  return page;
}

TEST(OpReference, PageIsUpToDate) {
  const std::string path = ISOCHRON_SOURCE_DIR "/docs/ops.md";
  const std::string page = reference_page();
  if (std::getenv("ISOCHRON_WRITE_OPS_REFERENCE")) write_file_atomically(path, page);
  const std::vector<std::byte> bytes = read_file(path);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), page)
      << "run `make ops-reference` and commit the result";
}

TEST(OpReference, EveryRowHasASummary) {
  for (const OpDef& op : ops::registry().rows()) EXPECT_FALSE(op.summary.empty()) << op.name;
}

}  // namespace
}  // namespace isochron
