#include "isochron/ops/random/random.h"

#include <array>
#include <atomic>
#include <cmath>
#include <span>

#include "isochron/core/base/seed.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/random/draw_key.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/creation.h"

namespace isochron {
namespace ops {
namespace {

using graph::Attributes;
using Doubles = std::vector<std::vector<double>>;

constexpr int64_t kMaxWords = int64_t{1} << 34;  // 2^32 blocks

/// Checks the inputs of a draw and returns its output spec.
std::vector<TensorSpec> infer_draw(const OpCall& call, DType dtype) {
  for (size_t i = 0; i < call.inputs.size(); ++i) require_dtype(call, i, DType::kI64);
  require(call.inputs[0].shape == Shape{2}, ErrorCode::kShapeMismatch, call.op.name,
          "the state is i64(2): seed and step; got {}", call.inputs[0].str());
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    require(call.inputs[i].shape == Shape{}, ErrorCode::kShapeMismatch, call.op.name,
            "input {} must be a scalar, the index of a loop; got {}", i, call.inputs[i].str());
  }
  const TensorSpec output{dtype, Shape(call.attributes.get<Dims>("shape"))};
  const int64_t words = dtype == DType::kF64 ? 2 : 1;
  require(output.shape.elems() <= kMaxWords / words, ErrorCode::kOutOfRange, call.op.name,
          "a draw can have at most {} elements, got {}", kMaxWords / words, output.str());
  return {output};
}

DType floating_dtype(const OpCall& call) {
  const DType dtype = call.attributes.get<DType>("dtype");
  require(dtype == DType::kF32 || dtype == DType::kF64, ErrorCode::kDtypeMismatch, call.op.name,
          "draws f32 or f64, not {}; cast the result", dtype_name(dtype));
  return dtype;
}

std::vector<TensorSpec> infer_uniform(const OpCall& call) {
  const double low = call.attributes.get<double>("a");
  const double high = call.attributes.get<double>("b");
  const DType dtype = floating_dtype(call);
  const bool spread = dtype == DType::kF64
                          ? low < high && std::isfinite(high - low)
                          : static_cast<float>(low) < static_cast<float>(high) &&
                                std::isfinite(static_cast<float>(high) - static_cast<float>(low));
  require(spread, ErrorCode::kInvalidArgument, call.op.name,
          "low must be below high, both and their distance finite in {}; got [{}, {})", dtype_name(dtype),
          low, high);
  return infer_draw(call, dtype);
}

std::vector<TensorSpec> infer_normal(const OpCall& call) {
  const double mean = call.attributes.get<double>("a");
  const double stddev = call.attributes.get<double>("b");
  require(std::isfinite(mean) && std::isfinite(stddev) && stddev >= 0, ErrorCode::kInvalidArgument,
          call.op.name, "the mean must be finite and the standard deviation 0 or more, got {} and {}", mean,
          stddev);
  return infer_draw(call, floating_dtype(call));
}

std::vector<TensorSpec> infer_bernoulli(const OpCall& call) {
  const double probability = call.attributes.get<double>("a");
  require(probability >= 0 && probability <= 1, ErrorCode::kInvalidArgument, call.op.name,
          "a probability must lie in [0, 1], got {}", probability);
  return infer_draw(call, DType::kBool);
}

// --- references in f64, computed block by block ---

/// Calls visit(element, block, word of the block) for every element. The key comes from the inputs.
template <typename Visit>
Doubles draw_each(const OpCall& call, const TensorSpec& output, const Doubles& in, Visit visit) {
  std::vector<int64_t> loops;
  for (size_t i = 1; i < in.size(); ++i) loops.push_back(static_cast<int64_t>(in[i][0]));
  const DrawKey key = draw_key(call.attributes.get<int64_t>("draw"), static_cast<int64_t>(in[0][0]),
                               static_cast<int64_t>(in[0][1]), loops);
  const size_t per_block = output.dtype == DType::kF64 ? 2 : 4;
  std::vector<double> result(static_cast<size_t>(output.shape.elems()));
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] = visit(key.block(static_cast<uint32_t>(i / per_block)), i % per_block);
  }
  return {result};
}

