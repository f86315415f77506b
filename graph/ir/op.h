// One row per op defines what the op means. Tests, the reference page, fusion and planning all read the row.
// Backends compute the op (graph/ir/backend.h).
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "isochron/core/tensor/tensor.h"
#include "isochron/graph/ir/attributes.h"
#include "isochron/graph/ir/element_op.h"

namespace isochron::graph {

class Registry;
struct OpDef;

/// The part of a call that shape rules see.
struct OpCall {
  const OpDef& op;
  std::span<const TensorSpec> inputs;
  const Attributes& attributes;
};

/// Lets the gradient rules in rows request further gradients without knowing autograd.
class GradientContext {
 public:
  virtual ~GradientContext() = default;
  using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
  /// The gradients of `function`, a composition of differentiable ops, at `inputs`, with respect to its
  /// floating-point inputs. `seeds` weight its results and may be undefined. For ops that have a kernel for a
  /// whole composition of ops, but are differentiated through that composition.
  virtual std::vector<Tensor> differentiate(const Function& function, std::span<const Tensor> inputs,
                                            std::span<const Tensor> seeds) = 0;
  /// d(sum_i targets[i] * seeds[i]) / d sources, within the graph being captured. Undefined for sources that
  /// are disconnected.
  virtual std::vector<Tensor> gradients(std::span<const Tensor> targets, std::span<const Tensor> seeds,
                                        std::span<const Tensor> sources) = 0;
};

struct GradientCall {
  const OpDef& op;
  const Attributes& attributes;
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  std::span<const Tensor> output_gradients;  // undefined if no gradient flows
  std::span<const bool> needed;              // per input: whether its gradient is wanted
  GradientContext& context;
};

enum class FusionClass : uint8_t {
  kOpaque,       // its own kernel
  kElementwise,  // one ElementOp per element; chains fuse
  kReduction,    // may close a fused chain
  kView,         // output 0 is input 0's bytes under another shape; no kernel
};

/// How mixed precision treats an op (graph/passes/precision.h). Elementwise ops, reductions and views need no
/// rule.
enum class PrecisionRule : uint8_t {
  kFull,    // computes in f32, on f32 operands
  kFollow,  // computes in f32, on operands of any dtype; results between 16-bit values are 16-bit
  kMoves,   // moves elements of any dtype: its results have the width of its operands
  kLow,     // multiplies 16-bit operands and sums in f32
};
struct OpPrecision {
  PrecisionRule rule = PrecisionRule::kFull;
  /// Operands that stay f32, as one bit per operand: statistics, parameters added to sums. Null: none.
  uint32_t (*full_inputs)(const Attributes&) = nullptr;
  uint32_t full_outputs = 0;  // results that stay f32
};

/// One input of a sample: uniform values in [low, high] of `dtype`, or `values` if the domain is special.
struct InputSample {
  Shape shape;
  double low = -2.0;
  double high = 2.0;
  std::optional<DType> dtype = {};  // none: the dtype under test
  std::vector<double> values = {};
};
struct OpSample {
  std::vector<InputSample> inputs;
  Attributes attributes = {};
};
/// A call that must fail with `code`.
struct ErrorSample {
  std::vector<TensorSpec> inputs;
  Attributes attributes = {};
  ErrorCode code = ErrorCode::kShapeMismatch;
};
/// The naive definition on doubles, one vector per tensor, row-major; `outputs` are the inferred specs.
using ReferenceFunction = std::function<std::vector<std::vector<double>>(
    const OpCall& call, std::span<const TensorSpec> outputs, const std::vector<std::vector<double>>& inputs)>;

struct OpDef {
  OpDef();
  OpDef(const OpDef&);
  OpDef(OpDef&&) noexcept;
  OpDef& operator=(const OpDef&);
  OpDef& operator=(OpDef&&) noexcept;
  ~OpDef();

