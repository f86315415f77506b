// LSTM, GRU and their gradients on a device. The input's products for all steps are computed at once; then
// all steps run in one launch. If the recurrent kernel doesn't fit in a block's shared memory, each step
// consists of the state's product and one launch for the elementwise part. If mixed precision stores the
// tensors with a time axis in 16 bits, the operands of products are stored in 16 bits too; states and sums
// are f32.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "isochron/backends/cuda/common/block_sizes.h"
#include "isochron/backends/cuda/common/element_source.h"
#include "isochron/backends/cuda/common/inner_kernel.h"
#include "isochron/backends/cuda/common/launches.h"
#include "isochron/backends/cuda/common/texts.h"
#include "isochron/backends/cuda/factories.h"
#include "isochron/backends/cuda/recurrent/recurrent_step.h"
#include "isochron/core/base/checked.h"
#include "isochron/core/base/error.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/ops/recurrent/recurrent_layout.h"
#include "isochron/ops/rows/registry.h"

namespace isochron::ops {
namespace {

using element::RecurrentGradientStep;
using element::RecurrentLaunch;
using element::RecurrentStep;
using graph::Attributes;
using graph::KernelArgs;
using graph::KernelRequest;

/// What the forward op and its gradient share.
class RecurrentKernel : public graph::Kernel {
 public:
  size_t workspace_bytes() const override { return checked_add(bytes_, inner_bytes_); }

 protected:
  /// The initial and the final states, or their gradients. Null means that the initial state is 0, or that
  /// the final state is unread.
  struct Ends {
    std::byte *from_h = nullptr, *from_c = nullptr, *to_h = nullptr, *to_c = nullptr;
  };
  struct EndDTypes {
    DType from_h, from_c, to_h, to_c;
  };
  RecurrentKernel(const KernelRequest& request, const RecurrentLayout& layout, const EndDTypes& ends)
      : module_(*request.module),
        layout_(layout),
        reverse_(request.attributes.get<bool>("reverse")),
        stored_(request.inputs[layout_.x()].dtype),
        dtype_(computed_dtype(request, layout_)),
        rows_(request.inputs[layout_.x()].shape[0]),
        steps_(request.inputs[layout_.x()].shape[1]),
        width_(request.inputs[layout_.x()].shape[2]),
        units_(request.inputs[layout_.recurrent_kernel()].shape[0]),
        sums_(request.inputs[layout_.recurrent_kernel()].shape[1]),
        rows_of_block_(rows_of_block()),
        in_one_launch_(units_ > 0 &&
                       block_bytes() <= static_cast<double>(module_.device().shared_bytes_per_block)) {
    for (const int64_t count : {rows_, steps_, sums_})
      require(count < int64_t{1} << 32, ErrorCode::kUnsupported, request.op.name,
              "{} has more rows, steps or units than its kernel counts", request.inputs[layout_.x()].str());
    module_.add_shared(element_prelude());
    module_.add_shared(std::string(backends::texts::kRecurrentStep));
    module_.add_shared(std::string(backends::texts::kRecurrent));
    const std::string_view step = layout_.gradient ? "RecurrentGradientStep" : "RecurrentStep";
    const std::string_view call = layout_.gradient ? "recurrent_gradient" : "recurrent";
    const std::string_view other =  // the bias, or the initial state
        storage_type(!layout_.gradient       ? request.inputs[layout_.bias()].dtype
                     : layout_.initial_state ? request.inputs[layout_.initial_hidden()].dtype
                                             : dtype_);
    const std::string_view lengths =
        storage_type(layout_.lengths ? request.inputs[layout_.lengths_input()].dtype : DType::kI64);
    const std::string shape = fmt::format("{{{}u, {}u, {}u}}", rows_, steps_, units_);
    size_t shared_bytes = 0;
    std::string text;
    if (in_one_launch_) {
      shared_bytes = static_cast<size_t>(block_bytes());
      text = fmt::format(
          "extern \"C\" __global__ void {}({} step, RecurrentLaunch launch) {{  // threads meet\n"
          "  using Block = RecurrentBlock<{}, {}, {}, {}, {}, {}>;\n"
          "  static_assert(sizeof(Block) <= {}, \"\");\n  ISOCHRON_SHARED_MEMORY(memory, {});\n"
          "  {}<{}, {}, {}, {}, {}, {}, {}>({}, step, launch, *reinterpret_cast<Block*>(memory));\n}}\n",
          cuda::KernelModule::kNamePlace, step, layout_.lstm, layout_.gradient, storage_type(dtype_),
          storage_type(stored_), units_, rows_of_block_, shared_bytes, shared_bytes, call, layout_.lstm,
          other, lengths, storage_type(ends.from_h), storage_type(ends.from_c), storage_type(ends.to_h),
          storage_type(ends.to_c), shape);
      size_ =
          row_of_blocks(request, (rows_ + rows_of_block_ - 1) / rows_of_block_, element::kRecurrentThreads);
      size_.shared_bytes = static_cast<unsigned>(shared_bytes);
    } else {
      constexpr unsigned kThreads = 256;
      text = fmt::format(
          "extern \"C\" __global__ void {}({} step) {{\n"
          "  const unsigned long long i = blockIdx.x * {}ull + threadIdx.x;\n"
          "  if (i < {}ull) {}_step<{}, {}, {}, {}>(step, RecurrentAt<{}>({}, 0, i));\n}}\n",
          cuda::KernelModule::kNamePlace, step, kThreads, rows_ * units_, call, layout_.lstm,
          storage_type(dtype_), storage_type(stored_), other, lengths, shape);
      size_ = row_of_blocks(request, (rows_ * units_ + kThreads - 1) / kThreads, kThreads);
    }
    function_ = module_.add_function(module_.add_named(request.op.name, text), shared_bytes);
  }

