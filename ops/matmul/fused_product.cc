#include "isochron/ops/matmul/fused_product.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "isochron/graph/ir/half_storage.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"

namespace isochron::ops {
namespace {

using graph::ElementOp;
using graph::ElementProgram;

std::vector<TensorSpec> infer_product(const FusedProduct& fused, std::span<const TensorSpec> inputs) {
  return graph::infer_outputs(fused.product, inputs.first(kProductFactors), fused.attributes);
}

std::vector<TensorSpec> infer_fused_product(const OpCall& call) {
  const FusedProduct fused(call);
  const ElementProgram& program = *fused.program;
  const TensorSpec product = infer_product(fused, call.inputs)[0];
  require(fused.spec() == product && program.shape == product.shape, ErrorCode::kShapeMismatch, call.op.name,
          "the program takes {}, the product is {}", fused.spec().str(), product.str());
  size_t input = kProductFactors;
  for (size_t r = 1; r < program.operands.size(); ++r) {
    if (program.operands[r].immediate) continue;
    const TensorSpec& spec = program.operands[r].spec;
    require(input < call.inputs.size() && call.inputs[input] == spec, ErrorCode::kShapeMismatch, call.op.name,
            "operand {} of the program is {}, got {}", r, spec.str(),
            input < call.inputs.size() ? call.inputs[input].str() : "none");
    ++input;
  }
  require(input == call.inputs.size(), ErrorCode::kInvalidArgument, call.op.name,
          "the program reads {} inputs, got {}", input, call.inputs.size());
  std::vector<TensorSpec> outputs;
  for (size_t o = 0; o < program.outputs.size(); ++o)
    outputs.push_back(program.output_spec(static_cast<int>(o)));
  return outputs;
}

/// An output may overwrite an operand whose elements are read at the index where they are written. Exceptions
/// are the factors, and an output that is the product itself, because these are needed before the element
/// ops.
bool fused_product_alias(const OpCall& call, int output, int input) {
  const FusedProduct fused(call);
  const ElementProgram& program = *fused.program;
  if (static_cast<size_t>(input) < kProductFactors || output == fused.product_output()) return false;
  size_t left = static_cast<size_t>(input) - kProductFactors, r = 1;
  for (;; ++r) {
    if (!program.operands[r].immediate && left-- == 0) break;
  }
  const TensorSpec& spec = program.operands[r].spec;
  const int reg = program.outputs[static_cast<size_t>(output)].reg;
  return spec.shape == program.shape && dtype_size(spec.dtype) == dtype_size(program.register_dtype(reg));
}

double fused_product_flops(const OpCall& call) {
  const FusedProduct fused(call);
  const ElementProgram& program = *fused.program;
  const std::vector<TensorSpec> factors =
      graph::defined_inputs(call.inputs.first(kProductFactors), fused.attributes);
  return fused.product.flops({fused.product, factors, fused.attributes}) +
         static_cast<double>(program.shape.elems()) * static_cast<double>(program.code.size());
}

using Doubles = std::vector<std::vector<double>>;

Doubles fused_product_reference(const OpCall& call, std::span<const TensorSpec> /*outputs*/,
                                const Doubles& inputs) {
  const FusedProduct fused(call);
  const ElementProgram& program = *fused.program;
  const std::vector<TensorSpec> products = infer_product(fused, call.inputs);
  Doubles registers =
      fused.product.reference({fused.product, call.inputs.first(kProductFactors), fused.attributes}, products,
                              {inputs.begin(), inputs.begin() + kProductFactors});
  std::vector<TensorSpec> specs = products;
  size_t input = kProductFactors;
  for (size_t r = 1; r < program.operands.size(); ++r) {
    const ElementProgram::Operand& operand = program.operands[r];
    registers.push_back(operand.immediate ? std::vector{operand.value} : inputs[input++]);
    specs.push_back(operand.spec);
  }
  for (const ElementProgram::Instruction& instruction : program.code) {
    const OpDef& op = row(graph::element_op_name(instruction.op));
    std::vector<TensorSpec> of;
    Doubles values;
    for (int k = 0; k < graph::element_op_arity(instruction.op); ++k) {
      of.push_back(specs[instruction.operands[k]]);
      values.push_back(registers[instruction.operands[k]]);
    }
    Attributes attributes;
    if (instruction.op == ElementOp::kCast) attributes.set("dtype", instruction.dtype);
    const std::vector<TensorSpec> results = graph::infer_outputs(op, of, attributes);
    registers.push_back(op.reference({op, of, attributes}, results, values)[0]);
    specs.push_back(results[0]);
  }
  Doubles results;
  for (const ElementProgram::Output& output : program.outputs) results.push_back(registers[output.reg]);
  return results;
}

// --- samples ---

/// An element program on an f32 product and `terms`.
class SampleProgram {
 public:
  SampleProgram(const Shape& product, const std::vector<Shape>& terms) {
    program_->shape = product;
    program_->operands.push_back({{DType::kF32, product}});
    for (const Shape& term : terms) program_->operands.push_back({{DType::kF32, term}});
  }
  SampleProgram& then(ElementOp op, uint8_t a, uint8_t b = 0) {
    program_->code.push_back({op, DType::kF32, {a, b, 0}});
    return *this;
  }
  /// The attributes of a fused_product of `product` with this program, whose outputs are `registers`.
  Attributes out(std::string product, Attributes attributes, const std::vector<uint8_t>& registers) {
    for (const uint8_t reg : registers) program_->outputs.push_back({reg});
    attributes.set("product", std::move(product));
    attributes.set("program", std::shared_ptr<const graph::AttributeObject>(program_));
    return attributes;
  }