Doubles uniform_reference(const OpCall& call, std::span<const TensorSpec> outputs, const Doubles& in) {
  const double low = call.attributes.get<double>("a");
  const double range = call.attributes.get<double>("b") - low;
  const bool wide = outputs[0].dtype == DType::kF64;
  return draw_each(call, outputs[0], in, [=](const PhiloxBlock& block, size_t i) {
    return low + range * (wide ? uniform_f64(block[2 * i], block[2 * i + 1])
                               : static_cast<double>(uniform_f32(block[i])));
  });
}

Doubles normal_reference(const OpCall& call, std::span<const TensorSpec> outputs, const Doubles& in) {
  const double mean = call.attributes.get<double>("a");
  const double stddev = call.attributes.get<double>("b");
  const bool wide = outputs[0].dtype == DType::kF64;
  return draw_each(call, outputs[0], in, [=](const PhiloxBlock& w, size_t i) {
    const size_t pair = i / 2 * 2;
    const double first = wide ? 1.0 - uniform_f64(w[0], w[1]) : ((w[pair] >> 1) + 0.5) * 0x1p-31;
    const double second = wide ? uniform_f64(w[2], w[3]) : static_cast<double>(uniform_f32(w[pair + 1]));
    const double angle = 2 * 3.14159265358979323846 * second;
    return mean + stddev * std::sqrt(-2 * std::log(first)) * (i % 2 ? std::sin(angle) : std::cos(angle));
  });
}

Doubles bernoulli_reference(const OpCall& call, std::span<const TensorSpec> outputs, const Doubles& in) {
  const double probability = call.attributes.get<double>("a");
  return draw_each(call, outputs[0], in, [=](const PhiloxBlock& block, size_t i) {
    return static_cast<double>(block[i] >> 8) < std::floor(probability * 0x1p24) ? 1.0 : 0.0;
  });
}

Attributes draw_attributes(const Dims& shape, double a, double b, DType dtype, int64_t draw) {
  return {{"shape", shape}, {"a", a}, {"b", b}, {"dtype", dtype}, {"draw", draw}};
}

/// An op with samples for `a` and `b`, and an error sample for `bad_a`.
OpDef random_row(const char* name, const char* summary, double a, double b, double bad_a,
                 std::initializer_list<DType> dtypes) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.min_inputs = 1;
  op.max_inputs = -1;
  op.random = true;
  op.dtypes = {DType::kI64};
  const InputSample state{{2}, 0, 0, DType::kI64, {7, 3}};
  const InputSample loop{{}, 0, 0, DType::kI64, {5}};
  for (const DType dtype : dtypes) {
    op.samples.push_back({{state}, draw_attributes({3, 1234}, a, b, dtype, 0)});
    op.samples.push_back({{state, loop}, draw_attributes({5}, a, b, dtype, 2)});
    op.samples.push_back({{state, loop, loop}, draw_attributes({}, a, b, dtype, 2)});
    op.samples.push_back({{state}, draw_attributes({0, 4}, a, b, dtype, 1)});
  }
  const DType dtype = *dtypes.begin();
  op.errors = {
      {{{DType::kI32, {2}}}, draw_attributes({4}, a, b, dtype, 0), ErrorCode::kDtypeMismatch},
      {{{DType::kI64, {3}}}, draw_attributes({4}, a, b, dtype, 0), ErrorCode::kShapeMismatch},
      {{{DType::kI64, {2}}, {DType::kI64, {1}}},
       draw_attributes({4}, a, b, dtype, 0),
       ErrorCode::kShapeMismatch},
      {{{DType::kI64, {2}}}, draw_attributes({1 << 20, 1 << 20}, a, b, dtype, 0), ErrorCode::kOutOfRange},
      {{{DType::kI64, {2}}}, draw_attributes({4}, bad_a, b, dtype, 0), ErrorCode::kInvalidArgument}};
  return op;
}

}  // namespace

