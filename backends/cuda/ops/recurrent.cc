// LSTM, GRU and their gradients on a device: the input's products at once, then for each step the state's
// product and one launch for all that is element by element. Where mixed precision stores the tensors that
// have an axis of time in 16 bits, factors of products are, and states and sums f32.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "isochron/backends/cuda/element_source.h"
#include "isochron/backends/cuda/factories.h"
#include "isochron/backends/cuda/inner_kernel.h"
#include "isochron/backends/cuda/launches.h"
#include "isochron/backends/cuda/texts.h"
#include "isochron/backends/cuda/texts/recurrent_step.h"
#include "isochron/core/base/checked.h"
#include "isochron/core/base/error.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/ops/recurrent/recurrent_layout.h"
#include "isochron/ops/rows/registry.h"

namespace isochron::ops {
namespace {

using element::RecurrentGradientStep;
using element::RecurrentStep;
using graph::Attributes;
using graph::KernelArgs;
using graph::KernelRequest;

/// What the forward op and its gradient share.
class RecurrentKernel : public graph::Kernel {
 public:
  size_t workspace_bytes() const override { return checked_add(bytes_, inner_bytes_); }

 protected:
  /// Adds `call`, which is told the shape, a step and an element, to the module.
  RecurrentKernel(const KernelRequest& request, const char* call)
      : module_(*request.module),
        layout_(request.op, request.attributes),
        reverse_(request.attributes.get<bool>("reverse")),
        stored_(request.inputs[layout_.x()].dtype),
        dtype_(is_half(stored_) ? DType::kF32 : stored_),
        rows_(request.inputs[layout_.x()].shape[0]),
        steps_(request.inputs[layout_.x()].shape[1]),
        width_(request.inputs[layout_.x()].shape[2]),
        units_(request.inputs[layout_.recurrent_kernel()].shape[0]),
        sums_(request.inputs[layout_.recurrent_kernel()].shape[1]) {
    for (const int64_t count : {rows_, steps_, sums_})
      require(count < int64_t{1} << 32, ErrorCode::kUnsupported, request.op.name,
              "{} has more rows, steps or units than its kernel counts", request.inputs[layout_.x()].str());
    module_.add_shared(element_prelude());
    module_.add_shared(std::string(backends::texts::kRecurrentStep));
    module_.add_shared(std::string(backends::texts::kRecurrent));
    constexpr unsigned kThreads = 256;
    const std::string name = module_.unique_name(request.op.name);
    module_.add(fmt::format(
        "extern \"C\" __global__ void {}({} step) {{\n"
        "  const unsigned long long i = blockIdx.x * {}ull + threadIdx.x;\n"
        "  if (i < {}ull) {}<{}, {}, {}, {}, {}>({{{}u, {}u, {}u}}, step, i);\n}}\n",
        name, layout_.gradient ? "RecurrentGradientStep" : "RecurrentStep", kThreads, rows_ * units_, call,
        layout_.lstm, storage_type(dtype_), storage_type(stored_),
        storage_type(!layout_.gradient       ? request.inputs[layout_.bias()].dtype
                     : layout_.initial_state ? request.inputs[layout_.initial_hidden()].dtype
                                             : dtype_),
        storage_type(layout_.lengths ? request.inputs[layout_.lengths_input()].dtype : DType::kI64), rows_,
        steps_, units_));
    step_ = module_.add_function(name);
    size_ = row_of_blocks(request, (rows_ * units_ + kThreads - 1) / kThreads, kThreads);
  }

