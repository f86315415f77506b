#include "ops/rows/op_checks.h"

#include <cmath>
#include <cstring>

#include "isochron/autograd/autograd.h"
#include "isochron/core/base/rng.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/samples.h"
#include "isochron/ops/shape/creation.h"

namespace isochron {
namespace {

using graph::OpDef;
using graph::OpSample;
using ops::agrees;
using ops::make_inputs;
using ops::tested_dtypes;
using ops::Tolerance;
using ops::tolerance_of;
using Values = std::vector<double>;

/// Appends the first element in which the two differ.
void compare(Findings& findings, const std::string& what, const Values& got, const Values& want,
             Tolerance tolerance) {
  const std::string difference = ops::difference_of(got, want, tolerance);
  if (!difference.empty()) findings.push_back(fmt::format("{}: {}", what, difference));
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.spec() == b.spec() && (a.elems() == 0 || std::memcmp(a.raw(), b.raw(), a.size_bytes()) == 0);
}

void compare_bits(Findings& findings, const std::string& what, std::span<const Tensor> got,
                  std::span<const Tensor> want) {
  for (size_t i = 0; i < want.size(); ++i) {
    if (same_bits(got[i], want[i])) continue;
    findings.push_back(fmt::format("{}: output {} is {}, expected {}", what, i, got[i].str(), want[i].str()));
    return;
  }
}

/// Runs `body(dtype, sample, inputs)` for every sample and dtype; what it throws is a finding.
template <typename Body>
Findings for_samples(const OpDef& op, const std::vector<DType>& dtypes, Body body) {
  Findings findings;
  for (const DType dtype : dtypes) {
    for (const OpSample& sample : op.samples) {
      try {
        body(findings, dtype, sample, make_inputs(sample, dtype));
      } catch (const Error& error) {
        findings.push_back(fmt::format("{}: {}", ops::sample_text(sample, dtype), error.what()));
      }
    }
  }
  return findings;
}

/// The same elements under strides that aren't row-major. `memory` must outlive the view.
Tensor strided_view(const Tensor& tensor, std::vector<std::byte>& memory) {
  const Shape& shape = tensor.shape();
  const int rank = tensor.rank();
  Strides strides = shape;
  int64_t span = 2;
  for (int i = 0; i < rank; ++i) {  // the first axis becomes the fastest, with gaps
    strides[i] = span;
    span *= std::max<int64_t>(shape[i], 1) + 1;
  }
  int64_t base = 0;
  if (rank > 0) {  // and runs backwards
    base = (std::max<int64_t>(shape[0], 1) - 1) * strides[0];
    strides[0] = -strides[0];
  }
  const size_t size = dtype_size(tensor.dtype());
  memory.assign(static_cast<size_t>(span) * size + 16, std::byte{0x5a});
  const auto address = (reinterpret_cast<uintptr_t>(memory.data()) + 7) & ~uintptr_t{7};
  std::byte* origin = reinterpret_cast<std::byte*>(address) + static_cast<size_t>(base) * size;
  for (int64_t n = 0; n < tensor.elems(); ++n) {
    int64_t rest = n;
    int64_t offset = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      offset += rest % shape[axis] * strides[axis];
      rest /= shape[axis];
    }
    std::memcpy(origin + offset * static_cast<int64_t>(size), tensor.raw() + static_cast<size_t>(n) * size,
                size);
  }
  return Tensor::from_external(origin, tensor.spec(), strides);
}

std::vector<Tensor> call_captured(CapturedFunction& function, const std::vector<Tensor>& arguments) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& argument : arguments) pointers.push_back(&argument);
  const std::span<const Tensor> views = function.call(pointers);
  std::vector<Tensor> results;
  for (const Tensor& view : views) results.push_back(graph::copy(view));
  return results;
}

CaptureOptions without_passes() {
  CaptureOptions options;
  options.passes.disabled = {"all"};
  return options;
}

// --- derivatives ---

constexpr double kStep = 1e-6;
constexpr Tolerance kGradientTolerance{1e-3, 1e-5};
/// Elements moved one by one; a random direction through all covers the rest.
int64_t probed_elements(int64_t elems) { return std::min<int64_t>(elems, elems > 4096 ? 3 : 24); }

/// A function of f64 tensors to f64 tensors of fixed shapes, and where to differentiate it.
struct Problem {
  std::function<std::vector<Tensor>(std::span<const Tensor>)> function;
  std::vector<Tensor> arguments;
  std::vector<size_t> sources;
};

