// Which results depend on the number of threads. docs/reproducibility.md lists them; here every op that runs
// on threads is called large enough to wake them, with 1, 2, 3 and 4.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "isochron/autograd/autograd.h"
#include "isochron/backends/common/choices.h"
#include "isochron/core/files/file.h"
#include "isochron/core/process/threads.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/attention/attention.h"
#include "isochron/ops/convolution/convolution.h"
#include "isochron/ops/convolution/pooling.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/linalg/linalg.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/normalization/normalization.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/recurrent/recurrent.h"
#include "isochron/ops/reduction/cumulative.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/reduction/softmax.h"
#include "isochron/ops/reduction/sorting.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/interpolation.h"

namespace isochron {
namespace {

using Tensors = std::vector<Tensor>;

Tensor drawn_numbers(const Shape& shape, DType dtype = DType::kF32) {
  random::Generator generator(11);
  return random_uniform(shape, -1, 1, dtype, generator);
}
Tensor labels(int64_t count, int64_t below) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i * 7919 % below));
  return from_vector({count}, values, DType::kI32);
}

/// A call: f(inputs), and the gradients of a weighted sum of its elements with respect to the inputs.
struct Case {
  std::string name;
  Tensors inputs;
  std::function<Tensor(std::span<const Tensor>)> f;
  /// For the result, then for the gradient of each input: '=' if no number of threads changes a bit; '~' if
  /// it may, because each thread sums its share or oneDNN divides the work differently.
  std::string stated;
};

