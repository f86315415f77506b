// Random programs run in every way the project supports: eager, captured without and with each pass, with
// poisoned memory, replayed, differentiated by tape, in the graph, and by central differences. All must
// agree.
#include <gmock/gmock.h>

#include <cmath>
#include <optional>

#include "graph/program/trace.h"
#include "isochron/autograd/autograd.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/memory/planner/planner.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "random_program.h"
#include "support/sanitizers.h"

namespace isochron::graph {
namespace {

using Contents = std::vector<std::vector<double>>;

/// Where two lists of contents differ by more than `tolerance` (0: at all), or nothing.
std::string difference(const Contents& expected, const Contents& got, double tolerance) {
  if (expected.size() != got.size()) return fmt::format("{} tensors became {}", expected.size(), got.size());
  for (size_t t = 0; t < expected.size(); ++t) {
    if (expected[t].size() != got[t].size()) return fmt::format("tensor {} has another size", t);
    for (size_t i = 0; i < expected[t].size(); ++i) {
      const double e = expected[t][i];
      const double g = got[t][i];
      if (std::isnan(e) && std::isnan(g)) continue;
      const bool equal = tolerance == 0 ? e == g && std::signbit(e) == std::signbit(g)
                                        : e == g || std::abs(e - g) <= tolerance * (1 + std::abs(e));
      if (!equal) return fmt::format("tensor {}, element {}: expected {}, got {}", t, i, e, g);
    }
  }
  return "";
}

Contents contents_of(std::span<const Tensor> tensors) {
  Contents contents;
  for (const Tensor& tensor : tensors) contents.push_back(tensor.refreshed().to_vector());
  return contents;
}

constexpr int kSteps = 3;
constexpr uint64_t kData = 77;

/// Outputs of each step, then the variables at the end.
using StepFunction = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
Contents run_steps(const RandomProgram& program, const std::vector<Tensor>& variables,
                   const StepFunction& step) {
  Contents all;
  for (uint64_t i = 0; i < kSteps; ++i) {
    const Contents outputs = contents_of(step(program.make_inputs(kData + i)));
    all.insert(all.end(), outputs.begin(), outputs.end());
  }
  const Contents end = contents_of(variables);
  all.insert(all.end(), end.begin(), end.end());
  return all;
}

Contents run_eager(const RandomProgram& program) {
  const std::vector<Tensor> variables = program.make_variables(kData);
  return run_steps(program, variables,
                   [&](std::span<const Tensor> inputs) { return program.run(inputs, variables); });
}

/// Runs the planner's own checker on the reported plan.
void check_buffers(const PlanReport& report, size_t zone_bytes) {
  std::vector<BufferRequest> requests;
  MemoryPlan placed;
  for (const PlannedBuffer& buffer : report.buffers) {
    requests.push_back({buffer.lower, buffer.upper, buffer.size_bytes + zone_bytes});
    placed.offsets.push_back(buffer.offset);
  }
  placed.arena_bytes = report.arena_bytes;
  check_plan(requests, placed);
  require(report.arena_bytes >= report.lower_bound_bytes, ErrorCode::kInvalidArgument, "test",
          "the arena is below its bound");
}

CapturedFunction captured(const RandomProgram& program, const std::vector<Tensor>& variables,
                          const CaptureOptions& options) {
  return CapturedFunction([&](std::span<const Tensor> inputs) { return program.run(inputs, variables); },
                          options);
}

std::vector<Tensor> call(CapturedFunction& function, std::span<const Tensor> inputs) {
  std::vector<const Tensor*> arguments;
  for (const Tensor& input : inputs) arguments.push_back(&input);
  const std::span<const Tensor> results = function.call(arguments);
  return {results.begin(), results.end()};
}

Contents run_captured(const RandomProgram& program, const CaptureOptions& options) {
  const std::vector<Tensor> variables = program.make_variables(kData);
  CapturedFunction function = captured(program, variables, options);
  Contents all =
      run_steps(program, variables, [&](std::span<const Tensor> in) { return call(function, in); });
  function.graph().check();
  check_buffers(function.plan_report(), options.plan.poison ? 64 : 0);
  return all;
}

struct Way {
  std::string name;
  CaptureOptions options;
  bool exact;  // bit for bit with eager
};

std::vector<Way> ways() {
  std::vector<Way> list = {
      {"no passes", {.passes = {.disabled = {"all"}}}, true},
      {"no passes, poison", {.passes = {.disabled = {"all"}}, .plan = {.poison = true}}, true}};
  for (const PassInfo& pass : passes())
    list.push_back({std::string(pass.name), {.passes = only(pass.name)}, false});
  list.push_back({"all passes", {}, false});
  list.push_back({"all passes, poison", {.plan = {.poison = true}}, false});
  return list;
}

/// Runs `check` (returns the text of a failure, or nothing) on `count` programs; shrinks and prints a failing
/// one.
void for_programs(uint64_t first, int count, const ProgramOptions& options,
                  const std::function<std::string(const RandomProgram&)>& check) {
  const auto checked = [&](const RandomProgram& program) -> std::string {
    try {
      return check(program);
    } catch (const Error& error) {
      return error.what();
    }
  };
  const int tried = kSanitizer ? (count + 2) / 3 : count;
  for (uint64_t seed = first; seed < first + static_cast<uint64_t>(tried); ++seed) {
    RandomProgram program(seed, options);
    if (checked(program).empty()) continue;
    program.shrink([&](const RandomProgram& smaller) { return !checked(smaller).empty(); });
    ADD_FAILURE() << "seed " << seed << ": " << checked(program) << "\n" << program.text();
    return;
  }
}

std::string compare_ways(const RandomProgram& program, double tolerance) {
  const Contents expected = run_eager(program);
  for (const Way& way : ways()) {
    const std::string differs =
        difference(expected, run_captured(program, way.options), way.exact ? 0 : tolerance);
    if (!differs.empty()) return way.name + ": " + differs;
  }
  return "";
}

TEST(Differential, CapturedEqualsEagerInF64) {
  for_programs(1, 250, {}, [](const RandomProgram& program) { return compare_ways(program, 1e-9); });
}

TEST(Differential, CapturedEqualsEagerInF32) {
  for_programs(5001, 150, {.dtype = DType::kF32},
               [](const RandomProgram& program) { return compare_ways(program, 2e-3); });
}

TEST(Differential, LongPrograms) {
  for_programs(9001, 12, {.lines = 150},
               [](const RandomProgram& program) { return compare_ways(program, 1e-7); });
}

TEST(Differential, PoisonedReplaysEqualPlainOnesBitForBit) {
  for_programs(11001, 60, {}, [](const RandomProgram& program) {
    return difference(run_captured(program, {}), run_captured(program, {.plan = {.poison = true}}), 0);
  });
}

/// A scalar that depends on all floating outputs.
Tensor loss_of(std::span<const Tensor> outputs) {
  Tensor total;
  for (const Tensor& output : outputs) {
    const Tensor part = sum(tanh(output * 0.5));
    total = total.defined() ? total + part : part;
  }
  return total;
}

std::vector<Tensor> defined(std::vector<Tensor> gradients, std::span<const Tensor> sources) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) gradients[i] = zeros_like(sources[i]);
  }
  return gradients;
}