  static DType computed_dtype(const KernelRequest& request, const RecurrentLayout& layout) {
    const DType stored = request.inputs[layout.x()].dtype;
    return is_half(stored) ? DType::kF32 : stored;
  }
  TensorSpec matrix(int64_t rows, int64_t columns) const { return {dtype_, {rows, columns}}; }
  TensorSpec factor(int64_t rows, int64_t columns) const { return {stored_, {rows, columns}}; }
  /// Creates a matrix product and reserves its workspace.
  InnerKernel product(const KernelRequest& request, const TensorSpec& a, bool transpose_a,
                      const TensorSpec& b, bool transpose_b, const TensorSpec& c) {
    return provided(InnerKernel(request, "matmul", {a, b}, c,
                                {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}}));
  }
  /// How to copy a state whose source may have another dtype.
  struct StateCopy {
    size_t bytes = 0;                 // of the destination
    std::optional<InnerKernel> cast;  // none: a plain copy
  };
  StateCopy state_copy(const KernelRequest& request, DType from, DType to) {
    const TensorSpec source{from, {rows_, units_}}, result{to, source.shape};
    StateCopy copy{result.size_bytes(), {}};
    if (from != to) copy.cast = provided(InnerKernel(request, "cast", {source}, result, {{"dtype", to}}));
    return copy;
  }
  InnerKernel provided(InnerKernel kernel) {
    inner_bytes_ = std::max(inner_bytes_, kernel.workspace_bytes());
    return kernel;
  }
  /// Reserves workspace for a tensor and returns its offset.
  size_t reserve(const TensorSpec& spec) {
    const size_t offset = bytes_;
    const size_t bytes = spec.size_bytes();
    bytes_ = checked_add(bytes_, align_up(bytes, cuda::kDeviceAlignment));
    return offset;
  }