Tensor random_like(const Tensor& tensor, Rng& rng) {
  Values values(static_cast<size_t>(tensor.elems()));
  for (double& value : values) value = rng.uniform() * 2 - 1;
  return from_vector(tensor.shape(), values, DType::kF64);
}

double inner_product(const Values& a, const Values& b) {
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i) total += a[i] * b[i];
  return total;
}

/// sum_i outputs[i] . seeds[i] with argument `source` moved by `step` along `direction`, minus the same
/// backwards.
double difference(const Problem& problem, const std::vector<Tensor>& seeds, size_t source,
                  const Values& direction) {
  const Values at = problem.arguments[source].to_vector();
  double totals[2];
  for (const int side : {0, 1}) {
    Values moved = at;
    for (size_t i = 0; i < moved.size(); ++i) moved[i] += (side ? -kStep : kStep) * direction[i];
    std::vector<Tensor> arguments = problem.arguments;
    arguments[source] = from_vector(arguments[source].shape(), moved, DType::kF64);
    const std::vector<Tensor> outputs = problem.function(arguments);
    totals[side] = 0;
    for (size_t i = 0; i < outputs.size(); ++i) {
      totals[side] += inner_product(outputs[i].to_vector(), seeds[i].to_vector());
    }
  }
  return (totals[0] - totals[1]) / (2 * kStep);
}

std::vector<Tensor> picked(std::span<const Tensor> tensors, const std::vector<size_t>& which) {
  std::vector<Tensor> result;
  for (const size_t i : which) result.push_back(tensors[i]);
  return result;
}

/// An undefined gradient is zero.
std::vector<Tensor> defined_gradients(std::vector<Tensor> gradients_in, std::span<const Tensor> sources) {
  for (size_t i = 0; i < gradients_in.size(); ++i) {
    if (!gradients_in[i].defined()) gradients_in[i] = zeros(sources[i].shape(), sources[i].dtype());
  }
  return gradients_in;
}

std::vector<Tensor> taped_gradients(const Problem& problem, std::span<const Tensor> arguments,
                                    std::span<const Tensor> seeds) {
  GradientTape tape;
  const std::vector<Tensor> outputs = problem.function(arguments);
  const std::vector<Tensor> sources = picked(arguments, problem.sources);
  return defined_gradients(tape.gradient(outputs, sources, seeds), sources);
}

std::vector<Tensor> captured_gradients(const Problem& problem, const std::vector<Tensor>& seeds) {
  std::vector<Tensor> all = problem.arguments;
  all.insert(all.end(), seeds.begin(), seeds.end());
  const size_t count = problem.arguments.size();
  CapturedFunction captured(
      [&problem, count](std::span<const Tensor> arguments) {
        const std::vector<Tensor> outputs = problem.function(arguments.first(count));
        const std::vector<Tensor> sources = picked(arguments, problem.sources);
        return defined_gradients(gradients(outputs, sources, arguments.subspan(count)), sources);
      },
      {});
  return call_captured(captured, all);
}

/// Analytic gradients of `problem` against central differences.
void check_derivatives(Findings& findings, const std::string& what, const Problem& problem) {
  Rng rng(11);
  std::vector<Tensor> seeds;
  for (const Tensor& output : problem.function(problem.arguments)) seeds.push_back(random_like(output, rng));
  const std::vector<Tensor> taped = taped_gradients(problem, problem.arguments, seeds);
  const std::vector<Tensor> captured = captured_gradients(problem, seeds);
  for (size_t s = 0; s < problem.sources.size(); ++s) {
    const size_t source = problem.sources[s];
    const Values gradient = taped[s].to_vector();
    const std::string where = fmt::format("{}: gradient of input {}", what, source);
    compare(findings, where + ", captured against taped", captured[s].to_vector(), gradient, {1e-9, 1e-9});
    const auto probe = [&](const Values& direction, const std::string& along) {
      const double numeric = difference(problem, seeds, source, direction);
      const double analytic = inner_product(gradient, direction);
      if (agrees(analytic, numeric, kGradientTolerance)) return;
      findings.push_back(
          fmt::format("{} along {}: {:.9g}, by differences {:.9g}", where, along, analytic, numeric));
    };
    const int64_t elems = problem.arguments[source].elems();
    Values direction = random_like(problem.arguments[source], rng).to_vector();
    probe(direction, "a random direction");
    const int64_t probes = probed_elements(elems);
    for (int64_t k = 0; k < probes; ++k) {
      const size_t element = static_cast<size_t>(k * elems / probes);
      std::fill(direction.begin(), direction.end(), 0.0);
      direction[element] = 1;
      probe(direction, fmt::format("element {}", element));
    }
  }
}