/// Gradients with respect to inputs and variables by a tape.
Contents tape_gradients(const RandomProgram& program) {
  const std::vector<Tensor> variables = program.make_variables(kData);
  std::vector<Tensor> sources = program.make_inputs(kData);
  GradientTape tape;
  const Tensor loss = loss_of(program.run(sources, variables));
  sources.insert(sources.end(), variables.begin(), variables.end());
  return contents_of(defined(tape.gradient(loss, sources), sources));
}

Contents captured_gradients(const RandomProgram& program, const CaptureOptions& options) {
  const std::vector<Tensor> variables = program.make_variables(kData);
  CapturedFunction function(
      [&](std::span<const Tensor> inputs) {
        std::vector<Tensor> sources(inputs.begin(), inputs.end());
        sources.insert(sources.end(), variables.begin(), variables.end());
        const Tensor loss = loss_of(program.run(inputs, variables));
        return defined(gradients(loss, sources), sources);
      },
      options);
  const std::vector<Tensor> inputs = program.make_inputs(kData);
  call(function, inputs);
  return contents_of(call(function, inputs));
}

TEST(Differential, GradientsOfTapeAndCaptureAgree) {
  for_programs(20001, 150, {.assigns = false}, [](const RandomProgram& program) -> std::string {
    const Contents expected = tape_gradients(program);
    for (const Way& way : ways()) {
      const std::string differs =
          difference(expected, captured_gradients(program, way.options), way.exact ? 0 : 1e-8);
      if (!differs.empty()) return way.name + ": " + differs;
    }
    return "";
  });
}

TEST(Differential, GradientsAgreeWithCentralDifferences) {
  for_programs(30001, 120, {.assigns = false, .smooth = true, .lines = 8},
               [](const RandomProgram& program) -> std::string {
                 const Contents gradients = tape_gradients(program);
                 const std::vector<Tensor> variables = program.make_variables(kData);
                 const std::vector<Tensor> inputs = program.make_inputs(kData);
                 std::vector<Tensor> sources = inputs;
                 sources.insert(sources.end(), variables.begin(), variables.end());
                 Rng rng(1);
                 for (size_t s = 0; s < sources.size(); ++s) {
                   const auto element =
                       static_cast<size_t>(rng.below(static_cast<uint64_t>(sources[s].elems())));
                   double& x = sources[s].span<double>()[element];
                   const double at = x;
                   constexpr double kStep = 1e-5;
                   x = at + kStep;
                   const double above = loss_of(program.run(inputs, variables)).item<double>();
                   x = at - kStep;
                   const double below = loss_of(program.run(inputs, variables)).item<double>();
                   x = at;
                   const double numeric = (above - below) / (2 * kStep);
                   const double analytic = gradients[s][element];
                   if (!(std::abs(numeric - analytic) <= 1e-6 + 1e-5 * std::abs(numeric))) {
                     return fmt::format("source {}, element {}: differences give {}, the tape {}", s, element,
                                        numeric, analytic);
                   }
                 }
                 return "";
               });
}

}  // namespace
}  // namespace isochron::graph