  TensorSpec matrix(int64_t rows, int64_t columns) const { return {dtype_, {rows, columns}}; }
  TensorSpec factor(int64_t rows, int64_t columns) const { return {stored_, {rows, columns}}; }
  /// A product of matrices; its workspace is provided for.
  InnerKernel product(const KernelRequest& request, const TensorSpec& a, bool transpose_a,
                      const TensorSpec& b, bool transpose_b, const TensorSpec& c) {
    return provided(InnerKernel(request, "matmul", {a, b}, c,
                                {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}}));
  }
  /// How a state is set to one in this or another dtype.
  struct StateCopy {
    size_t bytes = 0;                 // of what is set
    std::optional<InnerKernel> cast;  // none: as it is
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
  /// Its offset in the workspace.
  size_t reserve(const TensorSpec& spec) {
    const size_t offset = bytes_;
    const size_t bytes = spec.size_bytes();
    bytes_ = checked_add(bytes_, align_up(bytes, cuda::kDeviceAlignment));
    return offset;
  }

  bool empty() const { return rows_ == 0; }
  int64_t time(int64_t step) const { return reverse_ ? steps_ - 1 - step : step; }
  std::byte* inner_workspace(const KernelArgs& args) const { return args.workspace + bytes_; }
  /// Sets a state to `from`, or to 0 where that is null.
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
    module_.launch(step_, size_, arguments, stream);
  }

  cuda::KernelModule& module_;
  const RecurrentLayout layout_;
  const bool reverse_;
  const DType stored_, dtype_;  // of what has an axis of time, and factors; of what is computed
  const int64_t rows_, steps_, width_, units_, sums_;

 private:
  size_t step_ = 0;
  cuda::LaunchSize size_;
  size_t bytes_ = 0, inner_bytes_ = 0;
};

class ForwardKernel final : public RecurrentKernel {
 public:
  explicit ForwardKernel(const KernelRequest& request)
      : RecurrentKernel(request, "recurrent_step"),
        from_x_(product(request, factor(rows_ * steps_, width_), false, factor(width_, sums_), false,
                        matrix(rows_ * steps_, sums_))),
        product_(product(request, factor(rows_, units_), false, factor(units_, sums_), false,
                         matrix(rows_, sums_))),
        all_from_x_(reserve(matrix(rows_ * steps_, sums_))),
        from_h_(reserve(matrix(rows_, sums_))),
        h_(reserve(matrix(rows_, units_))),
        c_(reserve(matrix(rows_, units_))),
        h_factor_(stored_ == dtype_ ? h_ : reserve(factor(rows_, units_))),
        to_factor_(state_copy(request, dtype_, stored_)) {
    const auto initial = [&](size_t input) {
      return state_copy(request, layout_.initial_state ? request.inputs[input].dtype : dtype_, dtype_);
    };
    to_h_ = initial(layout_.initial_hidden());
    from_h_state_ = state_copy(request, dtype_, request.outputs[RecurrentLayout::kHidden].dtype);
    if (!layout_.lstm) return;
    to_c_ = initial(layout_.initial_cell());
    from_c_state_ = state_copy(request, dtype_, request.outputs[layout_.cell()].dtype);
  }

  void run(const KernelArgs& args) override {
    if (empty()) return;
    RecurrentStep step{};
    std::byte *const from_x = args.workspace + all_from_x_, *const from_h = args.workspace + from_h_;
    std::byte *const h = args.workspace + h_, *const c = args.workspace + c_;
    std::byte* const h_factor = args.workspace + h_factor_;
    std::byte* const recurrent_kernel = args.inputs[layout_.recurrent_kernel()];
    step.from_x = from_x;
    step.product = from_h;
    step.bias = args.inputs[layout_.bias()];
    step.lengths = lengths(args);
    step.h = h;
    step.c = c;
    step.h_factor = h_factor == h ? nullptr : h_factor;
    step.sequence = args.outputs[RecurrentLayout::kSequence];
    step.cells = layout_.lstm ? args.outputs[layout_.cells()] : nullptr;
    step.gates = args.outputs[layout_.gates()];
    const auto initial = [&](size_t input) { return layout_.initial_state ? args.inputs[input] : nullptr; };
    set_state(h, initial(layout_.initial_hidden()), to_h_, args);
    if (step.h_factor != nullptr) set_state(h_factor, h, to_factor_, args);
    if (layout_.lstm) set_state(c, initial(layout_.initial_cell()), to_c_, args);
    from_x_.run({args.inputs[layout_.x()], args.inputs[layout_.kernel()]}, from_x, inner_workspace(args),
                args.stream);
    for (int64_t s = 0; s < steps_; ++s) {
      product_.run({h_factor, recurrent_kernel}, from_h, inner_workspace(args), args.stream);
      step.time = time(s);
      launch(step, args.stream);
    }
    if (std::byte* to = args.outputs[RecurrentLayout::kHidden]; to != nullptr)
      set_state(to, h, from_h_state_, args);
    if (!layout_.lstm) return;
    if (std::byte* to = args.outputs[layout_.cell()]; to != nullptr) set_state(to, c, from_c_state_, args);
  }

