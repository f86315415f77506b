#include "isochron/backends/cpu/optimizer/norm_updates.h"

#include <algorithm>
#include <cmath>

#include "isochron/backends/cpu/optimizer/norm_functions.h"
#include "isochron/core/process/threads.h"
#include "isochron/ops/optimizer/update_parameters.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;
using graph::KernelRequest;

int64_t total_elems(const KernelRequest& request, const UpdateLayout& layout) {
  int64_t total = 0;
  for (size_t i = 0; i < layout.parameters; ++i) total += request.inputs[layout.parameter(i)].shape.elems();
  return total;
}

/// The common base of this file's kernels, with access to the tensors of a block.
class NormKernel : public graph::Kernel {
 protected:
  explicit NormKernel(const KernelRequest& request)
      : parameters_(request),
        layout_(parameters_.layout),
        elem_bytes_(static_cast<int64_t>(dtype_size(request.inputs.back().dtype))),
        functions_(norm_functions(request.inputs.back().dtype)),
        threads_(total_elems(request, layout_) >= kParallelUpdateElems ? request.threads : 1) {}

  const std::byte* parameter(const KernelArgs& args, size_t i, int64_t at) const {
    return args.inputs[layout_.parameter(i)] + at * elem_bytes_;
  }
  const std::byte* gradient(const KernelArgs& args, size_t i, int64_t at) const {
    return args.inputs[layout_.gradient(i)] + at * elem_bytes_;
  }
  const std::byte* state(const KernelArgs& args, size_t k, size_t i, int64_t at) const {
    return args.inputs[layout_.state(k, i)] + at * elem_bytes_;
  }
  std::byte* new_parameter(const KernelArgs& args, size_t i, int64_t at) const {
    return args.outputs[layout_.parameter(i) - UpdateLayout::kFirstAliased] + at * elem_bytes_;
  }
  std::byte* new_state(const KernelArgs& args, size_t k, size_t i, int64_t at) const {
    return args.outputs[layout_.state(k, i) - UpdateLayout::kFirstAliased] + at * elem_bytes_;
  }

  UpdateParameters parameters_;
  UpdateLayout layout_;
  int64_t elem_bytes_;
  NormFunctions functions_;
  int threads_;
  UpdateParameters::Numbers numbers_{};
};

class LambKernel final : public NormKernel {
 public:
  explicit LambKernel(const KernelRequest& request)
      : NormKernel(request),
        beta_1_(request.attributes.get<double>("beta_1")),
        beta_2_(request.attributes.get<double>("beta_2")),
        rates_(layout_.parameters) {
    lamb_.new_1 = 1 - request.attributes.get<double>("beta_1");
    lamb_.new_2 = 1 - request.attributes.get<double>("beta_2");
    lamb_.epsilon = request.attributes.get<double>("epsilon");
    for (size_t i = 0; i < layout_.parameters; ++i) {
      const int64_t elems = request.inputs[layout_.parameter(i)].shape.elems();
      for (int64_t at = 0; at < elems; at += kBlock) blocks_.push_back({i, at, std::min(kBlock, elems - at)});
    }
  }

  size_t workspace_bytes() const override { return blocks_.size() * sizeof(SquareSums); }

  void run(const KernelArgs& args) override {
    numbers_ = parameters_.begin(args);
    const auto step = static_cast<uint64_t>(numbers_.step);
    lamb_.gradient_factor = numbers_.gradient_factor;
    lamb_.mean_factor = 1 / (1 - element::power(beta_1_, step));
    lamb_.root_factor = 1 / std::sqrt(1 - element::power(beta_2_, step));
    auto* sums = reinterpret_cast<SquareSums*>(args.workspace);
    each_block(
        [&](size_t b) { sums[b] = functions_.lamb_moments(lamb_for(blocks_[b]), run_of(args, blocks_[b])); });
    set_rates(sums);
    each_block([&](size_t b) {
      functions_.lamb_move(lamb_for(blocks_[b]), run_of(args, blocks_[b]), rates_[blocks_[b].parameter]);
    });
  }

 private:
  static constexpr int64_t kBlock = 8192;
  struct Block {
    size_t parameter;
    int64_t begin;
    int64_t count;
  };

