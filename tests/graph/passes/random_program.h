// Random programs over the ops, for differential tests: the same program runs eagerly, captured with any set
// of passes, and under a gradient tape. The seed determines everything.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "isochron/core/base/rng.h"
#include "isochron/core/tensor/tensor.h"

namespace isochron::graph {

struct ProgramOptions {
  DType dtype = DType::kF64;
  bool assigns = true;  // programs may assign variables
  bool smooth = false;  // only ops that are differentiable everywhere, and no empty tensors
  int lines = 14;
};

/// One call. Operands are numbers of earlier values: inputs, then variables, then lines.
struct ProgramLine {
  enum class Kind { kUnary, kBinary, kReduce, kReshape, kTranspose, kMatmul, kAssign } kind;
  int op = 0;  // index into the table of the kind
  std::vector<int> operands;
  Dims dims = {};     // axes, shape or permutation
  bool flag = false;  // keep_dims, transpose
  int variable = -1;  // kAssign
};

class RandomProgram {
 public:
  RandomProgram(uint64_t seed, const ProgramOptions& options);

  const std::vector<Shape>& input_shapes() const { return inputs_; }
  size_t variable_count() const { return variables_.size(); }
  /// Uniform content in [-1.5, 1.5]; the same for equal `seed`.
  std::vector<Tensor> make_inputs(uint64_t seed) const { return make(inputs_, seed); }
  std::vector<Tensor> make_variables(uint64_t seed) const { return make(variables_, seed); }
  /// The program's outputs; assigns `variables`.
  std::vector<Tensor> run(std::span<const Tensor> inputs, std::span<const Tensor> variables) const;
  /// One line per call, readable for humans.
  std::string text() const;
  /// Removes outputs and assignments, then everything that nothing reads, as long as `fails` holds for the
  /// rest.
  void shrink(const std::function<bool(const RandomProgram&)>& fails);

 private:
  void add_line();
  void add_assign();
  std::vector<Tensor> make(const std::vector<Shape>& shapes, uint64_t seed) const;
  int pick(size_t count) { return static_cast<int>(rng_.below(count)); }
  void push(ProgramLine line, const Shape& shape);
  void drop_unread();
  std::string line_text(const ProgramLine& line) const;

  ProgramOptions options_;
  Rng rng_;
  std::vector<Shape> inputs_;
  std::vector<Shape> variables_;
  std::vector<Shape> shapes_;  // of all values
  std::vector<ProgramLine> lines_;
  std::vector<bool> dropped_;
  std::vector<int> outputs_;
};

}  // namespace isochron::graph