bool differentiable_in_f64(const OpDef& op) {
  const std::vector<DType>& dtypes = tested_dtypes(op);
  return op.gradient && std::find(dtypes.begin(), dtypes.end(), DType::kF64) != dtypes.end();
}

bool all_floats_are_f64(std::span<const Tensor> tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& tensor) {
    return tensor.dtype() == DType::kF64 || !is_floating(tensor.dtype());
  });
}

/// The op at `inputs` as a function of its differentiable inputs; none if it has no floating output.
std::optional<Problem> problem_of(const OpDef& op, const OpSample& sample, std::vector<Tensor> inputs) {
  const std::vector<Tensor> outputs = graph::apply(op, inputs, sample.attributes);
  const bool any_floating = std::any_of(outputs.begin(), outputs.end(),
                                        [](const Tensor& output) { return is_floating(output.dtype()); });
  if (!any_floating || !all_floats_are_f64(outputs) || !all_floats_are_f64(inputs)) return std::nullopt;
  Problem problem;
  problem.function = [&op, &sample](std::span<const Tensor> arguments) {
    std::vector<Tensor> floating;
    for (Tensor& output : graph::apply(op, arguments, sample.attributes)) {
      if (is_floating(output.dtype())) floating.push_back(std::move(output));
    }
    return floating;
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool chosen = op.differentiable.empty() ||
                        std::find(op.differentiable.begin(), op.differentiable.end(), static_cast<int>(i)) !=
                            op.differentiable.end();
    if (chosen && is_floating(inputs[i].dtype())) problem.sources.push_back(i);
  }
  problem.arguments = std::move(inputs);
  return problem;
}

/// (arguments, seeds) -> gradients, itself a function to differentiate.
Problem gradient_problem(const Problem& problem) {
  Rng rng(13);
  Problem result;
  result.arguments = problem.arguments;
  result.sources = problem.sources;
  for (const Tensor& output : problem.function(problem.arguments)) {
    result.sources.push_back(result.arguments.size());
    result.arguments.push_back(random_like(output, rng));
  }
  result.function = [problem](std::span<const Tensor> arguments) {
    const size_t count = problem.arguments.size();
    return taped_gradients(problem, arguments.first(count), arguments.subspan(count));
  };
  return result;
}

// --- errors ---

void expect_code(Findings& findings, const OpDef& op, const std::string& what, ErrorCode code,
                 const std::function<void()>& call) {
  try {
    call();
    findings.push_back(fmt::format("{}: no error, expected {}", what, error_code_name(code)));
  } catch (const Error& error) {
    if (error.code() != code) {
      findings.push_back(
          fmt::format("{}: {} instead of {}", what, error_code_name(error.code()), error_code_name(code)));
    }
    if (std::string(error.what()).find(op.name) == std::string::npos) {
      findings.push_back(fmt::format("{}: '{}' does not name the op", what, error.what()));
    }
  }
}

void expect_rejected(Findings& findings, const OpDef& op, const std::vector<TensorSpec>& specs,
                     const graph::Attributes& attributes, ErrorCode code) {
  std::vector<Tensor> inputs;
  std::string what;
  for (const TensorSpec& spec : specs) {
    inputs.push_back(ones(spec.shape, spec.dtype));
    what += fmt::format("{} ", spec.str());
  }
  what += attributes.str();
  expect_code(findings, op, what, code, [&] { graph::apply(op, inputs, attributes); });
  CapturedFunction captured(
      [&](std::span<const Tensor> arguments) { return graph::apply(op, arguments, attributes); }, {});
  expect_code(findings, op, what + ", captured", code, [&] { captured.prepare(specs); });
}

}  // namespace