  template <typename Body>
  void each_block(Body body) {
    parallel_for(threads_, static_cast<int64_t>(blocks_.size()), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) body(static_cast<size_t>(b));
    });
  }

  LambNumbers lamb_for(const Block& block) const {
    LambNumbers numbers = lamb_;
    numbers.parameter_factor = parameters_.parameter_factor(block.parameter, numbers_.rate);
    return numbers;
  }

  LambRun run_of(const KernelArgs& args, const Block& b) const {
    LambRun run{};
    run.parameter = parameter(args, b.parameter, b.begin);
    run.gradient = gradient(args, b.parameter, b.begin);
    run.new_parameter = new_parameter(args, b.parameter, b.begin);
    for (const size_t k : {0, 1}) {
      run.states[k] = state(args, k, b.parameter, b.begin);
      run.new_states[k] = new_state(args, k, b.parameter, b.begin);
    }
    run.count = b.count;
    return run;
  }

  /// Sets each parameter's rate, multiplied by the ratio of its norm to the norm of its update direction.
  void set_rates(const SquareSums* sums) {
    size_t b = 0;
    for (size_t i = 0; i < layout_.parameters; ++i) {
      SquareSums total;
      for (; b < blocks_.size() && blocks_[b].parameter == i; ++b) {
        total.parameter += sums[b].parameter;
        total.other += sums[b].other;
      }
      const double ratio =
          total.parameter > 0 && total.other > 0 ? std::sqrt(total.parameter / total.other) : 1.0;
      rates_[i] = numbers_.rate * parameters_.rate_factor(i) * ratio;
    }
  }

  double beta_1_;
  double beta_2_;
  LambNumbers lamb_;
  std::vector<Block> blocks_;  // in the order of the parameters
  std::vector<double> rates_;
};

class AdafactorKernel final : public NormKernel {
 public:
  explicit AdafactorKernel(const KernelRequest& request)
      : NormKernel(request),
        decay_(request.attributes.get<double>("beta_2_decay")),
        epsilon_1_(request.attributes.get<double>("epsilon_1")),
        epsilon_2_(request.attributes.get<double>("epsilon_2")),
        threshold_(request.attributes.get<double>("clip_threshold")),
        rates_(layout_.parameters),
        wide_(request.inputs.back().dtype == DType::kF64) {
    for (size_t i = 0; i < layout_.parameters; ++i) {
      const Shape& shape = request.inputs[layout_.parameter(i)].shape;
      Matrices m;
      m.factored = shape.rank() >= 2;
      m.columns = m.factored ? shape[shape.rank() - 1] : shape.elems();
      m.rows = m.factored ? shape[shape.rank() - 2] : 1;
      m.count = shape.elems() > 0 ? shape.elems() / (m.rows * m.columns) : 0;
      m.first_row = rows_;
      m.first_mean = means_.size();
      rows_ += m.count * m.rows;
      means_.resize(means_.size() + static_cast<size_t>(m.count));
      for (int64_t k = 0; m.factored && k < m.count; ++k) {
        for (int64_t j = 0; j < m.columns; j += kColumns)
          tiles_.push_back({i, k, j, std::min(kColumns, m.columns - j)});
      }
      matrices_.push_back(m);
    }
  }

  size_t workspace_bytes() const override { return static_cast<size_t>(rows_) * sizeof(SquareSums); }

