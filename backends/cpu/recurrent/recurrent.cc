// The kernels of recurrent layers. Weights are packed once per run, and the rows of the batch are distributed
// over threads. Each thread takes its rows through the whole sequence without waiting for the others.
#include "isochron/backends/cpu/recurrent/recurrent.h"

#include <algorithm>
#include <cstring>

#include "isochron/backends/cpu/common/choose_kernel.h"
#include "isochron/backends/cpu/indexing/indexed.h"
#include "isochron/backends/cpu/recurrent/recurrent_blocks.h"
#include "isochron/core/base/checked.h"
#include "isochron/core/process/threads.h"
#include "isochron/graph/ir/half_storage.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;
using graph::KernelRequest;

constexpr double kThreadedProducts = 64.0 * 64 * 64;  // multiply-adds from which all threads are used
constexpr int64_t kChunkRows = 192;                   // rows of slot gradients gathered for one product
constexpr int64_t kMinTileRows = 4;                   // rows per thread; fewer are faster with vectors

size_t aligned(int64_t elems, size_t size) {
  return align_up<size_t>(checked_mul<size_t>(static_cast<size_t>(elems), size), 64);
}

/// Divides a workspace into aligned parts.
class Parts {
 public:
  size_t add(size_t bytes) {
    const size_t at = bytes_;
    bytes_ = checked_add<size_t>(bytes_, align_up<size_t>(bytes, 64));
    return at;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

/// What both directions share: shape, packing, threads, rows. Tensors with a time axis are stored as E,
/// operands of products as O.
template <typename E, typename O>
class RecurrentKernel : public graph::Kernel {
 protected:
  using T = ComputeType<E>;
  explicit RecurrentKernel(const KernelRequest& request)
      : layout_(request.op, request.attributes),
        name_(request.op.name),
        functions_(recurrent_functions<E, O>(layout_.lstm ? RecurrentCell::kLstm : RecurrentCell::kGru)) {
    const Shape& x = request.inputs[layout_.x()].shape;
    shape_ = {x[0],
              x[1],
              x[2],
              request.inputs[layout_.recurrent_kernel()].shape[0],
              functions_.lanes,
              request.attributes.get<bool>("reverse")};
    const double products = static_cast<double>(shape_.batch * shape_.steps) *
                            static_cast<double>(shape_.depth() * kRecurrentSlots * shape_.units);
    threads_ = products >= kThreadedProducts && shape_.batch > 1 ? request.threads : 1;
    shape_.tiles = kTogether<O> > 1 && multiplies_tiles() && shape_.batch >= kMinTileRows * threads_;
    if (layout_.lengths) {
      lengths_dtype_ = request.inputs[layout_.lengths_input()].dtype;
      lengths_at_ = parts_.add(aligned(shape_.batch, sizeof(int64_t)));
    }
  }

  size_t workspace_bytes() const override { return parts_.bytes(); }

  int64_t weight_elems() const {
    return shape_.groups() * shape_.whole_rows(shape_.depth()) * shape_.slot_columns();
  }
  int64_t bias_elems() const { return shape_.groups() * shape_.slot_columns(); }
  /// The maximum number of rows per block.
  int64_t block_rows() const {
    return std::min(shape_.block_rows(), (shape_.batch + threads_ - 1) / threads_);
  }

  T* part(const KernelArgs& args, size_t at) const { return reinterpret_cast<T*>(args.workspace + at); }
  static const T* input(const KernelArgs& args, size_t index) {
    return reinterpret_cast<const T*>(args.inputs[index]);
  }
  static const E* sequence_input(const KernelArgs& args, size_t index) {
    return reinterpret_cast<const E*>(args.inputs[index]);
  }
  static E* sequence_output(const KernelArgs& args, size_t index) {
    return reinterpret_cast<E*>(args.outputs[index]);
  }

  /// The checked lengths as i64; null if there are none. Throws kOutOfRange.
  const int64_t* read_lengths(const KernelArgs& args) const {
    if (!layout_.lengths) return nullptr;
    const std::byte* from = args.inputs[layout_.lengths_input()];
    check_indices(from, lengths_dtype_, shape_.batch, shape_.steps + 1, name_, "length");
    int64_t* to = reinterpret_cast<int64_t*>(args.workspace + lengths_at_);
    for (int64_t n = 0; n < shape_.batch; ++n) {
      to[n] = lengths_dtype_ == DType::kI64 ? reinterpret_cast<const int64_t*>(from)[n]
                                            : reinterpret_cast<const int32_t*>(from)[n];
    }
    return to;
  }

  RecurrentWeights<const T> weights(const KernelArgs& args) const {
    return {input(args, layout_.kernel()), input(args, layout_.recurrent_kernel()),
            input(args, layout_.bias())};
  }

  /// Calls `body(thread, begin, end)` for blocks of rows, which are distributed over the threads.
  template <typename Body>
  void for_blocks(Body body) const {
    parallel_for(threads_, threads_, [&](int64_t first, int64_t last) {
      for (int64_t thread = first; thread < last; ++thread) {
        const int64_t begin = shape_.batch * thread / threads_;
        const int64_t rows = shape_.batch * (thread + 1) / threads_ - begin;
        const int64_t blocks = (rows + shape_.block_rows() - 1) / shape_.block_rows();
        for (int64_t b = 0; b < blocks; ++b) {
          body(thread, begin + rows * b / blocks, begin + rows * (b + 1) / blocks);
        }
      }
    });
  }

  RecurrentLayout layout_;
  std::string name_;
  RecurrentFunctions<E, O> functions_;
  RecurrentShape shape_;
  int64_t threads_ = 1;
  Parts parts_;
  DType lengths_dtype_ = DType::kI64;
  size_t lengths_at_ = 0;
};

template <typename E, typename O>
class RecurrentForwardKernel final : public RecurrentKernel<E, O> {
  using Base = RecurrentKernel<E, O>;
  using T = ComputeType<E>;
  using Base::layout_;
  using Base::shape_;

 public:
  explicit RecurrentForwardKernel(const KernelRequest& request) : Base(request) {
    weights_at_ = this->parts_.add(aligned(group_elems() * shape_.groups(), sizeof(O)));
    bias_at_ = this->parts_.add(aligned(this->bias_elems(), sizeof(T)));
    scratch_bytes_ = align_up<size_t>(forward_scratch<E, O>(shape_, this->block_rows()), 64);
    scratch_at_ = this->parts_.add(checked_mul(scratch_bytes_, static_cast<size_t>(this->threads_)));
  }

  void run(const KernelArgs& args) override {
    RecurrentForward<E, O> call{};
    call.shape = shape_;
    call.lengths = this->read_lengths(args);
    call.x = this->sequence_input(args, layout_.x());
    O* const weights = reinterpret_cast<O*>(args.workspace + weights_at_);
    T* const bias = this->part(args, bias_at_);
    this->functions_.pack(shape_, this->weights(args), weights, bias);
    call.weights = weights;
    call.bias = bias;
    if (layout_.initial_state) {
      call.h0 = this->input(args, layout_.initial_hidden());
      if (layout_.lstm) call.c0 = this->input(args, layout_.initial_cell());
    }
    const auto output = [&](size_t index) { return reinterpret_cast<T*>(args.outputs[index]); };
    call.sequence = this->sequence_output(args, RecurrentLayout::kSequence);
    call.h = output(RecurrentLayout::kHidden);
    call.gates = this->sequence_output(args, layout_.gates());
    if (layout_.lstm) {
      call.c = output(layout_.cell());
      call.cells = this->sequence_output(args, layout_.cells());
    }
    this->for_blocks([&](int64_t thread, int64_t begin, int64_t end) {
      this->functions_.forward(call, begin, end,
                               args.workspace + scratch_at_ + static_cast<size_t>(thread) * scratch_bytes_);
    });
  }

 private:
  int64_t group_elems() const {
    return shape_.template whole_depth<O>(shape_.depth()) * shape_.slot_columns();
  }

  size_t weights_at_ = 0;
  size_t bias_at_ = 0;
  size_t scratch_at_ = 0;
  size_t scratch_bytes_ = 0;
};

template <typename E, typename O>
class RecurrentGradientKernel final : public RecurrentKernel<E, O> {
  using Base = RecurrentKernel<E, O>;
  using T = ComputeType<E>;
  using Base::layout_;
  using Base::shape_;

 public:
  explicit RecurrentGradientKernel(const KernelRequest& request) : Base(request) {
    const int64_t rows = std::max<int64_t>(this->block_rows(), 1);
    chunk_steps_ = std::clamp<int64_t>(kChunkRows / rows, 1, std::max<int64_t>(shape_.steps, 1));
    const int64_t columns = shape_.padded_features() + shape_.padded_units();
    transposed_at_ = this->parts_.add(aligned(this->bias_elems() * columns, sizeof(O)));
    scratch_bytes_ = align_up<size_t>(backward_scratch<E, O>(shape_, rows, chunk_steps_), 64);
    sums_bytes_ = aligned(this->weight_elems() + this->bias_elems(), sizeof(T));
    scratch_at_ = this->parts_.add(checked_mul(scratch_bytes_, static_cast<size_t>(this->threads_)));
    sums_at_ = this->parts_.add(checked_mul(sums_bytes_, static_cast<size_t>(this->threads_)));
  }

  void run(const KernelArgs& args) override {
    const RecurrentBackward<E, O> call = read(args);
    const bool weights = args.outputs[1] || args.outputs[2] || args.outputs[3];
    if (weights) {
      for (int64_t i = 0; i < this->threads_; ++i) {
        std::memset(args.workspace + sums_at_ + static_cast<size_t>(i) * sums_bytes_, 0, sums_bytes_);
      }
    }
    this->for_blocks([&](int64_t thread, int64_t begin, int64_t end) {
      T* sums = weights ? sums_of(args, thread) : nullptr;
      this->functions_.backward(call, begin, end, sums, weights ? sums + this->weight_elems() : nullptr,
                                args.workspace + scratch_at_ + static_cast<size_t>(thread) * scratch_bytes_);
    });
    if (weights) {
      const auto output = [&](size_t index) { return reinterpret_cast<T*>(args.outputs[index]); };
      this->functions_.unpack_sums(shape_, sums_of(args, 0), this->threads_,
                                   static_cast<int64_t>(sums_bytes_ / sizeof(T)),
                                   {output(1), output(2), output(3)});
    }
  }

 private:
  T* sums_of(const KernelArgs& args, int64_t thread) const {
    return this->part(args, sums_at_ + static_cast<size_t>(thread) * sums_bytes_);
  }

  RecurrentBackward<E, O> read(const KernelArgs& args) const {
    RecurrentBackward<E, O> call{};
    call.shape = shape_;
    call.chunk_steps = chunk_steps_;
    call.lengths = this->read_lengths(args);
    call.x = this->sequence_input(args, layout_.x());
    O* const transposed = reinterpret_cast<O*>(args.workspace + transposed_at_);
    RecurrentWeights<const T> weights = this->weights(args);
    if (!args.outputs[0]) weights.kernel = nullptr;
    this->functions_.pack_transposed(shape_, weights, transposed);
    call.transposed = transposed;
    const auto output = [&](size_t index) { return reinterpret_cast<T*>(args.outputs[index]); };
    call.d_x = this->sequence_output(args, 0);
    if (layout_.initial_state) {
      call.h0 = this->input(args, layout_.initial_hidden());
      call.d_h0 = output(4);
      if (layout_.lstm) {
        call.c0 = this->input(args, layout_.initial_cell());
        call.d_c0 = output(5);
      }
    }
    call.sequence = this->sequence_input(args, layout_.saved_sequence());
    call.gates = this->sequence_input(args, layout_.saved_gates());
    const auto seed = [&](size_t of) -> const T* {
      const std::optional<size_t> index = layout_.seed(of);
      return index ? this->input(args, *index) : nullptr;
    };
    const auto sequence_seed = [&](size_t of) { return reinterpret_cast<const E*>(seed(of)); };
    call.d_sequence = sequence_seed(RecurrentLayout::kSequence);
    call.d_h = seed(RecurrentLayout::kHidden);
    call.d_gates = sequence_seed(layout_.gates());
    if (layout_.lstm) {
      call.cells = this->sequence_input(args, layout_.saved_cells());
      call.d_c = seed(layout_.cell());
      call.d_cells = sequence_seed(layout_.cells());
    }
    return call;
  }

  int64_t chunk_steps_ = 1;
  size_t transposed_at_ = 0;
  size_t scratch_at_ = 0;
  size_t scratch_bytes_ = 0;
  size_t sums_at_ = 0;
  size_t sums_bytes_ = 0;
};

/// A kernel with products of bf16 pairs, or of f32 if that is faster: Intel's vector instructions multiply
/// bf16 at half the rate of f32.
template <template <typename, typename> class K>
std::unique_ptr<graph::Kernel> prepare_bf16(const KernelRequest& request) {
  constexpr std::string_view kWays[] = {"pairs", "f32"};
  return choose_kernel(request, request.threads, kWays, [&](size_t way) -> std::unique_ptr<graph::Kernel> {
    if (way == 1) return std::make_unique<K<bfloat16, float>>(request);
    if (!recurrent_multiplies_pairs()) return nullptr;
    return std::make_unique<K<bfloat16, bfloat16>>(request);
  });
}

template <template <typename, typename> class K>
std::unique_ptr<graph::Kernel> prepare_floating(const KernelRequest& request) {
  switch (request.inputs[RecurrentLayout(request.op, request.attributes).x()].dtype) {
    case DType::kF64:
      return std::make_unique<K<double, double>>(request);
    case DType::kF16:
      return std::make_unique<K<float16, float>>(request);
    case DType::kBF16:
      return prepare_bf16<K>(request);
    default:
      return std::make_unique<K<float, float>>(request);
  }
}

/// A kernel that reads and writes the tensors with a time axis directly in 16 bits. Null unless these tensors
/// all have the same dtype.
std::unique_ptr<graph::Kernel> through_f32(const KernelRequest& request, graph::KernelFactory make) {
  const RecurrentLayout layout(request.op, request.attributes);
  const DType dtype = request.inputs[layout.x()].dtype;
  uint32_t inputs = 0;
  uint32_t outputs = 0;
  bool uniform = is_half(dtype);
  const auto add = [&](std::span<const TensorSpec> specs, size_t index, uint32_t& kept, bool read) {
    if (specs[index].shape.rank() != 3 || !read) return;  // (N, T, ...), (T, N, ...)
    uniform = uniform && specs[index].dtype == dtype && index < 32;
    kept |= 1U << index;
  };
  for (size_t i = 0; i < request.inputs.size(); ++i) add(request.inputs, i, inputs, true);
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    add(request.outputs, i, outputs, request.unread.empty() || !request.unread[i]);
  }
  return uniform ? graph::prepare_through_f32(request, inputs, outputs, make) : nullptr;
}

template <template <typename, typename> class K>
std::unique_ptr<graph::Kernel> prepare(const KernelRequest& request) {
  return graph::has_half_storage(request) ? through_f32(request, prepare_floating<K>)
                                          : prepare_floating<K>(request);
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_recurrent(const KernelRequest& request) {
  return prepare<RecurrentForwardKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_recurrent_gradient(const KernelRequest& request) {
  return prepare<RecurrentGradientKernel>(request);
}

}  // namespace isochron::ops
