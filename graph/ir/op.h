// One row per op: what it means. Tests, the reference page, fusion and planning all read the row. What
// computes it is the matter of backends (graph/ir/backend.h).
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

/// What shape rules see of a call.
struct OpCall {
  const OpDef& op;
  std::span<const TensorSpec> inputs;
  const Attributes& attributes;
};

/// How gradients in rows ask for further gradients without knowing autograd.
class GradientContext {
 public:
  virtual ~GradientContext() = default;
  using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
  /// The gradients of `function` at `inputs`, a composition of differentiable ops, with respect to its
  /// floating inputs; `seeds` multiply its results and may be undefined. For rows whose kernel does at once
  /// what a composition of ops defines: they are differentiated through it.
  virtual std::vector<Tensor> differentiate(const Function& function, std::span<const Tensor> inputs,
                                            std::span<const Tensor> seeds) = 0;
  /// d(sum_i targets[i] * seeds[i]) / d sources, within the graph being captured. Undefined where
  /// disconnected.
  virtual std::vector<Tensor> gradients(std::span<const Tensor> targets, std::span<const Tensor> seeds,
                                        std::span<const Tensor> sources) = 0;
};

struct GradientCall {
  const OpDef& op;
  const Attributes& attributes;
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  std::span<const Tensor> output_gradients;  // undefined where no gradient flows
  std::span<const bool> needed;              // per input: does anybody want its gradient?
  GradientContext& context;
};

enum class FusionClass : uint8_t {
  kOpaque,       // its own kernel
  kElementwise,  // one ElementOp per element; chains fuse
  kReduction,    // may close a fused chain
  kView,         // output 0 is input 0's bytes under another shape; no kernel
};

/// How an op stands under mixed precision (graph/passes/precision.h). Elementwise ops, reductions and views
/// need not say.
enum class PrecisionRule : uint8_t {
  kFull,    // computes in f32, on f32 operands
  kFollow,  // computes in f32, on operands of any dtype; its results are 16-bit between 16-bit ones
  kMoves,   // moves elements of any dtype: its results have the width of its operands
  kLow,     // multiplies 16-bit operands and sums in f32
};
struct OpPrecision {
  PrecisionRule rule = PrecisionRule::kFull;
  /// Operands that stay f32, a bit each: statistics, parameters added to sums. Null: none.
  uint32_t (*full_inputs)(const Attributes&) = nullptr;
  uint32_t full_outputs = 0;  // results that stay f32
};

/// One input of a sample: uniform values in [low, high] of `dtype`, or `values` where the domain is special.
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
  /// Gradients per input (undefined where there is none), written in ops. Null: not differentiable.
  std::vector<Tensor> (*gradient)(const GradientCall&) = nullptr;
  /// All results of the call in other ops, by which it runs on a backend that has no kernel for it. Null:
  /// there are none.
  std::vector<Tensor> (*decompose)(const OpCall& call, std::span<const Tensor> inputs) = nullptr;
  OpPrecision precision = {};
  FusionClass fusion = FusionClass::kOpaque;
  ElementOp element = ElementOp::kCopy;  // kElementwise
  ReduceKind reduce = ReduceKind::kSum;  // kReduction
  /// May output `o` be written over input `i`? Null: never.
  bool (*may_alias)(const OpCall&, int output, int input) = nullptr;
  bool random = false;       // two calls with equal inputs are still two draws: exempt from CSE
  bool side_effect = false;  // kept though nobody reads its result (print, assert)
  bool collective = false;   // all ranks run it, in one order: not in loops and branches; a side effect
  bool skips_unused_outputs = false;  // the kernel accepts null for an output that nobody reads
  /// Of a collective that others needn't wait for: the rows that start it, giving bytes in flight, and that
  /// make its results of them (graph/passes/overlap.cc). Both get its attributes and what `pending` makes for
  /// one call, as "pending"; null: this call isn't to be split.
  struct Split {
    std::string start;
    std::string wait;
    std::shared_ptr<const AttributeObject> (*pending)(const OpCall&) = nullptr;
  };
  std::optional<Split> split = {};
  /// Of an op that packs its inputs into its first output, or unpacks its outputs from its first input: the
  /// byte at which each of them begins there. The planner has them written and read in that place where it
  /// can; the kernel copies those that lie elsewhere.
  struct Packing {
    enum class Kind : uint8_t { kPacks, kUnpacks } kind = Kind::kPacks;
    std::vector<size_t> (*offsets)(const OpCall&) = nullptr;
  };
  std::optional<Packing> packing = {};
  /// Floating point operations of one call, for thread choice and profiles.
  double (*flops)(const OpCall&) = nullptr;
  // What the tests are generated from.
  std::vector<DType> dtypes = {};  // dtypes under test; empty: f64 and f32
  std::vector<OpSample> samples = {};
  std::vector<ErrorSample> errors = {};
  ReferenceFunction reference = {};
  double tolerance = 1.0;  // multiple of the house tolerances, where sums are long
  std::vector<int> differentiable =
      {};  // inputs to gradient-check; empty: all floating ones when `gradient` is set
  const Registry* registry = nullptr;  // set by Registry::add
};

}  // namespace isochron::graph

// In op.cc, for every folder of ops fills them.
extern template class std::vector<isochron::graph::InputSample>;
extern template class std::vector<isochron::graph::OpSample>;
extern template class std::vector<isochron::graph::ErrorSample>;

namespace isochron::graph {

/// All rows. Addresses are stable.
class Registry {
 public:
  /// Adds a row. Throws kInvalidArgument if the name is taken or the row is incomplete.
  const OpDef& add(OpDef op);
  /// Throws kInvalidArgument naming the closest op when there is none.
  const OpDef& at(std::string_view name) const;
  const OpDef* find(std::string_view name) const;
  const std::deque<OpDef>& rows() const { return rows_; }

 private:
  std::deque<OpDef> rows_;
};

/// Shape rules with the arity checked first; every caller goes through this. Heeds the attribute `stored`
/// (graph/ir/half_storage.h).
std::vector<TensorSpec> infer_outputs(const OpDef& op, std::span<const TensorSpec> inputs,
                                      const Attributes& attributes);

}  // namespace isochron::graph
