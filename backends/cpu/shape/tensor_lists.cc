#include "isochron/backends/cpu/shape/tensor_lists.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "isochron/core/process/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/shape/tensor_lists.cc"
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include "isochron/backends/cpu/common/rows_kernel.h"
#include "isochron/backends/cpu/common/tails-inl.h"
#include "isochron/backends/cpu/common/tensor_blocks.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> widened(D, hn::Vec<D> v) {
  return v;
}
template <class D>
HWY_INLINE hn::Vec<D> widened(D wide, hn::Vec<hn::Rebind<float, D>> v) {
  return hn::PromoteTo(wide, v);
}

template <typename T>
void square_sum(const T* x, int64_t count, double* result) {
  const hn::ScalableTag<double> wide;
  const hn::Rebind<T, hn::ScalableTag<double>> narrow;  // as many elements of T
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(wide));
  // Four sums, because each addition to a sum waits for the previous one.
  auto s0 = hn::Zero(wide), s1 = hn::Zero(wide), s2 = hn::Zero(wide), s3 = hn::Zero(wide);
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto x0 = widened(wide, hn::LoadU(narrow, x + i));
    const auto x1 = widened(wide, hn::LoadU(narrow, x + i + lanes));
    const auto x2 = widened(wide, hn::LoadU(narrow, x + i + 2 * lanes));
    const auto x3 = widened(wide, hn::LoadU(narrow, x + i + 3 * lanes));
    s0 = hn::MulAdd(x0, x0, s0);
    s1 = hn::MulAdd(x1, x1, s1);
    s2 = hn::MulAdd(x2, x2, s2);
    s3 = hn::MulAdd(x3, x3, s3);
  }
  each_vector(wide, count - i, [&](int64_t at, size_t some) {
    const auto x0 = widened(wide, load_lanes(narrow, x + i + at, some));
    s0 = hn::MulAdd(x0, x0, s0);
  });
  *result = hn::GetLane(hn::SumOfLanes(wide, (s0 + s1) + (s2 + s3)));
}

template <typename T>
void blend(double alpha, const T* a, double beta, const T* b, int64_t count, T* result) {
  const hn::ScalableTag<T> d;
  const auto factor_a = hn::Set(d, static_cast<T>(alpha));
  const auto factor_b = hn::Set(d, static_cast<T>(beta));
  if (alpha == 0) {
    each_vector(d, count, [&](int64_t i, size_t lanes) {
      store_lanes(d, factor_b * load_lanes(d, b + i, lanes), result + i, lanes);
    });
    return;
  }
  each_vector(d, count, [&](int64_t i, size_t lanes) {
    const auto kept = factor_a * load_lanes(d, a + i, lanes);
    store_lanes(d, hn::MulAdd(factor_b, load_lanes(d, b + i, lanes), kept), result + i, lanes);
  });
}

void square_sum_f32(const float* x, int64_t count, double* result) { square_sum(x, count, result); }
void square_sum_f64(const double* x, int64_t count, double* result) { square_sum(x, count, result); }
void blend_f32(double alpha, const float* a, double beta, const float* b, int64_t count, float* result) {
  blend(alpha, a, beta, b, count, result);
}
void blend_f64(double alpha, const double* a, double beta, const double* b, int64_t count, double* result) {
  blend(alpha, a, beta, b, count, result);
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {
namespace {

HWY_EXPORT(square_sum_f32);
HWY_EXPORT(square_sum_f64);
HWY_EXPORT(blend_f32);
HWY_EXPORT(blend_f64);

template <typename T>
class SquareSumKernel final : public graph::Kernel {
 public:
  explicit SquareSumKernel(const graph::KernelRequest& request) : blocks_(request.inputs, request.threads) {}
  size_t workspace_bytes() const override { return blocks_.size() * sizeof(double); }
  void run(const graph::KernelArgs& args) override {
    auto* sums = reinterpret_cast<double*>(args.workspace);
    blocks_.each([&](size_t b, const TensorBlocks::Block& block) {
      const T* x = reinterpret_cast<const T*>(args.inputs[block.tensor]) + block.begin;
      ISOCHRON_CALL(square_sum, x, block.count, sums + b);
    });
    double total = 0;
    for (size_t b = 0; b < blocks_.size(); ++b) total += sums[b];
    std::memcpy(args.outputs[0], &total, sizeof total);
  }

 private:
  TensorBlocks blocks_;
};

template <typename T>
class BlendKernel final : public graph::Kernel {
 public:
  explicit BlendKernel(const graph::KernelRequest& request)
      : blocks_(request.outputs, request.threads), count_(request.outputs.size()) {}
  void run(const graph::KernelArgs& args) override {
    double alpha, beta;
    std::memcpy(&alpha, args.inputs[0], sizeof alpha);
    std::memcpy(&beta, args.inputs[1], sizeof beta);
    blocks_.each([&](size_t, const TensorBlocks::Block& block) {
      const T* a = reinterpret_cast<const T*>(args.inputs[2 + block.tensor]) + block.begin;
      const T* b = reinterpret_cast<const T*>(args.inputs[2 + count_ + block.tensor]) + block.begin;
      T* result = reinterpret_cast<T*>(args.outputs[block.tensor]) + block.begin;
      ISOCHRON_CALL(blend, alpha, a, beta, b, block.count, result);
    });
  }

 private:
  TensorBlocks blocks_;
  size_t count_;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_square_sum(const graph::KernelRequest& request) {
  return by_dtype<SquareSumKernel>(request.inputs[0].dtype, request);
}
std::unique_ptr<graph::Kernel> prepare_blend(const graph::KernelRequest& request) {
  return by_dtype<BlendKernel>(request.outputs[0].dtype, request);
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