 private:
  InnerKernel from_x_, product_;
  const size_t all_from_x_, from_h_, h_, c_, h_factor_;
  StateCopy to_factor_, to_h_, to_c_, from_h_state_, from_c_state_;
};

class GradientKernel final : public RecurrentKernel {
 public:
  explicit GradientKernel(const KernelRequest& request)
      : RecurrentKernel(request, "recurrent_gradient_step"),
        product_(product(request, factor(rows_, sums_), false, factor(units_, sums_), true,
                         matrix(rows_, units_))),
        to_x_(product(request, factor(rows_ * steps_, sums_), false, factor(width_, sums_), true,
                      result(request, layout_.x(), {rows_ * steps_, width_}))),
        to_kernel_(product(request, factor(rows_ * steps_, width_), true, factor(rows_ * steps_, sums_),
                           false, result(request, layout_.kernel(), {width_, sums_}))),
        to_recurrent_kernel_(product(request, factor(rows_ * steps_, units_), true,
                                     factor(rows_ * steps_, sums_), false,
                                     result(request, layout_.recurrent_kernel(), {units_, sums_}))),
        to_bias_(provided(row_sums(request))),
        add_(provided(InnerKernel(request, "add", {matrix(rows_, units_), matrix(rows_, units_)},
                                  matrix(rows_, units_), {}))),
        all_from_x_(reserve(factor(rows_ * steps_, sums_))),
        all_from_h_(layout_.lstm ? all_from_x_ : reserve(factor(rows_ * steps_, sums_))),
        before_(reserve(factor(rows_ * steps_, units_))),
        of_sums_(reserve(factor(rows_, sums_))),
        from_after_(reserve(matrix(rows_, units_))),
        dh_(reserve(matrix(rows_, units_))),
        dc_(reserve(matrix(rows_, units_))),
        bias_bytes_(result(request, layout_.bias(), {sums_}).size_bytes()) {
    const auto from_seed = [&](size_t output) {
      const std::optional<size_t> found = layout_.seed(output);
      return state_copy(request, found ? request.inputs[*found].dtype : dtype_, dtype_);
    };
    const auto to_initial = [&](size_t input) {
      return state_copy(request, dtype_, layout_.initial_state ? result(request, input, {}).dtype : dtype_);
    };
    to_dh_ = from_seed(RecurrentLayout::kHidden);
    from_dh_ = to_initial(layout_.initial_hidden());
    if (!layout_.lstm) return;
    to_dc_ = from_seed(layout_.cell());
    from_dc_ = to_initial(layout_.initial_cell());
  }

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
    step.dh = at(dh_);
    step.dc = at(dc_);
    step.sums = at(of_sums_);
    step.all_from_x = at(all_from_x_);
    step.all_from_h = layout_.lstm ? nullptr : at(all_from_h_);
    step.before = at(before_);
    if (!empty())
      go_back(args, step, seed(RecurrentLayout::kHidden), layout_.lstm ? seed(layout_.cell()) : nullptr);
    give(args);
  }

