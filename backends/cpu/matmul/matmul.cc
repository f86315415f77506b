#include "isochron/backends/cpu/matmul/matmul.h"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "isochron/backends/common/vector_target.h"
#include "isochron/backends/cpu/common/choose_kernel.h"
#include "isochron/backends/cpu/common/onednn.h"
#include "isochron/backends/cpu/matmul/packed_matmul.h"
#include "isochron/core/base/checked.h"
#include "isochron/core/base/library_call.h"
#include "isochron/core/process/team.h"
#include "isochron/core/process/threads.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/ops/matmul/matmul_geometry.h"

namespace isochron::ops {
namespace {

constexpr double kLargeProducts = 64.0 * 64 * 64;      // multiply-adds from which oneDNN is worth a trial
constexpr double kPackedProducts = 160.0 * 160 * 160;  // and from which its packing always pays
constexpr double kThreadedProducts = 128.0 * 64 * 64;  // and from which all threads do

/// One product of a batch, in the form that the kernels need.
struct Geometry {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  std::vector<std::pair<int64_t, int64_t>> offsets;  // of a and b in elements, one pair per batch entry
};

double products_of(const Geometry& g) {
  return static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
}

Geometry read_geometry(const graph::KernelRequest& request) {
  const MatmulGeometry shape = matmul_geometry(request);
  Geometry g{shape.m, shape.n, shape.k, shape.transpose_a, shape.transpose_b, {}};
  for (int64_t i = 0; i < shape.batch.elems(); ++i) {
    int64_t rest = i, a = 0, b = 0;
    for (int axis = shape.batch.rank() - 1; axis >= 0; --axis) {
      a += rest % shape.batch[axis] * shape.a_matrices[axis];
      b += rest % shape.batch[axis] * shape.b_matrices[axis];
      rest /= shape.batch[axis];
    }
    g.offsets.emplace_back(a * g.m * g.k, b * g.k * g.n);
  }
  return g;
}

/// T = float or double. Packs a transposed second operand; hands large f32 products to oneDNN.
template <typename T>
class MatmulKernel final : public graph::Kernel {
 public:
  /// `library`: uses oneDNN's BLAS function (f32 only).
  MatmulKernel(Geometry geometry, int threads, bool library)
      : g_(std::move(geometry)), library_(library && std::is_same_v<T, float>) {
    if (library_) onednn::require_room("matmul");
    const double products = products_of(g_);
    threads_ = products >= kThreadedProducts ? threads : 1;
    packs_ = !library_ && g_.transpose_b && g_.k > 1 && g_.n > 1;
  }

  size_t workspace_bytes() const override {
    return packs_ ? static_cast<size_t>(g_.k * g_.n) * sizeof(T) : 0;
  }

  void run(const graph::KernelArgs& args) override {
    const T* a = reinterpret_cast<const T*>(args.inputs[0]);
    const T* b = reinterpret_cast<const T*>(args.inputs[1]);
    multiply_all(a, b, reinterpret_cast<T*>(args.outputs[0]), reinterpret_cast<T*>(args.workspace));
  }

  void multiply_all(const T* a, const T* b, T* c, T* packed) const {
    if (g_.m == 0 || g_.n == 0) return;
    if (g_.k == 0) {
      std::fill_n(c, g_.m * g_.n * static_cast<int64_t>(g_.offsets.size()), T{0});
      return;
    }
    for (const auto& [a_offset, b_offset] : g_.offsets) {
      if (library_) {
        multiply_large(a + a_offset, b + b_offset, c);
      } else {
        multiply_small(a + a_offset, b + b_offset, c, packed);
      }
      c += g_.m * g_.n;
    }
  }

 private:
  void multiply_large(const T* a, const T* b, T* c) const {
    if constexpr (std::is_same_v<T, float>) {
      make_team(threads_);
      omp_set_num_threads(threads_);
      const LibraryCall call;
      const dnnl_status_t status =
          dnnl_sgemm(g_.transpose_a ? 'T' : 'N', g_.transpose_b ? 'T' : 'N', g_.m, g_.n, g_.k, 1.0f, a,
                     g_.transpose_a ? g_.m : g_.k, b, g_.transpose_b ? g_.k : g_.n, 0.0f, c, g_.n);
      onednn::require_success(status, "matmul", "the product");
    }
  }

  void multiply_small(const T* a, const T* b, T* c, T* packed) const {
    int64_t b_row = g_.n;
    if (packs_) {
      for (int64_t j = 0; j < g_.n; ++j) {
        for (int64_t p = 0; p < g_.k; ++p) packed[p * g_.n + j] = b[j * g_.k + p];
      }
      b = packed;
    } else if (g_.transpose_b) {
      b_row = 1;  // one row or one column: the transpose has the same layout
    }
    const int64_t a_row = g_.transpose_a ? 1 : g_.k;
    const int64_t a_column = g_.transpose_a ? g_.m : 1;
    parallel_for(threads_, g_.m, [&](int64_t begin, int64_t end) {
      small_matmul<T>(end - begin, g_.n, g_.k, a + begin * a_row, a_row, a_column, b, b_row,
                      c + begin * g_.n);
    });
  }