  std::string name;
  std::string summary;  // one sentence for the op reference
  int min_inputs = 1;
  int max_inputs = 1;  // -1: any number
  /// Output specs; throws kShapeMismatch, kDtypeMismatch, kOutOfRange, kInvalidArgument.
  std::vector<TensorSpec> (*infer)(const OpCall&) = nullptr;
  /// Gradients per input (undefined if there is none), written in ops. Null: not differentiable.
  std::vector<Tensor> (*gradient)(const GradientCall&) = nullptr;
  /// Computes all results of the call with other ops, for a backend that has no kernel for this op. Null:
  /// there is no decomposition.
  std::vector<Tensor> (*decompose)(const OpCall& call, std::span<const Tensor> inputs) = nullptr;
  OpPrecision precision = {};
  FusionClass fusion = FusionClass::kOpaque;
  ElementOp element = ElementOp::kCopy;  // kElementwise
  ReduceKind reduce = ReduceKind::kSum;  // kReduction
  /// Whether output `o` may be written over input `i`. Null: never.
  bool (*may_alias)(const OpCall&, int output, int input) = nullptr;
  bool random = false;       // two calls with equal inputs are still two draws: exempt from CSE
  bool side_effect = false;  // kept even if nobody reads its result (print, check_numerics)
  bool collective = false;   // all ranks run it in the same order: not in loops and branches; a side effect
  uint32_t skippable_outputs = 0;  // one bit per output: the kernel accepts null for it if nobody reads it
  static constexpr uint32_t kAllOutputs = ~0U;
  /// For a collective that other nodes needn't wait for: the row that starts it and returns bytes in flight,
  /// and the row that makes the results from these bytes (graph/passes/overlap.cc). Both get the collective's
  /// attributes and, as the attribute "pending", the object that `pending` returns for the call. If `pending`
  /// returns null, the call isn't split.
  struct Split {
    std::string start;
    std::string wait;
    std::shared_ptr<const AttributeObject> (*pending)(const OpCall&) = nullptr;
  };
  std::optional<Split> split = {};
  /// For an op that packs its inputs into its first output, or unpacks its outputs from its first input: the
  /// byte offset of each of them in that tensor. If possible, the planner places them there, so that they are
  /// written and read in place; the kernel copies those that lie elsewhere.
  struct Packing {
    enum class Kind : uint8_t { kPacks, kUnpacks } kind = Kind::kPacks;
    std::vector<size_t> (*offsets)(const OpCall&) = nullptr;
  };
  std::optional<Packing> packing = {};
  /// Floating point operations of one call, for thread choice and profiles.
  double (*flops)(const OpCall&) = nullptr;
  /// Bytes that one call reads and writes, for profiles. Null: the bytes of all inputs and outputs. Ops that
  /// touch fewer, such as some rows of a table, define it.
  double (*bytes)(const OpCall&, std::span<const TensorSpec> outputs) = nullptr;
  // The data that the tests are generated from.
  std::vector<DType> dtypes = {};  // dtypes under test; empty: f64 and f32
  std::vector<OpSample> samples = {};
  std::vector<ErrorSample> errors = {};
  ReferenceFunction reference = {};
  double tolerance = 1.0;  // factor on the tests' usual tolerances, for long sums
  std::vector<int> differentiable =
      {};  // inputs to gradient-check; empty: all floating ones when `gradient` is set
  const Registry* registry = nullptr;  // set by Registry::add
};

}  // namespace isochron::graph

// Instantiated once, in op.cc, because the rows in every folder of ops use them.
extern template class std::vector<isochron::graph::InputSample>;
extern template class std::vector<isochron::graph::OpSample>;
extern template class std::vector<isochron::graph::ErrorSample>;

namespace isochron::graph {

/// All rows. Addresses are stable.
class Registry {
 public:
  /// Adds a row. Throws kInvalidArgument if the name is taken or the row is incomplete.
  const OpDef& add(OpDef op);
  /// Throws kInvalidArgument naming the closest op if there is no such op.
  const OpDef& at(std::string_view name) const;
  const OpDef* find(std::string_view name) const;
  const std::deque<OpDef>& rows() const { return rows_; }

 private:
  std::deque<OpDef> rows_;
};

/// Checks the arity, then applies the shape rule; every caller goes through this. Takes the attribute
/// `storage` into account (graph/ir/half_storage.h).
std::vector<TensorSpec> infer_outputs(const OpDef& op, std::span<const TensorSpec> inputs,
                                      const Attributes& attributes);

}  // namespace isochron::graph
