// Times the matrix products of the `mlp` and `cnn` cases, products of sizes around the limit between the
// small kernel and oneDNN, and the packed product beside oneDNN's. The counter `flops` is a rate. To
// alternate the last two: --benchmark_filter='(Packed|Sgemm).m:'
// --benchmark_enable_random_interleaving --benchmark_repetitions=11 --benchmark_report_aggregates_only
#include <benchmark/benchmark.h>
#include <dnnl.h>
#include <omp.h>

#include <vector>

#include "isochron/backends/cpu/matmul/matmul.h"
#include "isochron/backends/cpu/matmul/packed_matmul.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/ops/rows/registry.h"

namespace isochron {
namespace {

void count_flops(benchmark::State& state, int64_t m, int64_t n, int64_t k) {
  state.counters["flops"] =
      benchmark::Counter(2.0 * static_cast<double>(m * n * k), benchmark::Counter::kIsIterationInvariantRate);
}

std::vector<float> numbers(int64_t count) {
  std::vector<float> result(static_cast<size_t>(count));
  for (size_t i = 0; i < result.size(); ++i) result[i] = static_cast<float>(i % 61) * 0.01f;
  return result;
}

// m, n, k, transpose_a, transpose_b, threads: times the op's kernel as a plan prepares it.
void BM_Matmul(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const bool ta = state.range(3), tb = state.range(4);
  const graph::OpDef& op = ops::row("matmul");
  const graph::Attributes attributes{{"transpose_a", ta}, {"transpose_b", tb}};
  const std::vector<TensorSpec> inputs{{DType::kF32, ta ? Shape{k, m} : Shape{m, k}},
                                       {DType::kF32, tb ? Shape{n, k} : Shape{k, n}}};
  const std::vector<TensorSpec> outputs = graph::infer_outputs(op, inputs, attributes);
  const auto kernel =
      graph::prepare_kernel({op, inputs, outputs, attributes, static_cast<int>(state.range(5))});
  std::vector<float> a = numbers(m * k), b = numbers(k * n), c = numbers(m * n);
  const Ref<Storage> workspace = allocate_buffer(kernel->workspace_bytes() + 1);
  std::byte* in[] = {reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data())};
  std::byte* out[] = {reinterpret_cast<std::byte*>(c.data())};
  const graph::KernelArgs args{in, out, workspace->data()};
  kernel->bind(args);
  for (auto _ : state) kernel->run(args);
  count_flops(state, m, n, k);
}

void every_case(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"m", "n", "k", "ta", "tb", "threads"})->UseRealTime();
  for (const int threads : {1, 2}) {
    bench->Args({128, 512, 784, 0, 0, threads})->Args({128, 512, 512, 0, 0, threads});  // mlp forward
    bench->Args({128, 10, 512, 0, 0, threads});
    bench->Args({784, 512, 128, 1, 0, threads})->Args({512, 512, 128, 1, 0, threads});  // weight gradients
    bench->Args({512, 10, 128, 1, 0, threads});
    bench->Args({128, 512, 512, 0, 1, threads})->Args({128, 512, 10, 0, 1, threads});  // input gradients
    bench->Args({64, 128, 9216, 0, 0, threads});  // cnn's first dense layer
    bench->Args({9216, 128, 64, 1, 0, threads})->Args({64, 9216, 128, 0, 1, threads});
  }
}
BENCHMARK(BM_Matmul)->Apply(every_case);

void BM_SmallKernel(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  std::vector<float> a = numbers(m * k), b = numbers(k * n), c = numbers(m * n);
  for (auto _ : state) ops::small_matmul<float>(m, n, k, a.data(), k, 1, b.data(), n, c.data());
  count_flops(state, m, n, k);
}

// m, n, k, transpose_a, transpose_b, on one thread, as below.
void BM_Sgemm(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const bool ta = state.range(3), tb = state.range(4);
  std::vector<float> a = numbers(m * k), b = numbers(k * n), c = numbers(m * n);
  omp_set_num_threads(1);
  for (auto _ : state) {
    dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, 1.0f, a.data(), ta ? m : k, b.data(), tb ? k : n,
               0.0f, c.data(), n);
  }
  count_flops(state, m, n, k);
}

void sizes(benchmark::internal::Benchmark* bench) {
  for (const int64_t n : {16, 32, 48, 64, 80, 96, 128}) bench->Args({n, n, n, 0, 0});
  bench->Args({32, 10, 100, 0, 0})->Args({128, 10, 512, 0, 0});
  bench->Args({128, 512, 10, 0, 0})->Args({512, 10, 128, 0, 0});
}
BENCHMARK(BM_SmallKernel)->Apply(sizes);
BENCHMARK(BM_Sgemm)->Apply(sizes);

void BM_Packed(benchmark::State& state) {
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  const bool ta = state.range(3), tb = state.range(4);
  std::vector<float> a = numbers(m * k), b = numbers(k * n), c = numbers(m * n);
  std::vector<float> workspace(ops::packed_workspace_floats(n, k, 1));
  const ops::PackedProduct product{m,        n,          k,          a.data(), ta ? 1 : k, ta ? m : 1,
                                   b.data(), tb ? 1 : n, tb ? k : 1, c.data(), n};
  for (auto _ : state) ops::packed_matmul(product, 1, workspace.data());
  count_flops(state, m, n, k);
}

void large_products(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"m", "n", "k", "ta", "tb"});
  bench->Args({128, 512, 512, 0, 0})->Args({512, 512, 128, 1, 0})->Args({128, 512, 512, 0, 1});  // mlp
  bench->Args({768, 384, 128, 0, 0})->Args({768, 128, 512, 0, 0});                               // gpt
  bench->Args({512, 128, 768, 1, 0})->Args({768, 128, 384, 0, 1});
  bench->Args({1536, 1536, 1536, 0, 0});
}
BENCHMARK(BM_Packed)->Apply(large_products);
BENCHMARK(BM_Sgemm)->Apply(large_products);

}  // namespace
}  // namespace isochron