  bool empty() const { return rows_ == 0; }
  int64_t time(int64_t step) const { return reverse_ ? steps_ - 1 - step : step; }
  std::byte* inner_workspace(const KernelArgs& args) const { return args.workspace + bytes_; }
  /// Sets a state to `from`, or to 0 if `from` is null.
  void set_state(std::byte* state, std::byte* from, StateCopy& copy, const KernelArgs& args) const {
    if (from == nullptr) {
      module_.context().fill(reinterpret_cast<uintptr_t>(state), 0, copy.bytes, args.stream);
    } else if (copy.cast) {
      copy.cast->run({from, nullptr}, state, inner_workspace(args), args.stream);
    } else {
      cuda::copy_within(module_.context(), state, from, copy.bytes, args.stream);
    }
  }
  const std::byte* lengths(const KernelArgs& args) const {
    return layout_.lengths ? args.inputs[layout_.lengths_input()] : nullptr;
  }
  template <typename Step>
  void launch(Step& step, cuda::Stream stream) const {
    void* const arguments[] = {&step};
    module_.launch(function_, size_, arguments, stream);
  }
  /// Launches all steps at once.
  template <typename Step>
  void launch(Step& step, const Ends& ends, const KernelArgs& args) const {
    RecurrentLaunch all{
        args.inputs[layout_.recurrent_kernel()], ends.from_h, ends.from_c, ends.to_h, ends.to_c, reverse_};
    void* const arguments[] = {&step, &all};
    module_.launch(function_, size_, arguments, args.stream);
  }

  cuda::KernelModule& module_;
  const RecurrentLayout layout_;
  const bool reverse_;
  const DType stored_, dtype_;  // dtype of tensors with a time axis and operands; of computations
  const int64_t rows_, steps_, width_, units_, sums_;
  const int64_t rows_of_block_;
  const bool in_one_launch_;

 private:
  /// The number of rows per block: enough for one block per multiprocessor, but few enough that a block's
  /// steps are short.
  int64_t rows_of_block() const {
    const int64_t blocks = std::max(module_.device().multiprocessors, 1);
    return std::clamp<int64_t>((rows_ + blocks - 1) / blocks, 1, 8);
  }
  /// At least the size of a RecurrentBlock. It is a double because it may be huge.
  double block_bytes() const {
    const auto units = static_cast<double>(units_), sums = static_cast<double>(sums_);
    const double outputs = layout_.gradient ? units : sums, summed = layout_.gradient ? sums : units;
    const double products = std::max<double>(outputs, element::kRecurrentThreads);
    const auto rows = static_cast<double>(rows_of_block_);
    return (products + 2 * units) * rows * static_cast<double>(dtype_size(dtype_)) +
           (summed * rows + units * (sums + 1)) * static_cast<double>(dtype_size(stored_)) + 64;
  }

  size_t function_ = 0;
  cuda::LaunchSize size_;
  size_t bytes_ = 0, inner_bytes_ = 0;
};

class ForwardKernel final : public RecurrentKernel {
 public:
  explicit ForwardKernel(const KernelRequest& request)
      : ForwardKernel(request, {request.op, request.attributes}) {}

  void run(const KernelArgs& args) override {
    if (empty()) return;
    RecurrentStep step{};
    std::byte* const from_x = args.workspace + all_from_x_;
    step.from_x = from_x;
    step.bias = args.inputs[layout_.bias()];
    step.lengths = lengths(args);
    step.sequence = args.outputs[RecurrentLayout::kSequence];
    step.cells = layout_.lstm ? args.outputs[layout_.cells()] : nullptr;
    step.gates = args.outputs[layout_.gates()];
    from_x_.run({args.inputs[layout_.x()], args.inputs[layout_.kernel()]}, from_x, inner_workspace(args),
                args.stream);
    Ends states;
    if (layout_.initial_state) states.from_h = args.inputs[layout_.initial_hidden()];
    if (layout_.initial_state && layout_.lstm) states.from_c = args.inputs[layout_.initial_cell()];
    states.to_h = args.outputs[RecurrentLayout::kHidden];
    if (layout_.lstm) states.to_c = args.outputs[layout_.cell()];
    if (one_by_one_) {
      go_step_by_step(args, step, states);
    } else {
      launch(step, states, args);
    }
  }

 private:
  /// What is needed to run the steps one by one.
  struct OneByOne {
    InnerKernel product;
    size_t from_h, h, c, h_factor;
    StateCopy to_factor, to_h, to_c = {}, from_h_state, from_c_state = {};
  };