std::vector<Case> cases() {
  const Tensor image = drawn_numbers({8, 28, 28, 32});
  const Tensor matrix = drawn_numbers({512, 512});
  ConvolutionOptions same;
  same.padding = Padding::same();
  ConvolutionOptions depthwise = same;
  depthwise.groups = 32;
  return {
      {"gelu", {matrix}, [](auto in) { return gelu(in[0]); }, "=="},
      {"sum", {matrix}, [](auto in) { return sum(in[0]); }, "~="},
      {"sum in f64", {drawn_numbers({512, 512}, DType::kF64)}, [](auto in) { return sum(in[0]); }, "~="},
      {"sum of rows in f64",
       {drawn_numbers({3, 100'001}, DType::kF64)},
       [](auto in) { return sum(in[0], {1}); },
       "~="},
      {"sum of columns", {matrix}, [](auto in) { return sum(in[0], {0}); }, "~="},
      {"max", {matrix}, [](auto in) { return max(in[0], {0}); }, "=="},
      {"matmul", {matrix, drawn_numbers({512, 384})}, [](auto in) { return matmul(in[0], in[1]); }, "~~~"},
      {"conv2d",
       {image, drawn_numbers({3, 3, 32, 48}), drawn_numbers({48})},
       [same](auto in) { return conv2d(in[0], in[1], in[2], same); },
       "~~~~"},
      {"conv2d of stride 2",
       {image, drawn_numbers({3, 3, 32, 48}), drawn_numbers({48})},
       [](auto in) {
         return conv2d(in[0], in[1], in[2], {.stride = {2, 2}});
       },
       "~~~~"},
      {"depthwise conv2d",
       {image, drawn_numbers({3, 3, 1, 32}), drawn_numbers({32})},
       [depthwise](auto in) { return conv2d(in[0], in[1], in[2], depthwise); },
       "===="},
      {"conv2d_transpose",
       {image, drawn_numbers({3, 3, 48, 32})},
       [](auto in) {
         return conv2d_transpose(in[0], in[1], {.stride = {2, 2}});
       },
       "~~~"},
      {"max_pool",
       {image},
       [](auto in) {
         return max_pool2d(in[0], {2, 2});
       },
       "=="},
      {"average_pool",
       {image},
       [](auto in) {
         return average_pool2d(in[0], {2, 2});
       },
       "=="},
      {"softmax", {matrix}, [](auto in) { return softmax(in[0]); }, "=="},
      {"sparse_softmax_cross_entropy",
       {matrix},
       [](auto in) { return sparse_softmax_cross_entropy(in[0], labels(512, 512)); },
       "=="},
      {"layer_norm",
       {matrix, drawn_numbers({512}), drawn_numbers({512})},
       [](auto in) { return layer_norm(in[0], in[1], in[2]); },
       "==~~"},
      {"channel_moments", {image}, [](auto in) { return channel_moments(in[0]).variance; }, "=="},
      {"batch_norm",
       {image, drawn_numbers({32}), drawn_numbers({32})},
       [](auto in) { return batch_norm(in[0], in[1], in[2]).y; },
       "===="},
      {"group_norm",
       {image, drawn_numbers({32}), drawn_numbers({32})},
       [](auto in) { return group_norm(in[0], 8, in[1], in[2]); },
       "===="},
      {"attention",
       {drawn_numbers({4, 128, 4, 32}), drawn_numbers({4, 128, 4, 32}), drawn_numbers({4, 128, 4, 32})},
       [](auto in) { return attention(in[0], in[1], in[2], {.causal = true}); },
       "===="},
      {"lstm",
       {drawn_numbers({64, 24, 16}), drawn_numbers({16, 256}), drawn_numbers({64, 256}),
        drawn_numbers({256})},
       [](auto in) { return lstm(in[0], in[1], in[2], in[3]).sequence; },
       "==~~~"},
      {"gru",
       {drawn_numbers({64, 24, 16}), drawn_numbers({16, 192}), drawn_numbers({64, 192}),
        drawn_numbers({2, 192})},
       [](auto in) { return gru(in[0], in[1], in[2], in[3]).sequence; },
       "==~~~"},
      {"gather", {matrix}, [](auto in) { return gather(in[0], labels(4096, 512)); }, "=="},
      {"cumulative_sum", {matrix}, [](auto in) { return cumulative_sum(in[0], 0); }, "=="},
      {"resize",
       {image},
       [](auto in) {
         return resize(in[0], {45, 45});
       },
       "=="},
      {"sort", {matrix}, [](auto in) { return sort(in[0]).first; }, "=="},
      {"inverse", {drawn_numbers({64, 32, 32})}, [](auto in) { return inverse(in[0]); }, "=="},
      {"random_uniform",
       {},
       [](auto) {
         return drawn_numbers({512, 1024});
       },
       "="},
  };
}

/// Computes the case with `threads` threads, prepared anew.
std::vector<std::vector<double>> results(const Case& test, int threads) {
  set_compute_threads(threads);
  const Tensor outcome = test.f(test.inputs);
  const Tensor weights = drawn_numbers(outcome.shape(), outcome.dtype());
  CapturedFunction function(
      [&](std::span<const Tensor> in) {
        Tensors all = {test.f(in)};
        if (in.empty()) return all;
        const Tensor target = sum(all[0] * weights);
        for (const Tensor& gradient : gradients(target, in)) all.push_back(gradient);
        return all;
      },
      {});
  std::vector<const Tensor*> arguments;
  for (const Tensor& input : test.inputs) arguments.push_back(&input);
  std::vector<std::vector<double>> values;
  for (const Tensor& result : function.call(arguments)) values.push_back(result.to_vector());
  return values;
}

/// The rows of the table in docs/reproducibility.md.
std::string table_row(const Case& test) {
  const auto word = [](std::string_view stated) {
    return stated.find('~') == std::string_view::npos ? "same bits" : "may differ";
  };
  const std::string_view stated = test.stated;
  return fmt::format("| {} | {} | {} |\n", test.name, word(stated.substr(0, 1)),
                     stated.size() == 1 ? "none" : word(stated.substr(1)));
}

double length(const std::vector<double>& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}
double distance(std::vector<double> a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return length(a);
}

/// There a team has one thread, whatever was asked for. What is prepared there knows it; what was prepared
/// outside is right all the same, or refused where the library would err.
TEST(Threads, ResultsAreRightOrRefusedWithinAParallelRegion) {
  const int before = compute_threads();
  for (const Case& test : cases()) {
    if (test.inputs.empty()) continue;  // draws other numbers each time
    SCOPED_TRACE(test.name);
    set_compute_threads(2);
    CapturedFunction prepared([&](std::span<const Tensor> in) { return Tensors{test.f(in)}; }, {});
    std::vector<const Tensor*> arguments;
    for (const Tensor& input : test.inputs) arguments.push_back(&input);
    const std::vector<double> expected = prepared.call(arguments)[0].to_vector();
    std::vector<double> anew, replayed;
    std::string refused;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
      try {
        anew = results(test, 2)[0];
        replayed = prepared.call(arguments)[0].to_vector();
      } catch (const Error& error) {
        refused = error.what();
      }
    }
    const double near = 1e-5 * length(expected);
    ASSERT_EQ(anew.size(), expected.size()) << refused;
    EXPECT_LE(distance(anew, expected), near);
    if (refused.empty()) {
      EXPECT_LE(distance(replayed, expected), near);
    } else {
      EXPECT_THAT(refused, testing::HasSubstr("within an OpenMP parallel region"));
    }
  }
  set_compute_threads(before);
}

TEST(Threads, ChangeNoOtherResultsThanThoseStated) {
  const int before = compute_threads();
  const ops::Deterministic by_rule;
  int changed = 0;
  for (const Case& test : cases()) {
    SCOPED_TRACE(test.name);
    const std::vector<std::vector<double>> one = results(test, 1);
    ASSERT_EQ(one.size(), test.stated.size());
    for (const int threads : {2, 3, 4}) {
      const std::vector<std::vector<double>> many = results(test, threads);
      for (size_t k = 0; k < one.size(); ++k) {
        if (many[k] == one[k]) continue;
        ++changed;
        EXPECT_EQ(test.stated[k], '~') << "result " << k << " on " << threads << " threads";
        EXPECT_LT(distance(many[k], one[k]), 1e-5 * length(one[k])) << "result " << k;
      }
    }
  }
  EXPECT_GT(changed, 0) << "were the calls large enough to wake the threads?";
  set_compute_threads(before);
}

TEST(Threads, ThePageSaysWhatTheyChange) {
  const std::vector<std::byte> bytes = read_file(ISOCHRON_SOURCE_DIR "/docs/reproducibility.md");
  const std::string page(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string table;
  for (const Case& test : cases()) table += table_row(test);
  EXPECT_THAT(page, testing::HasSubstr(table));
}

}  // namespace
}  // namespace isochron
