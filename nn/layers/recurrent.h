// Recurrent layers, with the definitions of ops/recurrent/recurrent.h: whole layers over a sequence, stacked
// and in both directions, and cells for hand-written loops (scan, while_loop).
#pragma once

#include <string>
#include <vector>

#include "isochron/nn/module/module.h"
#include "isochron/ops/recurrent/recurrent.h"

namespace isochron::nn {

/// How the two directions of a bidirectional layer become one result.
enum class MergeMode { kConcatenate, kSum, kAverage, kMultiply };

struct RecurrentLayerOptions {
  /// Whether `forward` returns the whole sequence (N, T, D) or only the last output (N, D).
  bool return_sequences = false;
  /// The number of stacked layers. Each layer after the first reads the sequence of the layer below it.
  int64_t layers = 1;
  /// Each layer also runs from the last step to the first, with separate parameters.
  bool bidirectional = false;
  MergeMode merge = MergeMode::kConcatenate;
  /// Runs from the last step to the first only; the result stays in time order. Not with `bidirectional`.
  bool reverse = false;
  /// The dropout rate of the sequences between layers, in training.
  double dropout = 0;
  bool bias = true;
  Initializer kernel_initializer = init::glorot_uniform();
  Initializer recurrent_initializer = init::orthogonal();
  Initializer bias_initializer = init::zeros();
  /// LSTM: the forget gate's bias starts at 1 (Jozefowicz et al., ICML 2015).
  bool unit_forget_bias = true;
};

/// The initial states and the lengths of the rows.
struct RecurrentInputs {
  /// (N) i32 or i64, or undefined: all T steps (see RecurrentOptions).
  Tensor lengths = {};
  /// Initial states (N, H), in the order (layer 0 forward, layer 0 backward, layer 1 forward, ...); empty:
  /// zeros. `c` is for an LSTM only. An LSTM takes both h and c, or neither.
  std::vector<Tensor> h = {};
  std::vector<Tensor> c = {};
};

struct RecurrentResult {
  Tensor sequence;        // (N, T, D) of the last layer, directions merged; 0 beyond a row's length
  Tensor last;            // (N, D): final h of the last layer, directions merged
  std::vector<Tensor> h;  // final states (N, H), ordered as RecurrentInputs::h
  std::vector<Tensor> c;  // LSTM only
};

/// The common base of LSTM and GRU. D is H, or 2 H if two directions are concatenated. The parameters of a
/// layer are named kernel (inputs, gates x H), recurrent_kernel (H, gates x H) and bias. With several layers
/// or directions the names have a prefix: "layer_0/backward/kernel".
class Recurrent : public Module {
 public:
  /// x: (N, T, C). See RecurrentLayerOptions::return_sequences.
  Tensor forward(const Tensor& x) override { return forward(x, Tensor(), Tensor()); }
  /// Starts from initial states (layers x directions, N, H), in the order of RecurrentInputs::h: h for a GRU,
  /// h and c for an LSTM. An undefined state is zeros. Throws the same errors as `run`, and kShapeMismatch.
  Tensor forward(const Tensor& x, const Tensor& h) override { return forward(x, h, Tensor()); }
  Tensor forward(const Tensor& x, const Tensor& h, const Tensor& c) override;
  /// Returns the whole result, starting from the given states and respecting the lengths. Throws
  /// kInvalidArgument for a wrong number of states, and the errors of lstm and gru.
  RecurrentResult run(const Tensor& x, const RecurrentInputs& inputs = {});
  void members(Members& list) override;
  const RecurrentLayerOptions& options() const { return options_; }

 protected:
  /// Throws kInvalidArgument unless units >= 1, layers >= 1 and dropout lies in [0, 1), and if both reverse
  /// and bidirectional are set.
  Recurrent(int64_t gates, int64_t units, RecurrentLayerOptions options);

 private:
  struct Direction {
    std::string prefix;
    bool reverse = false;
    Variable kernel;
    Variable recurrent_kernel;
    Variable bias;
  };
  void build_direction(Direction& direction, const Tensor& x);
  /// Runs one direction of one layer, directions_[index], and appends its final state to `result`.
  Tensor run_direction(size_t index, const Tensor& x, const RecurrentInputs& inputs, RecurrentResult& result);
  Tensor merge(const std::vector<Tensor>& parts) const;
  /// The states in `stacked`; none if it is undefined.
  std::vector<Tensor> states(const Tensor& stacked) const;

  int64_t gates_;  // 4: LSTM, 3: GRU
  int64_t units_;
  RecurrentLayerOptions options_;
  std::vector<Direction> directions_;
};

class LSTM : public Recurrent {
 public:
  explicit LSTM(int64_t units, RecurrentLayerOptions options = {})
      : Recurrent(4, units, std::move(options)) {}
  std::string_view kind() const override { return "lstm"; }
};

class GRU : public Recurrent {
 public:
  explicit GRU(int64_t units, RecurrentLayerOptions options = {}) : Recurrent(3, units, std::move(options)) {}
  std::string_view kind() const override { return "gru"; }
};

/// The lengths of a boolean mask (N, T). Every row must hold true values followed by false values. Any other
/// row gets length -1, which recurrent layers reject with kOutOfRange when they run.
Tensor mask_lengths(const Tensor& mask);

struct RecurrentCellOptions {
  bool bias = true;
  Initializer kernel_initializer = init::glorot_uniform();
  Initializer recurrent_initializer = init::orthogonal();
  Initializer bias_initializer = init::zeros();
  bool unit_forget_bias = true;
};

/// The common base of LSTMCell and GRUCell: the parameters of one layer.
class RecurrentCell : public Module {
 public:
  void members(Members& list) override {
    list("kernel", kernel_)("recurrent_kernel", recurrent_kernel_)("bias", bias_);
  }
  /// Builds the parameters for inputs of this many features.
  void build_for(int64_t features, DType dtype);

 protected:
  RecurrentCell(int64_t gates, int64_t units, RecurrentCellOptions options);
  /// Zeros for x: (N, C).
  Tensor zero_state(const Tensor& x) const;
  Variable kernel_;
  Variable recurrent_kernel_;
  Variable bias_;

 private:
  int64_t gates_;
  int64_t units_;
  RecurrentCellOptions options_;
};

/// An LSTM that runs one step at a time: `state = cell.step(x, state)`.
class LSTMCell : public RecurrentCell {
 public:
  explicit LSTMCell(int64_t units, RecurrentCellOptions options = {})
      : RecurrentCell(4, units, std::move(options)) {}
  /// The new h of one step from the zero state. x: (N, C).
  Tensor forward(const Tensor& x) override { return step(x, initial_state(x)).h; }
  LstmState step(const Tensor& x, const LstmState& state);
  LstmState initial_state(const Tensor& x) const { return {zero_state(x), zero_state(x)}; }
  std::string_view kind() const override { return "lstm_cell"; }
};

class GRUCell : public RecurrentCell {
 public:
  explicit GRUCell(int64_t units, RecurrentCellOptions options = {})
      : RecurrentCell(3, units, std::move(options)) {}
  /// The new h of one step, from the zero state or from h. x: (N, C), h: (N, H).
  Tensor forward(const Tensor& x) override { return step(x, initial_state(x)); }
  Tensor forward(const Tensor& x, const Tensor& h) override { return step(x, h); }
  Tensor step(const Tensor& x, const Tensor& h);
  Tensor initial_state(const Tensor& x) const { return zero_state(x); }
  std::string_view kind() const override { return "gru_cell"; }
};

}  // namespace isochron::nn