  void run(const KernelArgs& args) override {
    numbers_ = parameters_.begin(args);
    const double t = static_cast<double>(numbers_.step);
    ema_decay_ = 1 - std::pow(t, decay_);
    auto* sums = reinterpret_cast<SquareSums*>(args.workspace);
    each_row([&](const Row& row) { sums[row.index] = row_moments(args, row); });
    parallel_for(threads_, static_cast<int64_t>(tiles_.size()), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) column_moments(args, tiles_[static_cast<size_t>(k)]);
    });
    set_means(args);
    each_row([&](const Row& row) { sums[row.index].other = functions_.move_squares(factored(args, row)); });
    set_rates(sums, t);
    each_row([&](const Row& row) {
      functions_.move(factored(args, row), parameter(args, row.parameter, row.begin),
                      parameters_.parameter_factor(row.parameter, numbers_.rate), rates_[row.parameter],
                      new_parameter(args, row.parameter, row.begin));
    });
  }

 private:
  static constexpr int64_t kColumns = 512;
  /// A parameter as a stack of matrices; a parameter without rows is a single row.
  struct Matrices {
    bool factored;
    int64_t count, rows, columns;
    int64_t first_row;  // index of its first row among the rows of all parameters
    size_t first_mean;
  };
  struct Tile {  // some columns of a matrix
    size_t parameter;
    int64_t matrix, first, count;
  };
  struct Row {
    size_t parameter;
    int64_t index;  // index among all parameters' rows
    int64_t local;  // index among this parameter's rows
    int64_t begin;  // its first element
  };

  template <typename Body>
  void each_row(Body body) {
    parallel_for(threads_, rows_, [&](int64_t begin, int64_t end) {
      for (size_t i = 0; i < matrices_.size(); ++i) {
        const Matrices& m = matrices_[i];
        const int64_t last = std::min(end, m.first_row + m.count * m.rows);
        for (int64_t r = std::max(begin, m.first_row); r < last; ++r)
          body(Row{i, r, r - m.first_row, (r - m.first_row) * m.columns});
      }
    });
  }

  double load(const std::byte* at) const {
    return wide_ ? *reinterpret_cast<const double*>(at) : *reinterpret_cast<const float*>(at);
  }
  void store(double value, std::byte* at) const {
    if (wide_) {
      *reinterpret_cast<double*>(at) = value;
    } else {
      *reinterpret_cast<float*>(at) = static_cast<float>(value);
    }
  }
  double next_moment(double moment, double mean_square) const {
    return ema_decay_ * moment + (1 - ema_decay_) * (mean_square + epsilon_1_);
  }

  SquareSums row_moments(const KernelArgs& args, const Row& row) const {
    const Matrices& m = matrices_[row.parameter];
    const double factor = numbers_.gradient_factor;
    const std::byte* g = gradient(args, row.parameter, row.begin);
    const SquareSums sums = functions_.square_sums(parameter(args, row.parameter, row.begin),
                                                   parameters_.parameter_factor(row.parameter, numbers_.rate),
                                                   g, factor, m.columns);
    if (m.factored) {
      const double mean = sums.other / static_cast<double>(m.columns);
      store(next_moment(load(state(args, 0, row.parameter, row.local)), mean),
            new_state(args, 0, row.parameter, row.local));
    } else {
      functions_.square_moment(g, factor, ema_decay_, epsilon_1_, state(args, 0, row.parameter, 0),
                               new_state(args, 0, row.parameter, 0), m.columns);
    }
    return sums;
  }

  void column_moments(const KernelArgs& args, const Tile& tile) const {
    const Matrices& m = matrices_[tile.parameter];
    double sums[kColumns];
    const std::byte* g = gradient(args, tile.parameter, tile.matrix * m.rows * m.columns + tile.first);
    functions_.column_squares(g, numbers_.gradient_factor, m.rows, m.columns, tile.count, sums);
    for (int64_t j = 0; j < tile.count; ++j) {
      const int64_t at = tile.matrix * m.columns + tile.first + j;
      store(next_moment(load(state(args, 1, tile.parameter, at)), sums[j] / static_cast<double>(m.rows)),
            new_state(args, 1, tile.parameter, at));
    }
  }

  void set_means(const KernelArgs& args) {
    for (size_t i = 0; i < matrices_.size(); ++i) {
      const Matrices& m = matrices_[i];
      for (int64_t k = 0; m.factored && k < m.count; ++k) {
        double total = 0;
        for (int64_t r = 0; r < m.rows; ++r) total += load(new_state(args, 0, i, k * m.rows + r));
        means_[m.first_mean + static_cast<size_t>(k)] = total / static_cast<double>(m.rows);
      }
    }
  }

  FactoredRow factored(const KernelArgs& args, const Row& row) const {
    const Matrices& m = matrices_[row.parameter];
    FactoredRow result{gradient(args, row.parameter, row.begin), new_state(args, 0, row.parameter, 0),
                       numbers_.gradient_factor, 1, m.columns};
    if (m.factored) {
      const int64_t matrix = row.local / m.rows;
      result.column = new_state(args, 1, row.parameter, matrix * m.columns);
      result.scale = load(new_state(args, 0, row.parameter, row.local)) /
                     means_[m.first_mean + static_cast<size_t>(matrix)];
    }
    return result;
  }

  void set_rates(const SquareSums* sums, double t) {
    for (size_t i = 0; i < matrices_.size(); ++i) {
      const Matrices& m = matrices_[i];
      SquareSums total;
      for (int64_t r = m.first_row; r < m.first_row + m.count * m.rows; ++r) {
        total.parameter += sums[r].parameter;
        total.other += sums[r].other;
      }
      const double elems = static_cast<double>(m.count * m.rows * m.columns);
      const double rms = std::sqrt(total.parameter / elems);
      const double move_rms = std::sqrt(total.other / elems);
      const double rate = std::min(numbers_.rate * parameters_.rate_factor(i), 1 / std::sqrt(t));
      const double excess = move_rms / threshold_;
      rates_[i] = rate * std::max(epsilon_2_, rms) / (excess < 1 ? 1 : excess);  // NaN stays
    }
  }

  double decay_, epsilon_1_, epsilon_2_, threshold_;
  double ema_decay_ = 0;
  std::vector<double> rates_;
  bool wide_;
  int64_t rows_ = 0;
  std::vector<Matrices> matrices_;
  std::vector<Tile> tiles_;
  std::vector<double> means_;  // of each matrix's row moments
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_lamb_update(const KernelRequest& request) {
  return std::make_unique<LambKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_adafactor_update(const KernelRequest& request) {
  return std::make_unique<AdafactorKernel>(request);
}

}  // namespace isochron::ops