Findings check_reference(const OpDef& op) {
  return for_samples(
      op, tested_dtypes(op),
      [&](Findings& findings, DType dtype, const OpSample& sample, const std::vector<Tensor>& inputs) {
        std::vector<TensorSpec> specs;
        std::vector<Values> values;
        for (const Tensor& input : inputs) {
          specs.push_back(input.spec());
          values.push_back(input.to_vector());
        }
        const std::vector<TensorSpec> inferred = graph::infer_outputs(op, specs, sample.attributes);
        const std::vector<Tensor> outputs = graph::apply(op, inputs, sample.attributes);
        const std::vector<Values> expected = op.reference({op, specs, sample.attributes}, inferred, values);
        for (size_t i = 0; i < inferred.size(); ++i) {
          const std::string what = fmt::format("{}: output {}", ops::sample_text(sample, dtype), i);
          if (!(outputs[i].spec() == inferred[i])) {
            findings.push_back(
                fmt::format("{} is {}, inferred {}", what, outputs[i].spec().str(), inferred[i].str()));
            continue;
          }
          compare(findings, what, outputs[i].to_vector(), expected[i],
                  tolerance_of(op, dtype, outputs[i].dtype()));
        }
      });
}

Findings check_strided(const OpDef& op) {
  return for_samples(
      op, tested_dtypes(op),
      [&](Findings& findings, DType dtype, const OpSample& sample, const std::vector<Tensor>& inputs) {
        std::vector<std::vector<std::byte>> memory(inputs.size());
        std::vector<Tensor> strided;
        for (size_t i = 0; i < inputs.size(); ++i) strided.push_back(strided_view(inputs[i], memory[i]));
        compare_bits(findings, ops::sample_text(sample, dtype) + ", strided",
                     graph::apply(op, strided, sample.attributes),
                     graph::apply(op, inputs, sample.attributes));
      });
}

Findings check_repeatable(const OpDef& op) {
  return for_samples(
      op, tested_dtypes(op),
      [&](Findings& findings, DType dtype, const OpSample& sample, const std::vector<Tensor>& inputs) {
        const std::vector<Tensor> first = graph::apply(op, inputs, sample.attributes);
        compare_bits(findings, ops::sample_text(sample, dtype) + ", second run",
                     graph::apply(op, inputs, sample.attributes), first);
      });
}

Findings check_captured(const OpDef& op) {
  return for_samples(
      op, tested_dtypes(op),
      [&](Findings& findings, DType dtype, const OpSample& sample, const std::vector<Tensor>& inputs) {
        const std::string what = ops::sample_text(sample, dtype);
        const std::vector<Tensor> eager = graph::apply(op, inputs, sample.attributes);
        const auto traced = [&](std::span<const Tensor> arguments) {
          return graph::apply(op, arguments, sample.attributes);
        };
        CapturedFunction plain(traced, without_passes());
        compare_bits(findings, what + ", captured without passes", call_captured(plain, inputs), eager);
        compare_bits(findings, what + ", replayed", call_captured(plain, inputs), eager);
        for (size_t i = 0; eager.size() > 1 && i < eager.size(); ++i) {
          CapturedFunction alone(
              [&](std::span<const Tensor> arguments) { return std::vector{traced(arguments)[i]}; },
              without_passes());
          compare_bits(findings, fmt::format("{}, output {} read alone", what, i),
                       call_captured(alone, inputs), std::vector{eager[i]});
        }
        CapturedFunction unread(
            [&](std::span<const Tensor> arguments) {
              static_cast<void>(traced(arguments));
              return std::vector<Tensor>{};
            },
            without_passes());
        call_captured(unread, inputs);
        CapturedFunction optimized(traced, {});
        const std::vector<Tensor> results = call_captured(optimized, inputs);
        CapturedFunction folded(
            [&](std::span<const Tensor>) {
              std::vector<Tensor> constants;
              for (const Tensor& input : inputs) constants.push_back(constant(input));
              return graph::apply(op, constants, sample.attributes);
            },
            {});
        const std::vector<Tensor> constants = call_captured(folded, {});
        for (size_t i = 0; i < eager.size(); ++i) {
          const Tolerance tolerance = tolerance_of(op, dtype, eager[i].dtype());
          compare(findings, fmt::format("{}: output {} captured with passes", what, i),
                  results[i].to_vector(), eager[i].to_vector(), tolerance);
          compare(findings, fmt::format("{}: output {} folded", what, i), constants[i].to_vector(),
                  eager[i].to_vector(), tolerance);
        }
      });
}