void register_random(graph::Registry& registry) {
  const ErrorSample bad_dtype{
      {{DType::kI64, {2}}}, draw_attributes({4}, 0, 1, DType::kBF16, 0), ErrorCode::kDtypeMismatch};
  OpDef uniform =
      random_row("random_uniform", "uniform numbers in [a, b)", -1, 2.5, 3, {DType::kF32, DType::kF64});
  uniform.infer = infer_uniform;
  uniform.reference = uniform_reference;
  uniform.errors.push_back(bad_dtype);
  registry.add(std::move(uniform));

  OpDef normal = random_row("random_normal", "normal numbers of mean a and standard deviation b", 1, 2, NAN,
                            {DType::kF32, DType::kF64});
  normal.infer = infer_normal;
  normal.reference = normal_reference;
  normal.tolerance = 10;  // logarithm, cosine and sine in f32
  normal.errors.push_back(bad_dtype);
  registry.add(std::move(normal));

  OpDef bernoulli_op = random_row("bernoulli", "true with probability a", 0.3, 0, 1.5, {DType::kBool});
  bernoulli_op.infer = infer_bernoulli;
  bernoulli_op.reference = bernoulli_reference;
  registry.add(std::move(bernoulli_op));
}

}  // namespace ops

namespace random {
namespace {

Tensor state_of(uint64_t seed) {
  const int64_t numbers[] = {static_cast<int64_t>(seed), 0};
  return from_span<int64_t>({2}, numbers);
}

/// {0, 1}, which a draw adds to the state.
const Tensor& one_step() {
  static const Tensor step = [] {
    const graph::EagerScope eager;
    const int64_t numbers[] = {0, 1};
    return constant(from_span<int64_t>({2}, numbers));
  }();
  return step;
}

}  // namespace

Generator::Generator(uint64_t seed) {
  const graph::EagerScope eager;
  state_ = state_of(seed);
}

void Generator::set_seed(uint64_t seed) {
  const graph::EagerScope eager;
  graph::assign(state_, state_of(seed));
}

Tensor Generator::state() const {
  const Tensor now = state_.refreshed();
  return now.device().is_cpu() ? graph::copy(now) : graph::to_device(now, {});
}

void Generator::move_to(Device device) {
  if (state_.device() == device) return;
  state_.refresh();
  require(state_.impl()->unique() && state_.storage()->unique(), ErrorCode::kInvalidArgument, "generator",
          "its state can't move from {} to {}: a captured function refers to it; move it before it is used",
          state_.device().str(), device.str());
  state_ = graph::to_device(state_, device);
}

void Generator::set_state(const Tensor& state) {
  const graph::EagerScope eager;
  graph::assign(state_, state);
}

int64_t Generator::step() const {
  std::array<int64_t, 2> state;
  state_.refreshed().read(std::as_writable_bytes(std::span(state)).data());
  return state[1];
}

void Generator::seek(int64_t step) {
  state_.refreshed().storage()->write(sizeof step, std::as_bytes(std::span(&step, 1)).data(), sizeof step);
}

Tensor Generator::advance() {
  const Tensor state = state_.refreshed();
  graph::Capture* outermost = graph::Capture::current();
  if (!outermost) {
    std::array<int64_t, 2> next;
    state.read(std::as_writable_bytes(std::span(next)).data());
    ++next[1];
    const Tensor drawn = from_span<int64_t>({2}, next);
    graph::assign(state_, drawn);
    return drawn;
  }
  while (outermost->parent()) outermost = outermost->parent();
  // If an assigned variable's newest value is a result, this capture has already advanced the state.
  if (outermost->lift(state)->kind == graph::Value::Kind::kBound) {
    const Tensor inputs[] = {state, one_step()};
    outermost->assign(state, outermost->record(ops::row("add"), inputs, {})[0]);
  }
  return state_.refreshed();
}

namespace {

/// The generator of a thread other than the main thread. Its stream depends on the order in which threads
/// first draw.
Generator& generator_of_thread() {
  static std::atomic<uint64_t> threads{0};
  thread_local Generator generator(derived_seed(process_seed().value, fmt::format("thread {}", ++threads)));
  return generator;
}

/// The generator in the function of a dataset's map, seeded for the element being made.
Generator& generator_of(const ElementDraws& draws) {
  thread_local Generator generator;
  if (draws.first_draw()) generator.set_seed(draws.seed());
  return generator;
}

}  // namespace

Generator& default_generator() {
  if (const ElementDraws* draws = ElementDraws::current()) {
    require(
        graph::Capture::current() == nullptr, ErrorCode::kCaptureViolation, "random",
        "a function that draws can't be captured in a map, where every element has random numbers of its "
        "own: its plan would go on drawing this one's; call the plain function in the map, or draw from a "
        "Generator");
    return generator_of(*draws);
  }
  if (!is_main_thread()) return generator_of_thread();
  static auto* const generator = new Generator(0);
  return *generator;
}

void set_seed(uint64_t seed) {
  default_generator().set_seed(seed);
  set_process_seed(seed);
}

}  // namespace random