 private:
  /// What the gradient of input `input` is stored as.
  TensorSpec result(const KernelRequest& request, size_t input, const Shape& shape) const {
    return {request.outputs[input - layout_.first()].dtype, shape};
  }
  /// Sums over all rows and steps, added up in the dtype that is computed in.
  InnerKernel row_sums(const KernelRequest& request) const {
    auto kernel = std::make_unique<LaunchKernel>(request);
    kernel->add_row_sums({rows_ * steps_, sums_}, stored_, result(request, layout_.bias(), {}).dtype,
                         {{Slot::kInput, 0}, {Slot::kOutput, 0}});
    return InnerKernel(std::move(kernel));
  }

  void go_back(const KernelArgs& args, RecurrentGradientStep& step, std::byte* of_h, std::byte* of_c) {
    std::byte* const recurrent_kernel = args.inputs[layout_.recurrent_kernel()];
    std::byte* const from_after = args.workspace + from_after_;
    set_state(args.workspace + dh_, of_h, to_dh_, args);
    if (layout_.lstm) set_state(args.workspace + dc_, of_c, to_dc_, args);
    for (int64_t s = steps_ - 1; s >= 0; --s) {
      step.time = time(s);
      step.time_before = s > 0 ? time(s - 1) : -1;
      launch(step, args.stream);
      product_.run({args.workspace + of_sums_, recurrent_kernel}, from_after, inner_workspace(args),
                   args.stream);
      step.product = from_after;
    }
  }

  /// The results, from what the steps have left.
  void give(const KernelArgs& args) {
    std::byte *const from_x = args.workspace + all_from_x_, *const from_h = args.workspace + all_from_h_;
    std::byte* const x = args.inputs[layout_.x()];
    const auto result = [&](size_t input) { return args.outputs[input - layout_.first()]; };
    const auto run = [&](InnerKernel& kernel, std::byte* a, std::byte* b, std::byte* to) {
      if (to != nullptr) kernel.run({a, b}, to, inner_workspace(args), args.stream);
    };
    run(to_x_, from_x, args.inputs[layout_.kernel()], result(layout_.x()));
    run(to_kernel_, x, from_x, result(layout_.kernel()));
    run(to_recurrent_kernel_, args.workspace + before_, from_h, result(layout_.recurrent_kernel()));
    if (std::byte* bias = result(layout_.bias()); bias != nullptr) {
      to_bias_.run({from_x, nullptr}, bias, inner_workspace(args), args.stream);
      if (!layout_.lstm)
        to_bias_.run({from_h, nullptr}, bias + bias_bytes_, inner_workspace(args), args.stream);
    }
    if (!layout_.initial_state || empty()) return;
    std::byte* const dh = args.workspace + dh_;
    if (std::byte* to = result(layout_.initial_hidden()); to != nullptr) {
      if (steps_ > 0) run(add_, dh, args.workspace + from_after_, dh);
      set_state(to, dh, from_dh_, args);
    }
    if (!layout_.lstm) return;
    if (std::byte* to = result(layout_.initial_cell()); to != nullptr)
      set_state(to, args.workspace + dc_, from_dc_, args);
  }

  InnerKernel product_, to_x_, to_kernel_, to_recurrent_kernel_, to_bias_, add_;
  const size_t all_from_x_, all_from_h_, before_, of_sums_, from_after_, dh_, dc_, bias_bytes_;
  StateCopy to_dh_, to_dc_, from_dh_, from_dc_;
};

/// Whether what has an axis of time, and the kernels, are stored in 16 bits of one kind.
bool is_uniform(const KernelRequest& request) {
  const RecurrentLayout layout(request.op, request.attributes);
  const DType dtype = request.inputs[layout.x()].dtype;
  const auto over_time = [&](const TensorSpec& spec) {
    return spec.shape.rank() != 3 || spec.dtype == dtype;
  };
  bool uniform = is_half(dtype) && request.inputs[layout.kernel()].dtype == dtype &&
                 request.inputs[layout.recurrent_kernel()].dtype == dtype &&
                 std::ranges::all_of(request.inputs, over_time);
  if (layout.lstm && layout.initial_state)  // which the step's text reads as one dtype
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
