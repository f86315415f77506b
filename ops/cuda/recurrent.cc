// LSTM, GRU and their gradients on a device: the input's products at once, then for each step the state's
// product and one launch for all that is element by element.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "isochron/core/checked.h"
#include "isochron/core/error.h"
#include "isochron/graph/stored.h"
#include "isochron/ops/cpu/recurrent.h"
#include "isochron/ops/cuda/element_source.h"
#include "isochron/ops/cuda/inner_kernel.h"
#include "isochron/ops/cuda/kernels.h"
#include "isochron/ops/cuda/launches.h"
#include "isochron/ops/cuda/recurrent_step.h"
#include "isochron/ops/cuda/texts.h"
#include "isochron/ops/registry.h"

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
        dtype_(request.inputs[layout_.x()].dtype),
        rows_(request.inputs[layout_.x()].shape[0]),
        steps_(request.inputs[layout_.x()].shape[1]),
        width_(request.inputs[layout_.x()].shape[2]),
        units_(request.inputs[layout_.recurrent_kernel()].shape[0]),
        sums_(request.inputs[layout_.recurrent_kernel()].shape[1]) {
    for (const int64_t count : {rows_, steps_, sums_})
      require(count < int64_t{1} << 32, ErrorCode::kUnsupported, request.op.name,
              "{} has more rows, steps or units than its kernel counts", request.inputs[layout_.x()].str());
    module_.add_shared(element_prelude());
    module_.add_shared(std::string(texts::kRecurrentStep));
    module_.add_shared(std::string(texts::kRecurrent));
    constexpr unsigned kThreads = 256;
    const std::string name = module_.unique_name(request.op.name);
    module_.add(fmt::format(
        "extern \"C\" __global__ void {}({} step) {{\n"
        "  const unsigned long long i = blockIdx.x * {}ull + threadIdx.x;\n"
        "  if (i < {}ull) {}<{}, {}, {}>({{{}u, {}u, {}u}}, step, i);\n}}\n",
        name, layout_.gradient ? "RecurrentGradientStep" : "RecurrentStep", kThreads, rows_ * units_, call,
        layout_.lstm, stored_type(dtype_),
        stored_type(layout_.lengths ? request.inputs[layout_.lengths_input()].dtype : DType::kI64), rows_,
        steps_, units_));
    step_ = module_.add_function(name);
    size_ = row_of_blocks(request, (rows_ * units_ + kThreads - 1) / kThreads, kThreads);
  }

  TensorSpec matrix(int64_t rows, int64_t columns) const { return {dtype_, {rows, columns}}; }
  /// A product of matrices; its workspace is provided for.
  InnerKernel product(const KernelRequest& request, const TensorSpec& a, bool transpose_a,
                      const TensorSpec& b, bool transpose_b, const TensorSpec& c) {
    return provided(InnerKernel(request, "matmul", {a, b}, c,
                                {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}}));
  }
  InnerKernel provided(InnerKernel kernel) {
    inner_bytes_ = std::max(inner_bytes_, kernel.workspace_bytes());
    return kernel;
  }
  /// The offset of so many elements in the workspace.
  size_t reserve(int64_t elems) {
    const size_t offset = bytes_;
    const size_t bytes = checked_mul(static_cast<size_t>(elems), dtype_size(dtype_), "recurrent");
    bytes_ = checked_add(bytes_, align_up(bytes, cuda::kDeviceAlignment));
    return offset;
  }

  bool empty() const { return rows_ == 0; }
  int64_t time(int64_t step) const { return reverse_ ? steps_ - 1 - step : step; }
  std::byte* inner_workspace(const KernelArgs& args) const { return args.workspace + bytes_; }
  size_t state_bytes() const { return static_cast<size_t>(rows_ * units_) * dtype_size(dtype_); }
  /// Sets a state to `from`, or to 0 where that is null.
  void set_state(std::byte* state, const std::byte* from, cuda::Stream stream) const {
    if (from != nullptr) return cuda::copy_within(module_.context(), state, from, state_bytes(), stream);
    module_.context().fill(reinterpret_cast<uintptr_t>(state), 0, state_bytes(), stream);
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
  const DType dtype_;
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
        from_x_(product(request, matrix(rows_ * steps_, width_), false, matrix(width_, sums_), false,
                        matrix(rows_ * steps_, sums_))),
        product_(product(request, matrix(rows_, units_), false, matrix(units_, sums_), false,
                         matrix(rows_, sums_))),
        all_from_x_(reserve(rows_ * steps_ * sums_)),
        from_h_(reserve(rows_ * sums_)),
        h_(reserve(rows_ * units_)),
        c_(reserve(rows_ * units_)) {}

  void run(const KernelArgs& args) override {
    if (empty()) return;
    RecurrentStep step{};
    std::byte *const from_x = args.workspace + all_from_x_, *const from_h = args.workspace + from_h_;
    std::byte *const h = args.workspace + h_, *const c = args.workspace + c_;
    std::byte* const recurrent_kernel = args.inputs[layout_.recurrent_kernel()];
    step.from_x = from_x;
    step.product = from_h;
    step.bias = args.inputs[layout_.bias()];
    step.lengths = lengths(args);
    step.h = h;
    step.c = c;
    step.sequence = args.outputs[RecurrentLayout::kSequence];
    step.cells = layout_.lstm ? args.outputs[layout_.cells()] : nullptr;
    step.gates = args.outputs[layout_.gates()];
    set_state(h, layout_.initial_state ? args.inputs[layout_.initial_hidden()] : nullptr, args.stream);
    if (layout_.lstm)
      set_state(c, layout_.initial_state ? args.inputs[layout_.initial_cell()] : nullptr, args.stream);
    from_x_.run({args.inputs[layout_.x()], args.inputs[layout_.kernel()]}, from_x, inner_workspace(args),
                args.stream);
    for (int64_t s = 0; s < steps_; ++s) {
      product_.run({h, recurrent_kernel}, from_h, inner_workspace(args), args.stream);
      step.time = time(s);
      launch(step, args.stream);
    }
    if (std::byte* to = args.outputs[RecurrentLayout::kHidden]; to != nullptr) set_state(to, h, args.stream);
    if (!layout_.lstm) return;
    if (std::byte* to = args.outputs[layout_.cell()]; to != nullptr) set_state(to, c, args.stream);
  }

 private:
  InnerKernel from_x_, product_;
  const size_t all_from_x_, from_h_, h_, c_;
};

