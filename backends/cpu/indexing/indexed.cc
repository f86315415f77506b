#include "isochron/backends/cpu/indexing/indexed.h"

#include <cmath>
#include <cstring>

#include "isochron/backends/cpu/common/axis_kernels.h"
#include "isochron/backends/cpu/elementwise/tile_functions.h"
#include "isochron/core/tensor/elements.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;
using graph::KernelRequest;

class GatherKernel final : public graph::Kernel {
 public:
  GatherKernel(const KernelRequest& request)
      : name_(request.op.name),
        view_(request.inputs[0].shape, axis_of(request)),
        index_dtype_(request.inputs[1].dtype),
        count_(request.inputs[1].shape.elems()),
        run_bytes_(static_cast<size_t>(view_.inner) * dtype_size(request.inputs[0].dtype)) {
    threads_ = request.outputs[0].shape.elems() >= 2 * kElemsPerThread ? request.threads : 1;
  }

  void run(const KernelArgs& args) override {
    check_indices(args.inputs[1], index_dtype_, count_, view_.extent, name_, "index");
    if (run_bytes_ == 0) return;
    const Indices indices(args.inputs[1], index_dtype_);
    parallel_for(threads_, view_.outer * count_, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t from = i / count_ * view_.extent + indices[i % count_];
        std::memcpy(args.outputs[0] + static_cast<size_t>(i) * run_bytes_,
                    args.inputs[0] + static_cast<size_t>(from) * run_bytes_, run_bytes_);
      }
    });
  }

 private:
  std::string name_;
  AxisView view_;
  DType index_dtype_;
  int64_t count_;
  size_t run_bytes_;
  int threads_ = 1;
};

/// If the result shares the memory of the base, only the slices at the indices are written.
class ScatterKernel final : public graph::Kernel {
 public:
  ScatterKernel(const KernelRequest& request)
      : name_(request.op.name),
        view_(request.inputs[0].shape, axis_of(request)),
        index_dtype_(request.inputs[1].dtype),
        count_(request.inputs[1].shape.elems()),
        size_(dtype_size(request.inputs[0].dtype)) {
    threads_ = view_.outer * count_ * view_.inner >= 2 * kElemsPerThread ? request.threads : 1;
  }

  void run(const KernelArgs& args) override {
    check_indices(args.inputs[1], index_dtype_, count_, view_.extent, name_, "index");
    std::byte* const out = args.outputs[0];
    if (out != args.inputs[0]) {
      parallel_for(threads_, view_.outer * view_.extent, [&](int64_t begin, int64_t end) {
        std::memcpy(out + bytes(begin), args.inputs[0] + bytes(begin), bytes(end - begin));
      });
    }
    // Each column is written by one thread, in the order of the indices.
    const Indices indices(args.inputs[1], index_dtype_);
    for_columns(threads_, view_.outer, view_.inner, view_.inner,
                [&](int64_t outer, int64_t begin, int64_t end) {
                  for (int64_t i = 0; i < count_; ++i) {
                    std::memcpy(out + bytes(outer * view_.extent + indices[i], begin),
                                args.inputs[2] + bytes(outer * count_ + i, begin),
                                static_cast<size_t>(end - begin) * size_);
                  }
                });
  }

 private:
  /// The offset of an element of a slice's run.
  size_t bytes(int64_t run, int64_t element = 0) const {
    return static_cast<size_t>(run * view_.inner + element) * size_;
  }

  std::string name_;
  AxisView view_;
  DType index_dtype_;
  int64_t count_;
  size_t size_;
  int threads_ = 1;
};

template <typename T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(x);
  } else {
    return false;
  }
}

/// Whether `candidate` replaces the current choice. The first of equal numbers and the first NaN are kept.
template <bool kLargest, typename T>
bool replaces(T candidate, T chosen) {
  return (kLargest ? candidate > chosen : candidate < chosen) || (is_nan(candidate) && !is_nan(chosen));
}

/// The largest or smallest of each element and its updates. The result may be stored in the memory of the
/// base.
template <typename T, bool kLargest>
class ScatterExtremeKernel final : public graph::Kernel {
 public:
  ScatterExtremeKernel(const KernelRequest& request)
      : name_(request.op.name),
        view_(request.inputs[0].shape, axis_of(request)),
        index_dtype_(request.inputs[1].dtype),
        count_(request.inputs[1].shape.elems()) {
    threads_ = view_.outer * count_ * view_.inner >= 2 * kElemsPerThread ? request.threads : 1;
  }

