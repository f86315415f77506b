#include "isochron/backends/cpu/elementwise/float8.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "isochron/backends/cpu/elementwise/float8_functions.h"
#include "isochron/backends/cpu/matmul/matmul.h"
#include "isochron/core/base/checked.h"
#include "isochron/core/process/threads.h"
#include "isochron/ops/elementwise/float8.h"
#include "isochron/ops/elementwise/float8_numbers.h"
#include "isochron/ops/rows/registry.h"

namespace isochron::ops {
namespace {

static_assert(kFloat8History == element::kFloat8History);

constexpr size_t kAlignment = 64;
constexpr int64_t kThreadedElems = 1 << 16;  // elements from which all threads are used

/// Rounds one operand of the product.
class Rounding {
 public:
  Rounding(const TensorSpec& factor, const std::string& format, int threads)
      : e5m2_(format == "e5m2"),
        functions_(e5m2_ ? float8_functions<element::E5M2>(factor.dtype)
                         : float8_functions<element::E4M3>(factor.dtype)),
        elem_bytes_(dtype_size(factor.dtype)),
        elems_(factor.shape.elems()),
        threads_(elems_ >= kThreadedElems ? threads : 1) {}

  size_t bytes() const { return align_up(static_cast<size_t>(elems_) * sizeof(bfloat16), kAlignment); }
  void run(const std::byte* factor, const std::byte* history, std::byte* to) const {
    const auto* magnitudes = reinterpret_cast<const float*>(history);
    const float scale = e5m2_ ? element::float8_scale<element::E5M2>(magnitudes)
                              : element::float8_scale<element::E4M3>(magnitudes);
    auto* result = reinterpret_cast<bfloat16*>(to);
    parallel_for(threads_, elems_, [&](int64_t begin, int64_t end) {
      functions_.round(factor + static_cast<size_t>(begin) * elem_bytes_, scale, result + begin, end - begin);
    });
  }

 private:
  bool e5m2_;
  Float8Functions functions_;
  size_t elem_bytes_;
  int64_t elems_;
  int threads_;
};

class Float8Matmul final : public graph::Kernel {
 public:
  explicit Float8Matmul(const graph::KernelRequest& request)
      : a_(request.inputs[0], request.attributes.get<std::string>("a_format"), request.threads),
        b_(request.inputs[1], request.attributes.get<std::string>("b_format"), request.threads),
        attributes_({{"transpose_a", request.attributes.get<bool>("transpose_a")},
                     {"transpose_b", request.attributes.get<bool>("transpose_b")}}) {
    const std::array<TensorSpec, 2> factors = {TensorSpec{DType::kBF16, request.inputs[0].shape},
                                               TensorSpec{DType::kBF16, request.inputs[1].shape}};
    product_ = prepare_matmul({row("matmul"), factors, request.outputs, attributes_, request.threads});
  }

  size_t workspace_bytes() const override {
    return checked_add(checked_add(a_.bytes(), b_.bytes()), product_->workspace_bytes());
  }
  void bind(const graph::KernelArgs& args) override {
    factors_ = {args.workspace, args.workspace + a_.bytes()};
    inner_ = {factors_.data(), args.outputs, args.workspace + a_.bytes() + b_.bytes()};
    product_->bind(inner_);
  }
  void run(const graph::KernelArgs& args) override {
    a_.run(args.inputs[0], args.inputs[2], factors_[0]);
    b_.run(args.inputs[1], args.inputs[3], factors_[1]);
    product_->run(inner_);
  }

 private:
  const Rounding a_, b_;
  const graph::Attributes attributes_;
  std::unique_ptr<graph::Kernel> product_;
  std::array<std::byte*, 2> factors_{};
  graph::KernelArgs inner_;
};

class HistoryKernel final : public graph::Kernel {
 public:
  explicit HistoryKernel(const TensorSpec& x)
      : largest_(float8_functions<element::E4M3>(x.dtype).largest), elems_(x.shape.elems()) {}
  void run(const graph::KernelArgs& args) override {
    const auto* history = reinterpret_cast<const float*>(args.inputs[0]);
    auto* to = reinterpret_cast<float*>(args.outputs[0]);
    std::copy(history + 1, history + kFloat8History, to);
    to[kFloat8History - 1] = largest_(args.inputs[1], elems_);
  }

 private:
  float (*largest_)(const void*, int64_t);
  int64_t elems_;
};

bool holds_f16(const graph::KernelRequest& request) {
  const auto f16 = [](const TensorSpec& spec) { return spec.dtype == DType::kF16; };
  return std::ranges::any_of(request.inputs, f16) || std::ranges::any_of(request.outputs, f16);
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_matmul_float8(const graph::KernelRequest& request) {
  if (holds_f16(request)) return nullptr;
  return std::make_unique<Float8Matmul>(request);
}

std::unique_ptr<graph::Kernel> prepare_float8_history(const graph::KernelRequest& request) {
  if (holds_f16(request)) return nullptr;
  return std::make_unique<HistoryKernel>(request.inputs[1]);
}

}  // namespace isochron::ops