  ForwardKernel(const KernelRequest& request, const RecurrentLayout& layout)
      : RecurrentKernel(request, layout, ends_of(request, layout)),
        from_x_(product(request, factor(rows_ * steps_, width_), false, factor(width_, sums_), false,
                        matrix(rows_ * steps_, sums_))),
        all_from_x_(reserve(matrix(rows_ * steps_, sums_))) {
    if (in_one_launch_) return;
    const EndDTypes ends = ends_of(request, layout);
    InnerKernel by_kernel =
        product(request, factor(rows_, units_), false, factor(units_, sums_), false, matrix(rows_, sums_));
    const size_t from_h = reserve(matrix(rows_, sums_)), h = reserve(matrix(rows_, units_));
    one_by_one_.emplace(OneByOne{.product = std::move(by_kernel),
                                 .from_h = from_h,
                                 .h = h,
                                 .c = reserve(matrix(rows_, units_)),
                                 .h_factor = stored_ == dtype_ ? h : reserve(factor(rows_, units_)),
                                 .to_factor = state_copy(request, dtype_, stored_),
                                 .to_h = state_copy(request, ends.from_h, dtype_),
                                 .from_h_state = state_copy(request, dtype_, ends.to_h)});
    if (!layout_.lstm) return;
    one_by_one_->to_c = state_copy(request, ends.from_c, dtype_);
    one_by_one_->from_c_state = state_copy(request, dtype_, ends.to_c);
  }

  static EndDTypes ends_of(const KernelRequest& request, const RecurrentLayout& layout) {
    const DType dtype = computed_dtype(request, layout);
    EndDTypes ends{dtype, dtype, request.outputs[RecurrentLayout::kHidden].dtype, dtype};
    if (layout.initial_state) ends.from_h = request.inputs[layout.initial_hidden()].dtype;
    if (!layout.lstm) return ends;
    if (layout.initial_state) ends.from_c = request.inputs[layout.initial_cell()].dtype;
    ends.to_c = request.outputs[layout.cell()].dtype;
    return ends;
  }

  void go_step_by_step(const KernelArgs& args, RecurrentStep& step, const Ends& states) {
    OneByOne& one = *one_by_one_;
    std::byte *const from_h = args.workspace + one.from_h, *const h = args.workspace + one.h;
    std::byte *const c = args.workspace + one.c, *const h_factor = args.workspace + one.h_factor;
    step.product = from_h;
    step.h = h;
    step.c = c;
    step.h_factor = h_factor == h ? nullptr : h_factor;
    set_state(h, states.from_h, one.to_h, args);
    if (step.h_factor != nullptr) set_state(h_factor, h, one.to_factor, args);
    if (layout_.lstm) set_state(c, states.from_c, one.to_c, args);
    for (int64_t s = 0; s < steps_; ++s) {
      one.product.run({h_factor, args.inputs[layout_.recurrent_kernel()]}, from_h, inner_workspace(args),
                      args.stream);
      step.time = time(s);
      launch(step, args.stream);
    }
    if (states.to_h != nullptr) set_state(states.to_h, h, one.from_h_state, args);
    if (states.to_c != nullptr) set_state(states.to_c, c, one.from_c_state, args);
  }

  InnerKernel from_x_;
  const size_t all_from_x_;
  std::optional<OneByOne> one_by_one_;
};

class GradientKernel final : public RecurrentKernel {
 public:
  explicit GradientKernel(const KernelRequest& request)
      : GradientKernel(request, {request.op, request.attributes}) {}

  void run(const KernelArgs& args) override {
    const auto seed = [&](size_t output) -> std::byte* {
      const std::optional<size_t> found = layout_.seed(output);
      return found ? args.inputs[*found] : nullptr;
    };
    const auto at = [&](size_t offset) { return args.workspace + offset; };
    RecurrentGradientStep step{};
    step.sequence = args.inputs[layout_.saved_sequence()];
    step.gates = args.inputs[layout_.saved_gates()];
    step.lengths = lengths(args);
    step.of_sequence = seed(RecurrentLayout::kSequence);
    step.of_gates = seed(layout_.gates());
    if (layout_.initial_state) step.first_h = args.inputs[layout_.initial_hidden()];
    if (layout_.lstm) {
      step.cells = args.inputs[layout_.saved_cells()];
      step.of_cells = seed(layout_.cells());
      if (layout_.initial_state) step.first_c = args.inputs[layout_.initial_cell()];
    }
    step.all_from_x = at(all_from_x_);
    step.all_from_h = layout_.lstm ? nullptr : at(all_from_h_);
    step.before = at(before_);
    Ends states{.from_h = seed(RecurrentLayout::kHidden)};
    if (layout_.lstm) states.from_c = seed(layout_.cell());
    if (layout_.initial_state) states.to_h = result_of(args, layout_.initial_hidden());
    if (layout_.initial_state && layout_.lstm) states.to_c = result_of(args, layout_.initial_cell());
    if (!empty() && one_by_one_) {
      go_step_by_step(args, step, states);
    } else if (!empty()) {
      launch(step, states, args);
    }
    give(args);
  }