class GradientKernel final : public RecurrentKernel {
 public:
  explicit GradientKernel(const KernelRequest& request)
      : RecurrentKernel(request, "recurrent_gradient_step"),
        product_(product(request, matrix(rows_, sums_), false, matrix(units_, sums_), true,
                         matrix(rows_, units_))),
        to_x_(product(request, matrix(rows_ * steps_, sums_), false, matrix(width_, sums_), true,
                      matrix(rows_ * steps_, width_))),
        to_kernel_(product(request, matrix(rows_ * steps_, width_), true, matrix(rows_ * steps_, sums_),
                           false, matrix(width_, sums_))),
        to_recurrent_kernel_(product(request, matrix(rows_ * steps_, units_), true,
                                     matrix(rows_ * steps_, sums_), false, matrix(units_, sums_))),
        to_bias_(provided(InnerKernel(request, "sum", {matrix(rows_ * steps_, sums_)}, {dtype_, {sums_}},
                                      {{"axes", Dims{0}}, {"keep_dims", false}}))),
        add_(provided(InnerKernel(request, "add", {matrix(rows_, units_), matrix(rows_, units_)},
                                  matrix(rows_, units_), {}))),
        all_from_x_(reserve(rows_ * steps_ * sums_)),
        all_from_h_(layout_.lstm ? all_from_x_ : reserve(rows_ * steps_ * sums_)),
        before_(reserve(rows_ * steps_ * units_)),
        of_sums_(reserve(rows_ * sums_)),
        from_after_(reserve(rows_ * units_)),
        dh_(reserve(rows_ * units_)),
        dc_(reserve(rows_ * units_)) {}

  void run(const KernelArgs& args) override {
    const auto seed = [&](size_t output) -> const std::byte* {
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
  void go_back(const KernelArgs& args, RecurrentGradientStep& step, const std::byte* of_h,
               const std::byte* of_c) {
    std::byte* const recurrent_kernel = args.inputs[layout_.recurrent_kernel()];
    std::byte* const from_after = args.workspace + from_after_;
    set_state(args.workspace + dh_, of_h, args.stream);
    if (layout_.lstm) set_state(args.workspace + dc_, of_c, args.stream);
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
        to_bias_.run({from_h, nullptr}, bias + static_cast<size_t>(sums_) * dtype_size(dtype_),
                     inner_workspace(args), args.stream);
    }
    if (!layout_.initial_state || empty()) return;
    if (std::byte* to = result(layout_.initial_hidden()); to != nullptr) {
      if (steps_ > 0) {
        run(add_, args.workspace + dh_, args.workspace + from_after_, to);
      } else {
        set_state(to, args.workspace + dh_, args.stream);
      }
    }
    if (!layout_.lstm) return;
    if (std::byte* to = result(layout_.initial_cell()); to != nullptr)
      set_state(to, args.workspace + dc_, args.stream);
  }

  InnerKernel product_, to_x_, to_kernel_, to_recurrent_kernel_, to_bias_, add_;
  const size_t all_from_x_, all_from_h_, before_, of_sums_, from_after_, dh_, dc_;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_recurrent_cuda(const KernelRequest& request) {
  return std::make_unique<ForwardKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_recurrent_gradient_cuda(const KernelRequest& request) {
  return std::make_unique<GradientKernel>(request);
}

}  // namespace isochron::ops
