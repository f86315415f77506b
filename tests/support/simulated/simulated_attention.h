// An attention library for the simulated device, which computes by the definition.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "isochron/backends/cuda/libraries/attention.h"
#include "support/simulated/simulated_driver.h"

namespace isochron::cuda {

class SimulatedAttention final : public AttentionLibrary {
 public:
  int64_t version() override { return 91900; }
  LibraryAlgorithms algorithms(Context& context, const AttentionSpec& spec) override {
    specs.push_back(spec);
    LibraryAlgorithms result;
    if (spec.batch <= most_samples)
      result.push_back(std::make_unique<Call>(dynamic_cast<SimulatedContext&>(context), spec));
    return result;
  }

  std::vector<AttentionSpec> specs;  // of all that was asked for
  int64_t most_samples = 1 << 20;    // there is no way for more of them

 private:
  class Call final : public LibraryAlgorithm {
   public:
    Call(SimulatedContext& context, const AttentionSpec& spec) : context_(context), spec_(spec) {}
    std::string name() const override { return "simulated attention"; }
    size_t workspace_bytes() const override { return 0; }
    void enqueue(std::span<const DevicePtr> tensors, DevicePtr, Stream stream) override {
      context_.launch(
          [s = spec_, at = std::vector(tensors.begin(), tensors.end())] {
            s.dtype == DType::kF16 ? run<float16>(s, at) : run<bfloat16>(s, at);
          },
          stream);
    }

   private:
    /// One head of one sample: row i has `width` numbers.
    template <typename T>
    struct Head {
      T* first;
      int64_t step;
      T* row(int64_t i) const { return first + i * step; }
    };

    template <typename T>
    static void run(const AttentionSpec& s, const std::vector<DevicePtr>& at) {
      const int64_t share = s.heads / s.key_heads;
      for (int64_t n = 0; n < s.batch; ++n) {
        const auto head = [&](size_t tensor, int64_t length, int64_t step, int64_t h) {
          return Head<T>{reinterpret_cast<T*>(at[tensor]) + n * length * step + h * s.width, step};
        };
        const auto queries = [&](size_t t, int64_t h) { return head(t, s.queries, s.query_step, h); };
        const auto keys = [&](size_t t, int64_t h) { return head(t, s.keys, s.key_step, h); };
        const auto results = [&](size_t t, int64_t h) { return head(t, s.queries, s.heads * s.width, h); };
        const auto rows = [&](size_t t, int64_t h) {
          return reinterpret_cast<float*>(at[t]) + (n * s.heads + h) * s.queries;
        };
        for (int64_t k = 0; k < s.key_heads; ++k) {
          std::vector<double> dk(static_cast<size_t>(s.keys * s.width)), dv(dk.size());
          for (int64_t h = k * share; h < (k + 1) * share; ++h) {
            if (s.pass == AttentionSpec::Pass::kForward)
              forward(s, queries(0, h), keys(1, k), keys(2, k), results(3, h), rows(4, h));
            else
              gradient(s, {queries(0, h), keys(1, k), keys(2, k), results(3, h), results(4, h)}, rows(5, h),
                       queries(6, h), rows(9, h), dk, dv);
          }
          if (s.pass == AttentionSpec::Pass::kForward) continue;
          for (int64_t j = 0; j < s.keys; ++j) {
            for (int64_t c = 0; c < s.width; ++c) {
              keys(7, k).row(j)[c] =
                  static_cast<T>(static_cast<float>(dk[static_cast<size_t>(j * s.width + c)]));
              keys(8, k).row(j)[c] =
                  static_cast<T>(static_cast<float>(dv[static_cast<size_t>(j * s.width + c)]));
            }
          }
        }
      }
    }

    template <typename T>
    static double product(const AttentionSpec& s, const T* a, const T* b) {
      double sum = 0;
      for (int64_t c = 0; c < s.width; ++c)
        sum += double{static_cast<float>(a[c])} * double{static_cast<float>(b[c])};
      return sum;
    }
    static int64_t seen(const AttentionSpec& s, int64_t i) { return s.causal ? i + 1 : s.keys; }

    template <typename T>
    static void forward(const AttentionSpec& s, Head<T> q, Head<T> k, Head<T> v, Head<T> y, float* logs) {
      for (int64_t i = 0; i < s.queries; ++i) {
        double sum = 0;
        std::vector<double> row(static_cast<size_t>(s.width));
        for (int64_t j = 0; j < seen(s, i); ++j) {
          const double weight = std::exp(s.scale * product(s, q.row(i), k.row(j)));
          sum += weight;
          for (int64_t c = 0; c < s.width; ++c)
            row[static_cast<size_t>(c)] += weight * double{static_cast<float>(v.row(j)[c])};
        }
        for (int64_t c = 0; c < s.width; ++c)
          y.row(i)[c] = static_cast<T>(static_cast<float>(row[static_cast<size_t>(c)] / sum));
        logs[i] = static_cast<float>(std::log(sum));
      }
    }

    template <typename T>
    struct Given {
      Head<T> q, k, v, y, dy;
    };
    template <typename T>
    static void gradient(const AttentionSpec& s, const Given<T>& g, const float* logs, Head<T> dq,
                         float* deltas, std::vector<double>& dk, std::vector<double>& dv) {
      for (int64_t i = 0; i < s.queries; ++i) {
        std::vector<double> row(static_cast<size_t>(s.width));
        deltas[i] = static_cast<float>(product(s, g.y.row(i), g.dy.row(i)));
        for (int64_t j = 0; j < seen(s, i); ++j) {
          const double weight = std::exp(s.scale * product(s, g.q.row(i), g.k.row(j)) - double{logs[i]});
          const double of_score =
              s.scale * weight * (product(s, g.dy.row(i), g.v.row(j)) - double{deltas[i]});
          for (int64_t c = 0; c < s.width; ++c) {
            const auto at = static_cast<size_t>(j * s.width + c);
            row[static_cast<size_t>(c)] += of_score * double{static_cast<float>(g.k.row(j)[c])};
            dk[at] += of_score * double{static_cast<float>(g.q.row(i)[c])};
            dv[at] += weight * double{static_cast<float>(g.dy.row(i)[c])};
          }
        }
        for (int64_t c = 0; c < s.width; ++c)
          dq.row(i)[c] = static_cast<T>(static_cast<float>(row[static_cast<size_t>(c)]));
      }
    }

    SimulatedContext& context_;
    const AttentionSpec spec_;
  };
};

}  // namespace isochron::cuda
