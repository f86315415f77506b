// A matrix product library for the simulated device. It offers two algorithms; both compute by the definition
// on column-major matrices, like those that the real library is given.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "isochron/backends/cuda/libraries/products.h"
#include "isochron/core/base/error.h"
#include "support/simulated/simulated_driver.h"

namespace isochron::cuda {

class SimulatedProducts final : public ProductLibrary {
 public:
  int64_t version() override { return 130000; }
  LibraryAlgorithms algorithms(Context& context, const ProductSpec& spec) override {
    check(spec);
    specs.push_back(spec);
    LibraryAlgorithms result;
    for (const size_t bytes : {size_t{0}, size_t{512}})
      result.push_back(std::make_unique<Call>(dynamic_cast<SimulatedContext&>(context), spec, bytes,
                                              failing.contains(bytes), losing_nan.contains(bytes)));
    return result;
  }

  std::vector<ProductSpec> specs;  // of all that was asked for
  std::set<size_t> failing;        // algorithms that fail, by their workspace
  std::set<size_t> losing_nan;     // those whose larger of NaN and 0 is 0

 private:
  class Call final : public LibraryAlgorithm {
   public:
    Call(SimulatedContext& context, const ProductSpec& spec, size_t workspace_bytes, bool fails,
         bool loses_nan)
        : context_(context),
          spec_(spec),
          workspace_bytes_(workspace_bytes),
          fails_(fails),
          loses_nan_(loses_nan) {}
    std::string name() const override { return "simulated " + std::to_string(workspace_bytes_); }
    size_t workspace_bytes() const override { return workspace_bytes_; }
    void enqueue(std::span<const DevicePtr> tensors, DevicePtr workspace, Stream stream) override {
      require(!fails_, ErrorCode::kDevice, "cuda", "this algorithm fails");
      context_.launch(
          [=, tensors = std::vector(tensors.begin(), tensors.end()), spec = spec_, bytes = workspace_bytes_,
           loses_nan = loses_nan_] {
            const DevicePtr a = tensors[0], b = tensors[1], c = tensors[2];
            if (bytes > 0) std::memset(reinterpret_cast<void*>(workspace), 0xA5, bytes);
            if (spec.in_bytes()) return multiply_bytes(spec, a, b, c, *scale(tensors[3]), *scale(tensors[4]));
            const Terms terms{spec.add_matrix ? tensors[3] : 0,
                              spec.add_bias ? tensors[spec.add_matrix ? 4 : 3] : 0, loses_nan};
            switch (spec.factors) {
              case DType::kF64:
                return multiply<double, double, double>(spec, a, b, c, terms);
              case DType::kF32:
                return multiply<float, float, float>(spec, a, b, c, terms);
              case DType::kF16:
                return multiply_half<float16>(spec, a, b, c, terms);
              default:
                return multiply_half<bfloat16>(spec, a, b, c, terms);
            }
          },
          stream);
    }

   private:
    /// What is added to a product; 0: nothing.
    struct Terms {
      DevicePtr matrix = 0, bias = 0;
      bool loses_nan = false;
    };
    static const float* scale(DevicePtr at) { return reinterpret_cast<const float*>(at); }
    /// By the formats' definition.
    static double number(unsigned byte, Float8 format) {
      const unsigned fraction_bits = format == Float8::kE5M2 ? 2 : 3;
      const int bias = format == Float8::kE5M2 ? 15 : 7;
      const int exponent = static_cast<int>((byte & 0x7fU) >> fraction_bits);
      const double fraction = (byte & ((1U << fraction_bits) - 1)) / static_cast<double>(1U << fraction_bits);
      const bool last = (byte & 0x7fU) >= (format == Float8::kE5M2 ? 0x7cU : 0x7fU);
      if (last) return std::numeric_limits<double>::quiet_NaN();
      const double magnitude =
          exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
      return (byte & 0x80U) != 0 ? -magnitude : magnitude;
    }
    static void multiply_bytes(const ProductSpec& spec, DevicePtr a_at, DevicePtr b_at, DevicePtr c_at,
                               double scale_a, double scale_b) {
      const auto* a = reinterpret_cast<const unsigned char*>(a_at);
      const auto* b = reinterpret_cast<const unsigned char*>(b_at);
      for (int64_t column = 0; column < spec.n; ++column) {
        for (int64_t row = 0; row < spec.m; ++row) {
          double sum = 0;
          for (int64_t p = 0; p < spec.k; ++p)
            sum += number(a[p + row * spec.a_lead], spec.a_bytes) *
                   number(b[p + column * spec.b_lead], spec.b_bytes);
          const auto result = static_cast<float>(sum * scale_a * scale_b);
          const int64_t at = row + column * spec.c_lead;
          if (spec.result == DType::kF32) {
            reinterpret_cast<float*>(c_at)[at] = result;
          } else {
            reinterpret_cast<bfloat16*>(c_at)[at] = bfloat16(result);
          }
        }
      }
    }
    template <typename T>
    static void multiply_half(const ProductSpec& spec, DevicePtr a, DevicePtr b, DevicePtr c,
                              const Terms& terms) {
      if (spec.result == DType::kF32) return multiply<T, float, float>(spec, a, b, c, terms);
      multiply<T, T, float>(spec, a, b, c, terms);
    }
    template <typename Factor, typename Result, typename Sum>
    static void multiply(const ProductSpec& spec, DevicePtr a_at, DevicePtr b_at, DevicePtr c_at,
                         const Terms& terms) {
      const auto* a = reinterpret_cast<const Factor*>(a_at);
      const auto* b = reinterpret_cast<const Factor*>(b_at);
      auto* c = reinterpret_cast<Result*>(c_at);
      const auto* matrix = reinterpret_cast<const Result*>(terms.matrix);
      const auto* bias = reinterpret_cast<const Result*>(terms.bias);
      const int64_t a_next = spec.transpose_a ? 1 : spec.a_lead, b_next = spec.transpose_b ? spec.b_lead : 1;
      for (int64_t i = 0; i < spec.count; ++i, a += spec.a_step, b += spec.b_step) {
        for (int64_t column = 0; column < spec.n; ++column) {
          for (int64_t row = 0; row < spec.m; ++row) {
            const Factor* at_a = a + row * (spec.transpose_a ? spec.a_lead : 1);
            const Factor* at_b = b + column * (spec.transpose_b ? 1 : spec.b_lead);
            Sum sum = 0;
            for (int64_t p = 0; p < spec.k; ++p, at_a += a_next, at_b += b_next)
              sum += static_cast<Sum>(*at_a) * static_cast<Sum>(*at_b);
            const int64_t at = row + column * spec.c_lead + i * spec.c_step;
            if (matrix != nullptr) sum += static_cast<Sum>(matrix[at]);
            if (bias != nullptr) sum += static_cast<Sum>(bias[row]);
            if (spec.relu && (sum < 0 || (terms.loses_nan && std::isnan(sum)))) sum = 0;
            c[at] = static_cast<Result>(sum);
          }
        }
      }
    }

    SimulatedContext& context_;
    const ProductSpec spec_;
    const size_t workspace_bytes_;
    const bool fails_, loses_nan_;
  };
};

}  // namespace isochron::cuda