  void run(const KernelArgs& args) override {
    check_indices(args.inputs[1], index_dtype_, count_, view_.extent, name_, "index");
    const T* base = reinterpret_cast<const T*>(args.inputs[0]);
    const T* updates = reinterpret_cast<const T*>(args.inputs[2]);
    T* out = reinterpret_cast<T*>(args.outputs[0]);
    int64_t* positions = reinterpret_cast<int64_t*>(args.outputs[1]);  // null if unread
    const int64_t elems = view_.outer * view_.extent * view_.inner;
    if (out != base) std::copy_n(base, elems, out);
    if (positions) std::fill_n(positions, elems, int64_t{-1});
    const Indices indices(args.inputs[1], index_dtype_);
    for_columns(threads_, view_.outer, view_.inner, view_.inner,
                [&](int64_t outer, int64_t begin, int64_t end) {
                  for (int64_t i = 0; i < count_; ++i) {
                    const int64_t to = (outer * view_.extent + indices[i]) * view_.inner;
                    const T* from = updates + (outer * count_ + i) * view_.inner;
                    for (int64_t k = begin; k < end; ++k) {
                      if (!replaces<kLargest>(widen(from[k]), widen(out[to + k]))) continue;
                      out[to + k] = from[k];
                      if (positions) positions[to + k] = i;
                    }
                  }
                });
  }

 private:
  std::string name_;
  AxisView view_;
  DType index_dtype_;
  int64_t count_;
  int threads_ = 1;
};

template <bool kLargest>
std::unique_ptr<graph::Kernel> prepare_scatter_extreme(const KernelRequest& request) {
  return dispatch_dtype(request.inputs[0].dtype, [&]<typename T>(T) -> std::unique_ptr<graph::Kernel> {
    return std::make_unique<ScatterExtremeKernel<T, kLargest>>(request);
  });
}

/// total + update, where integers wrap.
template <typename S, typename T>
S wrapping_sum(S total, T update) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<S>(static_cast<uint64_t>(total) + static_cast<uint64_t>(update));
  } else {
    return total + static_cast<S>(update);
  }
}

/// T: the dtype; S: the dtype of the sums, f32 for 16-bit floats.
template <typename T, typename S>
class ScatterAddKernel final : public graph::Kernel {
 public:
  ScatterAddKernel(const KernelRequest& request)
      : name_(request.op.name),
        view_(request.outputs[0].shape, axis_of(request)),
        index_dtype_(request.inputs[1].dtype),
        count_(request.inputs[1].shape.elems()),
        out_elems_(request.outputs[0].shape.elems()) {
    // Columns are distributed over threads: each element is summed by one thread, in the order of the
    // indices.
    const bool large = view_.inner >= 64 && view_.outer * count_ * view_.inner >= 2 * kElemsPerThread;
    threads_ = large ? request.threads : 1;
  }

  size_t workspace_bytes() const override {
    return std::is_same_v<T, S> ? 0 : static_cast<size_t>(out_elems_) * sizeof(S);
  }

  void run(const KernelArgs& args) override {
    check_indices(args.inputs[1], index_dtype_, count_, view_.extent, name_, "index");
    const Indices indices(args.inputs[1], index_dtype_);
    S* sums = reinterpret_cast<S*>(std::is_same_v<T, S> ? args.outputs[0] : args.workspace);
    std::fill_n(sums, out_elems_, S(0));
    const T* updates = reinterpret_cast<const T*>(args.inputs[0]);
    parallel_for(threads_, view_.inner, [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < view_.outer * count_; ++i) {
        S* to = sums + (i / count_ * view_.extent + indices[i % count_]) * view_.inner;
        const T* from = updates + i * view_.inner;
        for (int64_t k = begin; k < end; ++k) to[k] = wrapping_sum(to[k], from[k]);
      }
    });
    if constexpr (!std::is_same_v<T, S>) {
      T* out = reinterpret_cast<T*>(args.outputs[0]);
      for (int64_t i = 0; i < out_elems_; ++i) out[i] = T(sums[i]);
    }
  }

 private:
  std::string name_;
  AxisView view_;
  DType index_dtype_;
  int64_t count_;
  int64_t out_elems_;
  int threads_ = 1;
};

