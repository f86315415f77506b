// A convolution library for the simulated device, which computes by the definition.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "isochron/backends/cuda/libraries/convolutions.h"
#include "support/simulated/simulated_driver.h"

namespace isochron::cuda {

class SimulatedConvolutions final : public ConvolutionLibrary {
 public:
  int64_t version() override { return 91900; }
  LibraryAlgorithms algorithms(Context& context, const ConvolutionSpec& spec) override {
    specs.push_back(spec);
    LibraryAlgorithms result;
    if (spec.batch != none_for_batch)
      result.push_back(std::make_unique<Call>(dynamic_cast<SimulatedContext&>(context), spec));
    return result;
  }

  std::vector<ConvolutionSpec> specs;  // of all that was asked for
  int64_t none_for_batch = 0;          // there is no way for images in batches of so many

 private:
  using Pass = ConvolutionSpec::Pass;

  class Call final : public LibraryAlgorithm {
   public:
    Call(SimulatedContext& context, const ConvolutionSpec& spec) : context_(context), spec_(spec) {}
    std::string name() const override { return "simulated convolution"; }
    size_t workspace_bytes() const override { return 0; }
    void enqueue(std::span<const DevicePtr> tensors, DevicePtr, Stream stream) override {
      context_.launch(
          [spec = spec_, x = tensors[0], kernel = tensors[1], y = tensors[2]] {
            if (spec.dtype == DType::kF32) return run<float>(spec, x, kernel, y);
            if (spec.dtype == DType::kF16) return run<float16>(spec, x, kernel, y);
            run<bfloat16>(spec, x, kernel, y);
          },
          stream);
    }

   private:
    template <typename T>
    static void run(const ConvolutionSpec& s, DevicePtr x_at, DevicePtr kernel_at, DevicePtr y_at) {
      auto* x = reinterpret_cast<T*>(x_at);
      auto* kernel = reinterpret_cast<T*>(kernel_at);
      auto* y = reinterpret_cast<T*>(y_at);
      const auto count = [&](int64_t ConvolutionSpec::Axis::*extent) {
        int64_t all = 1;
        for (int a = 0; a < s.axes; ++a) all *= s.axis[static_cast<size_t>(a)].*extent;
        return all;
      };
      const int64_t inputs = count(&ConvolutionSpec::Axis::input),
                    outputs = count(&ConvolutionSpec::Axis::output);
      const int64_t elems = count(&ConvolutionSpec::Axis::window), depth = s.channels / s.groups;
      const int64_t share = s.outputs / s.groups;
      std::vector<float> result(static_cast<size_t>(s.pass == Pass::kForward ? s.batch * outputs * s.outputs
                                                    : s.pass == Pass::kInputGradient
                                                        ? s.batch * inputs * s.channels
                                                        : elems * depth * s.outputs));
      for (int64_t n = 0; n < s.batch; ++n) {
        for (int64_t p = 0; p < outputs; ++p) {
          for (int64_t k = 0; k < elems; ++k) {
            const int64_t pixel = source(s, p, k);
            if (pixel < 0) continue;
            for (int64_t o = 0; o < s.outputs; ++o) {
              const int64_t xi = (n * inputs + pixel) * s.channels + o / share * depth;
              const int64_t ki = (o * elems + k) * depth, yi = (n * outputs + p) * s.outputs + o;
              float* const to = &result[static_cast<size_t>(s.pass == Pass::kForward         ? yi
                                                            : s.pass == Pass::kInputGradient ? xi
                                                                                             : ki)];
              const T* const xs = x + xi;
              const T* const ks = kernel + ki;
              if (s.pass == Pass::kForward) {
                float sum = *to;
                for (int64_t c = 0; c < depth; ++c)
                  sum += static_cast<float>(xs[c]) * static_cast<float>(ks[c]);
                *to = sum;
                continue;
              }
              const auto gradient = static_cast<float>(y[yi]);
              const T* const by = s.pass == Pass::kInputGradient ? ks : xs;
              for (int64_t c = 0; c < depth; ++c) to[c] += gradient * static_cast<float>(by[c]);
            }
          }
        }
      }
      T* to = s.pass == Pass::kForward ? y : s.pass == Pass::kInputGradient ? x : kernel;
      std::ranges::transform(result, to, [](float sum) { return static_cast<T>(sum); });
    }
    /// The input pixel under window element `k` of output `p`, or -1.
    static int64_t source(const ConvolutionSpec& s, int64_t p, int64_t k) {
      int64_t pixel = 0, stride = 1;
      for (int a = s.axes - 1; a >= 0; --a) {
        const ConvolutionSpec::Axis& axis = s.axis[static_cast<size_t>(a)];
        const int64_t i = p % axis.output * axis.stride - axis.before + k % axis.window * axis.dilation;
        if (i < 0 || i >= axis.input) return -1;
        pixel += i * stride;
        stride *= axis.input;
        p /= axis.output;
        k /= axis.window;
      }
      return pixel;
    }

    SimulatedContext& context_;
    const ConvolutionSpec spec_;
  };
};

}  // namespace isochron::cuda