Findings check_stored(const OpDef& op) {
  const uint32_t full_outputs = op.precision.full_outputs;
  Findings findings;
  for (const DType half : {DType::kBF16, DType::kF16}) {
    for (const bool wide_results : {false, true}) {
      const Findings found = for_samples(
          op, {DType::kF32}, [&](Findings& into, DType, const OpSample& sample, std::vector<Tensor> inputs) {
            const uint32_t full = op.precision.full_inputs ? op.precision.full_inputs(sample.attributes) : 0;
            std::vector<Tensor> rounded = inputs;
            for (size_t i = 0; i < inputs.size(); ++i) {
              if (inputs[i].dtype() != DType::kF32 || ((full >> i) & 1U)) continue;
              inputs[i] = cast(inputs[i], half);
              rounded[i] = cast(inputs[i], DType::kF32);
            }
            const std::vector<Tensor> want = graph::apply(op, rounded, sample.attributes);
            std::vector<DType> results;
            for (size_t i = 0; i < want.size(); ++i) {
              const bool full_output = wide_results || ((full_outputs >> i) & 1U);
              const bool stays = want[i].dtype() != DType::kF32 || full_output;
              results.push_back(stays ? want[i].dtype() : half);
            }
            graph::Attributes attributes = sample.attributes;
            attributes.set(graph::kStorage, results);
            const std::vector<Tensor> got = graph::apply(op, inputs, attributes);
            for (size_t i = 0; i < want.size(); ++i) {
              const std::string what = fmt::format("{} {}, output {}", ops::sample_text(sample, half),
                                                   graph::Attributes{{graph::kStorage, results}}.str(), i);
              if (got[i].dtype() != results[i]) into.push_back(what + ": is " + got[i].spec().str());
              Tolerance tolerance = tolerance_of(op, DType::kF32, want[i].dtype());
              if (results[i] == half) tolerance.relative = tolerance_of({}, half, half).relative;
              const Values expected = want[i].to_vector();
              if (results[i] == half && op.precision.rule == graph::PrecisionRule::kLow) {
                // Such a kernel may round what it multiplies on the way too: in units of the largest result.
                for (const double value : expected) {
                  tolerance.absolute = std::max(tolerance.absolute, tolerance.relative * std::abs(value));
                }
              }
              compare(into, what, got[i].to_vector(), expected, tolerance);
            }
          });
      findings.insert(findings.end(), found.begin(), found.end());
    }
  }
  return findings;
}

Findings check_gradient(const OpDef& op) {
  if (!differentiable_in_f64(op)) return {};
  return for_samples(
      op, {DType::kF64},
      [&](Findings& findings, DType dtype, const OpSample& sample, const std::vector<Tensor>& inputs) {
        const std::optional<Problem> problem = problem_of(op, sample, inputs);
        if (problem) check_derivatives(findings, ops::sample_text(sample, dtype), *problem);
      });
}

Findings check_second_gradient(const OpDef& op) {
  if (!differentiable_in_f64(op)) return {};
  return for_samples(
      op, {DType::kF64},
      [&](Findings& findings, DType dtype, const OpSample& sample, const std::vector<Tensor>& inputs) {
        const std::optional<Problem> problem = problem_of(op, sample, inputs);
        if (!problem) return;
        check_derivatives(findings, ops::sample_text(sample, dtype) + ", second", gradient_problem(*problem));
      });
}

Findings check_errors(const OpDef& op) {
  Findings findings;
  for (const graph::ErrorSample& sample : op.errors) {
    expect_rejected(findings, op, sample.inputs, sample.attributes, sample.code);
  }
  if (op.samples.empty()) return findings;
  std::vector<TensorSpec> specs;
  for (const Tensor& input : make_inputs(op.samples[0], tested_dtypes(op)[0])) specs.push_back(input.spec());
  if (op.max_inputs >= 0) {
    std::vector<TensorSpec> more = specs;
    more.resize(static_cast<size_t>(op.max_inputs) + 1, specs.empty() ? TensorSpec{} : specs[0]);
    expect_rejected(findings, op, more, op.samples[0].attributes, ErrorCode::kInvalidArgument);
  }
  if (op.min_inputs > 0) {
    specs.resize(static_cast<size_t>(op.min_inputs) - 1);
    expect_rejected(findings, op, specs, op.samples[0].attributes, ErrorCode::kInvalidArgument);
  }
  return findings;
}

}  // namespace isochron