/// T: an unsigned type of the elements' size; they are only copied.
template <typename T>
class TakeAlongAxisKernel final : public graph::Kernel {
 public:
  TakeAlongAxisKernel(const KernelRequest& request)
      : name_(request.op.name),
        from_(request.inputs[0].shape, axis_of(request)),
        to_(request.outputs[0].shape, axis_of(request)),
        index_dtype_(request.inputs[1].dtype),
        elems_(request.outputs[0].shape.elems()) {
    threads_ = elems_ >= 2 * kElemsPerThread ? request.threads : 1;
  }

  void run(const KernelArgs& args) override {
    check_indices(args.inputs[1], index_dtype_, elems_, from_.extent, name_, "index");
    const Indices indices(args.inputs[1], index_dtype_);
    const T* x = reinterpret_cast<const T*>(args.inputs[0]);
    T* out = reinterpret_cast<T*>(args.outputs[0]);
    for_columns(threads_, to_.outer, to_.inner, to_.inner, [&](int64_t outer, int64_t begin, int64_t end) {
      const T* block = x + outer * from_.extent * from_.inner;
      for (int64_t k = 0; k < to_.extent; ++k) {
        const int64_t start = (outer * to_.extent + k) * to_.inner;
        for (int64_t i = begin; i < end; ++i) out[start + i] = block[indices[start + i] * from_.inner + i];
      }
    });
  }

 private:
  std::string name_;
  AxisView from_;
  AxisView to_;
  DType index_dtype_;
  int64_t elems_;
  int threads_ = 1;
};

/// T: the dtype; S: the dtype of the sums, f32 for 16-bit floats.
template <typename T, typename S>
class PutAddAlongAxisKernel final : public graph::Kernel {
 public:
  PutAddAlongAxisKernel(const KernelRequest& request)
      : name_(request.op.name),
        from_(request.inputs[0].shape, axis_of(request)),
        to_(request.outputs[0].shape, axis_of(request)),
        index_dtype_(request.inputs[1].dtype),
        elems_(request.inputs[0].shape.elems()),
        out_elems_(request.outputs[0].shape.elems()) {
    threads_ = elems_ >= 2 * kElemsPerThread ? request.threads : 1;
  }

  size_t workspace_bytes() const override {
    return std::is_same_v<T, S> ? 0 : static_cast<size_t>(out_elems_) * sizeof(S);
  }

  void run(const KernelArgs& args) override {
    check_indices(args.inputs[1], index_dtype_, elems_, to_.extent, name_, "index");
    const Indices indices(args.inputs[1], index_dtype_);
    const T* updates = reinterpret_cast<const T*>(args.inputs[0]);
    S* sums = reinterpret_cast<S*>(std::is_same_v<T, S> ? args.outputs[0] : args.workspace);
    std::fill_n(sums, out_elems_, S(0));
    // Each column is summed by one thread, in the indices' order.
    for_columns(threads_, to_.outer, to_.inner, to_.inner, [&](int64_t outer, int64_t begin, int64_t end) {
      S* block = sums + outer * to_.extent * to_.inner;
      for (int64_t k = 0; k < from_.extent; ++k) {
        const int64_t start = (outer * from_.extent + k) * from_.inner;
        for (int64_t i = begin; i < end; ++i) {
          S& total = block[indices[start + i] * to_.inner + i];
          total = wrapping_sum(total, updates[start + i]);
        }
      }
    });
    if constexpr (!std::is_same_v<T, S>) {
      T* out = reinterpret_cast<T*>(args.outputs[0]);
      for (int64_t i = 0; i < out_elems_; ++i) out[i] = T(sums[i]);
    }
  }

 private:
  std::string name_;
  AxisView from_;
  AxisView to_;
  DType index_dtype_;
  int64_t elems_;
  int64_t out_elems_;
  int threads_ = 1;
};

class OneHotKernel final : public graph::Kernel {
 public:
  OneHotKernel(const KernelRequest& request)
      : name_(request.op.name),
        index_dtype_(request.inputs[0].dtype),
        dtype_(request.outputs[0].dtype),
        count_(request.inputs[0].shape.elems()),
        depth_(request.attributes.get<int64_t>("depth")) {}

  void run(const KernelArgs& args) override {
    check_indices(args.inputs[0], index_dtype_, count_, depth_, name_, "index");
    const Indices indices(args.inputs[0], index_dtype_);
    dispatch_dtype(dtype_, [&]<typename T>(T) {
      T* out = reinterpret_cast<T*>(args.outputs[0]);
      T one;
      store_number(&one, dtype_, 1);
      std::fill_n(out, count_ * depth_, T());
      for (int64_t i = 0; i < count_; ++i) out[i * depth_ + indices[i]] = one;
    });
  }

