// Recurrent layers, by the definitions of ops/recurrent/recurrent.h: whole layers over a sequence, in stacks
// and in both directions, and cells for loops of one's own (scan, while_loop).
#pragma once

#include <string>
#include <vector>

#include "isochron/nn/module/module.h"
#include "isochron/ops/recurrent/recurrent.h"

namespace isochron::nn {

/// How the two directions of a bidirectional layer become one result.
enum class MergeMode { kConcatenate, kSum, kAverage, kMultiply };

struct RecurrentLayerOptions {
  /// What `forward` gives: the sequence (N, T, D), or else the last output (N, D).
  bool return_sequences = false;
  /// Layers on top of each other; each but the first reads the sequence of the one below.
  int64_t layers = 1;
  /// Each layer also from the last step to the first, with parameters of its own.
  bool bidirectional = false;
  MergeMode merge = MergeMode::kConcatenate;
  /// From the last step to the first only; the sequence stays in order of time. Not with `bidirectional`.
  bool reverse = false;
  /// Of the sequences between layers, in training.
  double dropout = 0;
  bool bias = true;
  Initializer kernel_initializer = init::glorot_uniform();
  Initializer recurrent_initializer = init::orthogonal();
  Initializer bias_initializer = init::zeros();
  /// LSTM: the forget gate's bias starts at 1 (Jozefowicz et al., ICML 2015).
  bool unit_forget_bias = true;
};

/// Where a layer starts and how long its rows are.
struct RecurrentInputs {
  /// (N) i32 or i64, or undefined: all T steps (see RecurrentOptions).
  Tensor lengths = {};
  /// Initial states (N, H), in the order (layer 0 forward, layer 0 backward, layer 1 forward, ...); empty:
  /// zeros. `c` for an LSTM only, and then both or none.
  std::vector<Tensor> h = {};
  std::vector<Tensor> c = {};
};

struct RecurrentResult {
  Tensor sequence;        // (N, T, D) of the last layer, directions merged; 0 beyond a row's length
  Tensor last;            // (N, D): its final h, directions merged
  std::vector<Tensor> h;  // final states (N, H), ordered as RecurrentInputs::h
  std::vector<Tensor> c;  // LSTM only
};

/// What LSTM and GRU have in common. D is H, or 2 H where two directions are concatenated. Parameters of a
/// layer: kernel (inputs, gates x H), recurrent_kernel (H, gates x H), bias; named so, or
/// "layer_0/backward/kernel" where there are several layers or directions.
class Recurrent : public Module {
 public:
  /// x: (N, T, C). See RecurrentLayerOptions::return_sequences.
  Tensor forward(const Tensor& x) override { return forward(x, Tensor(), Tensor()); }
  /// From initial states (layers x directions, N, H), in the order of RecurrentInputs::h: a GRU from h, an
  /// LSTM from h and c. Undefined ones are zeros. Throws as `run`, and kShapeMismatch.
  Tensor forward(const Tensor& x, const Tensor& h) override { return forward(x, h, Tensor()); }
  Tensor forward(const Tensor& x, const Tensor& h, const Tensor& c) override;
  /// The whole result, from given states and with lengths. Throws kInvalidArgument for a wrong number of
  /// states, and as lstm and gru.
  RecurrentResult run(const Tensor& x, const RecurrentInputs& inputs = {});
  void members(Members& list) override;
  const RecurrentLayerOptions& options() const { return options_; }

 protected:
  /// Throws kInvalidArgument unless units >= 1, layers >= 1, dropout in [0, 1), one of reverse and
  /// bidirectional.
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
  /// One direction of one layer, which is number `index`; appends its final state to `result`.
  Tensor run_direction(size_t index, const Tensor& x, const RecurrentInputs& inputs, RecurrentResult& result);
  Tensor merge(const std::vector<Tensor>& parts) const;
  /// The states that `stacked` holds; none where it is undefined.
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

/// The lengths of a boolean mask (N, T) that holds true first and false after it in every row. A row of
/// another form gets length -1, which recurrent layers refuse with kOutOfRange when they run.
Tensor mask_lengths(const Tensor& mask);

struct RecurrentCellOptions {
  bool bias = true;
  Initializer kernel_initializer = init::glorot_uniform();
  Initializer recurrent_initializer = init::orthogonal();
  Initializer bias_initializer = init::zeros();
  bool unit_forget_bias = true;
};

/// What LSTMCell and GRUCell have in common: the parameters of one layer.
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

/// One step of an LSTM at a time: `state = cell.step(x, state)`.
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