 private:
  std::shared_ptr<ElementProgram> program_ = std::make_shared<ElementProgram>();
};

std::vector<OpSample> samples() {
  using enum ElementOp;
  const auto flags = [](bool ta, bool tb) { return Attributes{{"transpose_a", ta}, {"transpose_b", tb}}; };
  // relu(a b + bias + term), with both, or one of them.
  const auto dense = [&](const Shape& a, const Shape& b, const Shape& result, const std::vector<Shape>& terms,
                         bool ta, bool tb, bool with_relu) {
    SampleProgram program(result, terms);
    auto sum = static_cast<uint8_t>(0);
    auto next = static_cast<uint8_t>(terms.size() + 1);
    for (size_t t = 0; t < terms.size(); ++t) {
      program.then(kAdd, sum, static_cast<uint8_t>(t + 1));
      sum = next++;
    }
    if (with_relu) {
      program.then(kRelu, sum);
      sum = next;
    }
    OpSample sample{{{a}, {b}}, program.out("matmul", flags(ta, tb), {sum})};
    for (const Shape& term : terms) sample.inputs.push_back({term});
    return sample;
  };
  const Attributes window{{"stride", Dims{1, 1}},
                          {"padding", Dims{1, 1, 1, 1}},
                          {"dilation", Dims{1, 1}},
                          {"groups", int64_t{2}}};
  Attributes input_window = window;
  input_window.set("input_shape", Dims{2, 4, 4, 4});
  return {
      dense({32, 100}, {100, 10}, {32, 10}, {{10}}, false, false, true),
      dense({3, 4}, {5, 4}, {3, 5}, {{3, 5}}, false, true, false),
      dense({4, 3}, {4, 5}, {3, 5}, {}, true, false, true),
      dense({4, 3}, {5, 4}, {3, 5}, {{3, 5}, {1, 5}}, true, true, true),
      dense({2, 3, 4}, {4, 5}, {2, 3, 5}, {{5}, {2, 3, 5}}, false, false, false),
      dense({2, 3, 4}, {2, 4, 5}, {2, 3, 5}, {{5}, {2, 3, 5}}, false, false, true),
      dense({3, 1, 4, 3}, {2, 4, 5}, {3, 2, 3, 5}, {{5}}, true, false, false),
      dense({1, 7}, {7, 3}, {1, 3}, {{1, 3}, {1, 3}}, false, false, false),
      dense({0, 4}, {4, 3}, {0, 3}, {{3}}, false, false, false),
      dense({2, 0}, {0, 3}, {2, 3}, {{3}}, false, false, true),
      // A term with one number per row; long sums with few results.
      dense({3, 4}, {4, 5}, {3, 5}, {{3, 1}}, false, false, true),
      dense({3, 900}, {900, 5}, {3, 5}, {{5}}, false, false, true),
      // The product and its gelu; a gradient of gelu; the product twice.
      {{{{5, 8}}, {{8, 6}}},
       SampleProgram({5, 6}, {}).then(kGelu, 0).out("matmul", flags(false, false), {0, 1})},
      {{{{5, 8}}, {{6, 8}}, {{5, 6}}},
       SampleProgram({5, 6}, {{5, 6}}).then(kGeluGrad, 0, 1).out("matmul", flags(false, true), {2})},
      {{{{5, 8}}, {{8, 6}}},
       SampleProgram({5, 6}, {})
           .then(kMul, 0, 0)
           .then(kTanh, 1)
           .out("matmul", flags(false, false), {2, 1, 0})},
      // Convolutions, and the gradient of a relu fused with a convolution's gradient.
      {{{{2, 4, 4, 4}}, {{3, 3, 2, 6}}, {{6}}},
       SampleProgram({2, 4, 4, 6}, {{6}}).then(kAdd, 0, 1).then(kRelu, 2).out("convolution", window, {3})},
      {{{{2, 4, 4, 6}}, {{3, 3, 2, 6}}, {{2, 4, 4, 4}}},
       SampleProgram({2, 4, 4, 4}, {{2, 4, 4, 4}})
           .then(kReluGrad, 0, 1)
           .out("convolution_input_gradient", input_window, {2})},
  };
}

}  // namespace

FusedProduct::FusedProduct(const OpCall& call)
    : product(row(call.attributes.get<std::string>("product"))),
      attributes(call.attributes),
      program(call.attributes.object<ElementProgram>("program")) {
  attributes.erase("product");
  attributes.erase("program");
  attributes.erase(graph::kStorage);
  if (is_half(call.inputs[0].dtype)) attributes.set(graph::kStorage, std::vector<DType>{spec().dtype});
}

int FusedProduct::product_output() const {
  const auto found = std::ranges::find_if(
      program->outputs, [](const ElementProgram::Output& output) { return output.reg == 0; });
  return found == program->outputs.end() ? -1 : static_cast<int>(found - program->outputs.begin());
}

graph::KernelRequest FusedProduct::product_request(const graph::KernelRequest& request) const {
  return {product,         request.inputs.first(kProductFactors),
          {&spec(), 1},    attributes,
          request.threads, {},
          request.module,  request.shared,
          request.backend};
}

void register_fused_product(graph::Registry& registry) {
  OpDef op;
  op.name = "fused_product";
  op.summary =
      "`matmul`, `convolution` or `convolution_input_gradient`, and a fused group of element ops on its "
      "result; made by the pass `epilogues`";
  op.min_inputs = 2;
  op.max_inputs = -1;
  op.infer = infer_fused_product;
  op.precision.rule = graph::PrecisionRule::kLow;
  op.precision.full_inputs = [](const Attributes&) { return ~0U; };  // the program defines their storage
  op.precision.full_outputs = ~0U;
  op.may_alias = fused_product_alias;
  op.flops = fused_product_flops;
  op.dtypes = {DType::kF32};
  op.tolerance = 30;  // as matmul's
  op.reference = fused_product_reference;
  op.samples = samples();
  const auto bias = [](Shape bias_shape) {
    return SampleProgram({3, 5}, {std::move(bias_shape)})
        .then(ElementOp::kAdd, 0, 1)
        .out("matmul", {{"transpose_a", false}, {"transpose_b", false}}, {2});
  };
  op.errors = {{{{DType::kF32, {3, 4}}, {DType::kF32, {4, 6}}, {DType::kF32, {5}}}, bias({5})},
               {{{DType::kF32, {3, 4}}, {DType::kF32, {4, 5}}, {DType::kF32, {4}}}, bias({5})},
               {{{DType::kF32, {3, 4}}, {DType::kF32, {4, 5}}}, bias({5})},
               {{{DType::kF32, {3, 4}}, {DType::kF32, {4, 5}}, {DType::kF32, {5}}, {DType::kF32, {5}}},
                bias({5}),
                ErrorCode::kInvalidArgument}};
  registry.add(std::move(op));
}

}  // namespace isochron::ops