 private:
  /// What is needed to run the steps one by one.
  struct OneByOne {
    InnerKernel product, add;
    size_t of_sums, from_after, dh, dc;
    StateCopy to_dh, to_dc, from_dh, from_dc;
  };

  GradientKernel(const KernelRequest& request, const RecurrentLayout& layout)
      : RecurrentKernel(request, layout, ends_of(request, layout)),
        to_x_(product(request, factor(rows_ * steps_, sums_), false, factor(width_, sums_), true,
                      result(request, layout_.x(), {rows_ * steps_, width_}))),
        to_kernel_(product(request, factor(rows_ * steps_, width_), true, factor(rows_ * steps_, sums_),
                           false, result(request, layout_.kernel(), {width_, sums_}))),
        to_recurrent_kernel_(product(request, factor(rows_ * steps_, units_), true,
                                     factor(rows_ * steps_, sums_), false,
                                     result(request, layout_.recurrent_kernel(), {units_, sums_}))),
        to_bias_(provided(row_sums(request))),
        all_from_x_(reserve(factor(rows_ * steps_, sums_))),
        all_from_h_(layout_.lstm ? all_from_x_ : reserve(factor(rows_ * steps_, sums_))),
        before_(reserve(factor(rows_ * steps_, units_))),
        bias_bytes_(result(request, layout_.bias(), {sums_}).size_bytes()) {
    if (in_one_launch_) return;
    const EndDTypes ends = ends_of(request, layout);
    const TensorSpec state = matrix(rows_, units_);
    one_by_one_.emplace(
        OneByOne{.product = product(request, factor(rows_, sums_), false, factor(units_, sums_), true, state),
                 .add = provided(InnerKernel(request, "add", {state, state}, state, {})),
                 .of_sums = reserve(factor(rows_, sums_)),
                 .from_after = reserve(state),
                 .dh = reserve(state),
                 .dc = reserve(state),
                 .to_dh = state_copy(request, ends.from_h, dtype_),
                 .to_dc = state_copy(request, ends.from_c, dtype_),
                 .from_dh = state_copy(request, dtype_, ends.to_h),
                 .from_dc = state_copy(request, dtype_, ends.to_c)});
  }

  static EndDTypes ends_of(const KernelRequest& request, const RecurrentLayout& layout) {
    const DType dtype = computed_dtype(request, layout);
    const auto of_seed = [&](size_t output) {
      const std::optional<size_t> found = layout.seed(output);
      return found ? request.inputs[*found].dtype : dtype;
    };
    const auto of_result = [&](size_t input) {
      return layout.initial_state ? request.outputs[input - layout.first()].dtype : dtype;
    };
    EndDTypes ends{of_seed(RecurrentLayout::kHidden), dtype, of_result(layout.initial_hidden()), dtype};
    if (!layout.lstm) return ends;
    ends.from_c = of_seed(layout.cell());
    ends.to_c = of_result(layout.initial_cell());
    return ends;
  }

  /// The spec of the gradient of input `input`, as it is stored.
  TensorSpec result(const KernelRequest& request, size_t input, const Shape& shape) const {
    return {request.outputs[input - layout_.first()].dtype, shape};
  }
  std::byte* result_of(const KernelArgs& args, size_t input) const {
    return args.outputs[input - layout_.first()];
  }
  /// Sums over all rows and steps, computed in the dtype of computations.
  InnerKernel row_sums(const KernelRequest& request) const {
    auto kernel = std::make_unique<LaunchKernel>(request);
    kernel->add_row_sums({rows_ * steps_, sums_}, stored_, result(request, layout_.bias(), {}).dtype,
                         {{Slot::kInput, 0}, {Slot::kOutput, 0}});
    return InnerKernel(std::move(kernel));
  }