  Geometry g_;
  int threads_ = 1;
  bool library_;
  bool packs_ = false;
};

constexpr auto kF32 = dnnl::memory::data_type::f32;
constexpr auto kBf16 = dnnl::memory::data_type::bf16;

/// One large product by oneDNN's matmul primitive: faster than its BLAS function on some shapes.
class PrimitiveMatmul final : public graph::Kernel {
 public:
  PrimitiveMatmul(const Geometry& g, int threads, dnnl::memory::data_type operands = kF32,
                  dnnl::memory::data_type result = kF32)
      : primitive_(make(g, threads, operands, result)) {}
  size_t workspace_bytes() const override { return primitive_.workspace_bytes(); }
  void bind(const graph::KernelArgs& args) override { primitive_.bind(args); }
  void run(const graph::KernelArgs&) override { primitive_.run(); }

 private:
  static onednn::BoundPrimitive make(const Geometry& g, int threads, dnnl::memory::data_type operands,
                                     dnnl::memory::data_type result) {
    using dnnl::memory;
    onednn::use_threads(threads);
    return onednn::translated("matmul", [&] {
      const auto matrix = [](int64_t rows, int64_t columns, bool transposed, memory::data_type type) {
        return memory::desc({rows, columns}, type,
                            transposed ? memory::dims{1, rows} : memory::dims{columns, 1});
      };
      const memory::desc a = matrix(g.m, g.k, g.transpose_a, operands);
      const memory::desc b = matrix(g.k, g.n, g.transpose_b, operands);
      const memory::desc c = matrix(g.m, g.n, false, result);
      dnnl::primitive_attr attributes;
      attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
      const dnnl::matmul::desc asked(a, b, c);
      const dnnl::matmul::primitive_desc desc(asked, attributes, onednn::cpu_engine());
      return onednn::BoundPrimitive(dnnl::matmul(desc),
                                    {{DNNL_ARG_SRC, onednn::Port::kInput, 0, a, a},
                                     {DNNL_ARG_WEIGHTS, onednn::Port::kInput, 1, b, b},
                                     {DNNL_ARG_DST, onednn::Port::kOutput, 0, c, c}},
                                    desc.scratchpad_desc(), threads);
    });
  }

  onednn::BoundPrimitive primitive_;
};

/// One large product by our own packing: ahead of oneDNN where one side is a few hundred.
class PackedMatmul final : public graph::Kernel {
 public:
  PackedMatmul(Geometry geometry, int threads) : g_(std::move(geometry)), threads_(threads) {}

  size_t workspace_bytes() const override {
    return packed_workspace_floats(g_.n, g_.k, threads_) * sizeof(float);
  }

  void run(const graph::KernelArgs& args) override {
    packed_matmul(
        {g_.m, g_.n, g_.k, reinterpret_cast<const float*>(args.inputs[0]), g_.transpose_a ? 1 : g_.k,
         g_.transpose_a ? g_.m : 1, reinterpret_cast<const float*>(args.inputs[1]), g_.transpose_b ? 1 : g_.n,
         g_.transpose_b ? g_.k : 1, reinterpret_cast<float*>(args.outputs[0]), g_.n},
        threads_, reinterpret_cast<float*>(args.workspace));
  }

 private:
  Geometry g_;
  int threads_;
};

std::unique_ptr<graph::Kernel> prepare_f32(Geometry geometry, const graph::KernelRequest& request) {
  const double products = products_of(geometry);
  if (products < kLargeProducts || geometry.offsets.size() != 1) {
    return std::make_unique<MatmulKernel<float>>(std::move(geometry), request.threads,
                                                 products >= kLargeProducts);
  }
  const int threads = products >= kThreadedProducts ? request.threads : 1;
  const bool packs = products >= kPackedProducts;
  constexpr std::string_view kWays[] = {"primitive", "sgemm", "small", "packed"};
  return choose_kernel(request, threads, kWays, [&](size_t way) -> std::unique_ptr<graph::Kernel> {
    if (way == 0) return std::make_unique<PrimitiveMatmul>(geometry, threads);
    if (packs != (way == 3)) return nullptr;
    if (packs) return std::make_unique<PackedMatmul>(geometry, threads);
    if (way == 1 && products >= kThreadedProducts) return nullptr;  // never faster, and 30 ms to set up
    return std::make_unique<MatmulKernel<float>>(geometry, threads, way == 1);
  });
}

/// A kernel for 16-bit floats. It uses the processor's 16-bit products if there are any, and otherwise goes
/// through f32. Sums are computed in f32, and the result is rounded once.
std::unique_ptr<graph::Kernel> prepare_half(const Geometry& geometry, const graph::KernelRequest& request) {
  const double products = products_of(geometry);
  const bool own = request.inputs[0].dtype == DType::kBF16 && request.inputs[1].dtype == DType::kBF16 &&
                   multiplies_in(DType::kBF16);
  if (!own || products < kLargeProducts || geometry.offsets.size() != 1) {
    return graph::prepare_through_f32(request);
  }
  const int threads = products >= kThreadedProducts ? request.threads : 1;
  const auto result = request.outputs[0].dtype == DType::kF32 ? kF32 : kBf16;
  constexpr std::string_view kWays[] = {"primitive", "f32"};
  return choose_kernel(request, threads, kWays, [&](size_t way) -> std::unique_ptr<graph::Kernel> {
    if (way == 1) return graph::prepare_through_f32(request);
    return std::make_unique<PrimitiveMatmul>(geometry, threads, kBf16, result);
  });
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_matmul(const graph::KernelRequest& request) {
  Geometry geometry = read_geometry(request);
  switch (request.inputs[0].dtype) {
    case DType::kF32:
      return prepare_f32(std::move(geometry), request);
    case DType::kF64:
      return std::make_unique<MatmulKernel<double>>(std::move(geometry), request.threads, false);
    default:
      return prepare_half(geometry, request);
  }
}

}  // namespace isochron::ops