 private:
  std::string name_;
  DType index_dtype_;
  DType dtype_;
  int64_t count_;
  int64_t depth_;
};

/// kLargest chooses between arg-max and arg-min. The first of equals and the first NaN win.
template <bool kLargest>
class ArgKernel final : public graph::Kernel {
 public:
  ArgKernel(const KernelRequest& request)
      : view_(request.inputs[0].shape, axis_of(request)), dtype_(request.inputs[0].dtype) {
    threads_ = request.inputs[0].shape.elems() >= 2 * kElemsPerThread ? request.threads : 1;
  }

  void run(const KernelArgs& args) override {
    dispatch_dtype(dtype_, [&]<typename T>(T) {
      const T* x = reinterpret_cast<const T*>(args.inputs[0]);
      int64_t* out = reinterpret_cast<int64_t*>(args.outputs[0]);
      parallel_for(threads_, view_.outer * view_.inner, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          out[i] = best(x + i / view_.inner * view_.extent * view_.inner + i % view_.inner);
        }
      });
    });
  }

 private:
  template <typename T>
  int64_t best(const T* x) const {
    int64_t at = 0;
    auto chosen = widen(x[0]);
    for (int64_t k = 1; k < view_.extent && !is_nan(chosen); ++k) {
      const auto candidate = widen(x[k * view_.inner]);
      if (replaces<kLargest>(candidate, chosen)) {
        chosen = candidate;
        at = k;
      }
    }
    return at;
  }

  AxisView view_;
  DType dtype_;
  int threads_ = 1;
};

template <template <typename, typename> typename KernelOf>
std::unique_ptr<graph::Kernel> prepare_sums(const KernelRequest& request) {
  return dispatch_dtype(request.inputs[0].dtype, [&]<typename T>(T) -> std::unique_ptr<graph::Kernel> {
    if constexpr (half_type<T>) {
      return std::make_unique<KernelOf<T, float>>(request);
    } else {
      return std::make_unique<KernelOf<T, T>>(request);
    }
  });
}

}  // namespace

void check_indices(const void* indices, DType dtype, int64_t count, int64_t bound, std::string_view where,
                   std::string_view what) {
  const Indices values(static_cast<const std::byte*>(indices), dtype);
  for (int64_t i = 0; i < count; ++i) {
    if (values[i] >= 0 && values[i] < bound) [[likely]]
      continue;
    fail(ErrorCode::kOutOfRange, where, "{} {} at position {} lies outside [0, {})", what, values[i], i,
         bound);
  }
}

std::unique_ptr<graph::Kernel> prepare_gather(const KernelRequest& request) {
  return std::make_unique<GatherKernel>(request);
}

std::unique_ptr<graph::Kernel> prepare_scatter_add(const KernelRequest& request) {
  return prepare_sums<ScatterAddKernel>(request);
}

std::unique_ptr<graph::Kernel> prepare_scatter(const KernelRequest& request) {
  return std::make_unique<ScatterKernel>(request);
}

std::unique_ptr<graph::Kernel> prepare_scatter_max(const KernelRequest& request) {
  return prepare_scatter_extreme<true>(request);
}
std::unique_ptr<graph::Kernel> prepare_scatter_min(const KernelRequest& request) {
  return prepare_scatter_extreme<false>(request);
}

std::unique_ptr<graph::Kernel> prepare_take_along_axis(const KernelRequest& request) {
  switch (dtype_size(request.inputs[0].dtype)) {
    case 1:
      return std::make_unique<TakeAlongAxisKernel<uint8_t>>(request);
    case 2:
      return std::make_unique<TakeAlongAxisKernel<uint16_t>>(request);
    case 4:
      return std::make_unique<TakeAlongAxisKernel<uint32_t>>(request);
    default:
      return std::make_unique<TakeAlongAxisKernel<uint64_t>>(request);
  }
}

std::unique_ptr<graph::Kernel> prepare_put_add_along_axis(const KernelRequest& request) {
  return prepare_sums<PutAddAlongAxisKernel>(request);
}

std::unique_ptr<graph::Kernel> prepare_one_hot(const KernelRequest& request) {
  return std::make_unique<OneHotKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_argmax(const KernelRequest& request) {
  return std::make_unique<ArgKernel<true>>(request);
}
std::unique_ptr<graph::Kernel> prepare_argmin(const KernelRequest& request) {
  return std::make_unique<ArgKernel<false>>(request);
}

}  // namespace isochron::ops