  void go_step_by_step(const KernelArgs& args, RecurrentGradientStep& step, const Ends& states) {
    OneByOne& one = *one_by_one_;
    std::byte *const dh = args.workspace + one.dh, *const dc = args.workspace + one.dc;
    std::byte *const of_sums = args.workspace + one.of_sums, *const from_after =
                                                                 args.workspace + one.from_after;
    step.dh = dh;
    step.dc = dc;
    step.sums = of_sums;
    set_state(dh, states.from_h, one.to_dh, args);
    if (layout_.lstm) set_state(dc, states.from_c, one.to_dc, args);
    for (int64_t s = steps_ - 1; s >= 0; --s) {
      step.time = time(s);
      step.time_before = s > 0 ? time(s - 1) : -1;
      launch(step, args.stream);
      one.product.run({of_sums, args.inputs[layout_.recurrent_kernel()]}, from_after, inner_workspace(args),
                      args.stream);
      step.product = from_after;
    }
    if (states.to_h != nullptr) {
      if (steps_ > 0) one.add.run({dh, from_after}, dh, inner_workspace(args), args.stream);
      set_state(states.to_h, dh, one.from_dh, args);
    }
    if (states.to_c != nullptr) set_state(states.to_c, dc, one.from_dc, args);
  }

  /// Computes the op's results from the tensors that the steps have written.
  void give(const KernelArgs& args) {
    std::byte *const from_x = args.workspace + all_from_x_, *const from_h = args.workspace + all_from_h_;
    std::byte* const x = args.inputs[layout_.x()];
    const auto run = [&](InnerKernel& kernel, std::byte* a, std::byte* b, std::byte* to) {
      if (to != nullptr) kernel.run({a, b}, to, inner_workspace(args), args.stream);
    };
    run(to_x_, from_x, args.inputs[layout_.kernel()], result_of(args, layout_.x()));
    run(to_kernel_, x, from_x, result_of(args, layout_.kernel()));
    run(to_recurrent_kernel_, args.workspace + before_, from_h, result_of(args, layout_.recurrent_kernel()));
    std::byte* const bias = result_of(args, layout_.bias());
    run(to_bias_, from_x, nullptr, bias);
    if (bias != nullptr && !layout_.lstm) run(to_bias_, from_h, nullptr, bias + bias_bytes_);
  }

  InnerKernel to_x_, to_kernel_, to_recurrent_kernel_, to_bias_;
  const size_t all_from_x_, all_from_h_, before_, bias_bytes_;
  std::optional<OneByOne> one_by_one_;
};

/// Whether the tensors with an axis of time, and the kernels, are all stored in the same 16-bit dtype.
bool is_uniform(const KernelRequest& request) {
  const RecurrentLayout layout(request.op, request.attributes);
  const DType dtype = request.inputs[layout.x()].dtype;
  const auto over_time = [&](const TensorSpec& spec) {
    return spec.shape.rank() != 3 || spec.dtype == dtype;
  };
  bool uniform = is_half(dtype) && request.inputs[layout.kernel()].dtype == dtype &&
                 request.inputs[layout.recurrent_kernel()].dtype == dtype &&
                 std::ranges::all_of(request.inputs, over_time);
  if (layout.lstm && layout.initial_state)  // the step's text needs one dtype for both
    uniform = uniform &&
              request.inputs[layout.initial_cell()].dtype == request.inputs[layout.initial_hidden()].dtype;
  for (size_t i = 0; i < request.outputs.size(); ++i)
    uniform = uniform && ((!request.unread.empty() && request.unread[i]) || over_time(request.outputs[i]));
  return uniform;
}

template <class K>
std::unique_ptr<graph::Kernel> prepare(const KernelRequest& request) {
  return graph::has_half_storage(request) && !is_uniform(request) ? nullptr : std::make_unique<K>(request);
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_recurrent_cuda(const KernelRequest& request) {
  return prepare<ForwardKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_recurrent_gradient_cuda(const KernelRequest& request) {
  return prepare<GradientKernel>(request);
}

}  // namespace isochron::ops
