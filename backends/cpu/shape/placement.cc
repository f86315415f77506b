#include "isochron/backends/cpu/shape/placement.h"

#include <array>
#include <cstring>

#include "isochron/backends/common/axis_view.h"
#include "isochron/backends/cpu/common/axis_kernels.h"
#include "isochron/backends/cpu/elementwise/tile_functions.h"
#include "isochron/core/process/threads.h"
#include "isochron/core/tensor/elements.h"
#include "isochron/ops/shape/block_view.h"

namespace isochron::ops {
namespace {

class PadKernel final : public graph::Kernel {
 public:
  PadKernel(const graph::KernelRequest& request)
      : dtype_(request.outputs[0].dtype), out_elems_(request.outputs[0].shape.elems()) {
    const Shape& in = request.inputs[0].shape;
    const BlockView view = block_view(request.attributes, in, request.outputs[0].shape);
    offset_ = view.offset;
    strides_ = view.strides;
    outer_ = in;
    if (in.rank() == 0) {
      outer_.push_back(1);
      strides_.push_back(1);
    }
    columns_ = outer_.back();
    rows_ = columns_ == 0 ? 0 : in.elems() / columns_;
    threads_ = in.elems() >= 2 * kElemsPerThread && rows_ > 1 ? request.threads : 1;
    store_number(value_.data(), dtype_, request.attributes.get<double>("value"));
  }

  void run(const graph::KernelArgs& args) override {
    fill_elements(args.outputs[0], dtype_, value_.data(), out_elems_);
    parallel_for(threads_, rows_, [&](int64_t begin, int64_t end) {
      dispatch_dtype(dtype_, [&]<typename T>(T) {
        place_rows(reinterpret_cast<const T*>(args.inputs[0]), reinterpret_cast<T*>(args.outputs[0]), begin,
                   end);
      });
    });
  }

 private:
  template <typename T>
  void place_rows(const T* in, T* out, int64_t begin, int64_t end) const {
    const int last = outer_.rank() - 1;
    const int64_t step = strides_[last];
    for (int64_t row = begin; row < end; ++row) {
      int64_t at = offset_;
      int64_t rest = row;
      for (int i = last - 1; i >= 0; --i) {
        at += rest % outer_[i] * strides_[i];
        rest /= outer_[i];
      }
      const T* from = in + row * columns_;
      if (step == 1) {
        std::memcpy(out + at, from, static_cast<size_t>(columns_) * sizeof(T));
      } else {
        for (int64_t c = 0; c < columns_; ++c) out[at + c * step] = from[c];
      }
    }
  }

  DType dtype_;
  int64_t out_elems_;
  int64_t offset_ = 0;
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  int threads_ = 1;
  Dims outer_;
  Strides strides_;
  std::array<std::byte, 8> value_{};
};

class ConcatenateKernel final : public graph::Kernel {
 public:
  ConcatenateKernel(const graph::KernelRequest& request) {
    const int axis = axis_of(request);
    const Shape& out = request.outputs[0].shape;
    const AxisView view(out, axis);
    rows_ = view.outer;
    const size_t inner_bytes = static_cast<size_t>(view.inner) * dtype_size(request.outputs[0].dtype);
    for (const TensorSpec& input : request.inputs) {
      row_bytes_.push_back(static_cast<size_t>(input.shape[axis]) * inner_bytes);
      out_row_bytes_ += row_bytes_.back();
    }
    threads_ = out.elems() >= 2 * kElemsPerThread && rows_ > 1 ? request.threads : 1;
  }

  void run(const graph::KernelArgs& args) override {
    parallel_for(threads_, rows_, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        std::byte* out = args.outputs[0] + static_cast<size_t>(row) * out_row_bytes_;
        for (size_t i = 0; i < row_bytes_.size(); ++i) {
          if (row_bytes_[i] == 0) continue;
          std::memcpy(out, args.inputs[i] + static_cast<size_t>(row) * row_bytes_[i], row_bytes_[i]);
          out += row_bytes_[i];
        }
      }
    });
  }

 private:
  int64_t rows_ = 0;
  int threads_ = 1;
  std::vector<size_t> row_bytes_;
  size_t out_row_bytes_ = 0;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_pad(const graph::KernelRequest& request) {
  return std::make_unique<PadKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_concatenate(const graph::KernelRequest& request) {
  return std::make_unique<ConcatenateKernel>(request);
}

}  // namespace isochron::ops