namespace {

/// The indices of all loops around the call, outermost first.
std::vector<Tensor> loop_indices() {
  std::vector<Tensor> indices;
  for (const graph::Capture* capture = graph::Capture::current(); capture; capture = capture->parent()) {
    const Tensor index = capture->loop_index();
    if (!index.defined()) break;
    if (indices.empty() || indices.front().value() != index.value()) indices.insert(indices.begin(), index);
  }
  return indices;
}

/// `device` is the device of an eager draw. The numbers are the same on all devices.
Tensor draw(const char* name, const Shape& shape, double a, double b, DType dtype,
            random::Generator& generator, Device device = {}) {
  graph::Capture* capture = graph::Capture::current();
  graph::Attributes attributes{{"shape", static_cast<Dims>(shape)},
                               {"a", a},
                               {"b", b},
                               {"dtype", dtype},
                               {"draw", capture ? capture->next_random_id() : int64_t{0}}};
  std::vector<Tensor> inputs = loop_indices();
  const Tensor state = generator.advance();
  inputs.insert(inputs.begin(), capture ? state : graph::to_device(state, device));
  return graph::apply(ops::row(name), inputs, std::move(attributes))[0];
}

}  // namespace

Tensor random_uniform(const Shape& shape, double low, double high, DType dtype,
                      random::Generator& generator) {
  return draw("random_uniform", shape, low, high, dtype, generator);
}

Tensor random_normal(const Shape& shape, double mean, double stddev, DType dtype,
                     random::Generator& generator) {
  return draw("random_normal", shape, mean, stddev, dtype, generator);
}

Tensor bernoulli(const Shape& shape, double probability, random::Generator& generator) {
  return draw("bernoulli", shape, probability, 0, DType::kBool, generator);
}

Tensor dropout(const Tensor& x, double rate, bool training, random::Generator& generator) {
  require(x.defined() && is_floating(x.dtype()), ErrorCode::kDtypeMismatch, "dropout",
          "takes a floating tensor, got {}", x.defined() ? x.spec().str() : "nothing");
  require(rate >= 0 && rate < 1, ErrorCode::kInvalidArgument, "dropout",
          "the rate must lie in [0, 1), got {}", rate);
  if (!training || rate == 0) return x;
  const Tensor kept = draw("bernoulli", x.shape(), 1 - rate, 0, DType::kBool, generator, x.device());
  const double scale = 1 / (1 - rate);
  const Tensor scaled = is_half(x.dtype()) ? cast(cast(x, DType::kF32) * scale, x.dtype()) : x * scale;
  return where(kept, scaled, scalar(0, x.dtype()));
}

}  // namespace isochron
