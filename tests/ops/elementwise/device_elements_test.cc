// The text of generated device kernels, compiled for the host and compared with the CPU's kernels: every
// element op on every dtype for which it is defined, broadcasts, fused chains and reductions of all shapes.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "isochron/backends/cpu/elementwise/fused.h"
#include "isochron/backends/cuda/common/element_source.h"
#include "isochron/backends/cuda/common/kernel_text.h"
#include "isochron/core/base/rng.h"
#include "isochron/core/cuda/compiler.h"
#include "isochron/core/cuda/driver.h"
#include "isochron/core/tensor/tensor.h"
#include "support/expect_error.h"
#include "support/simulated/host_compiler.h"

namespace isochron {
namespace {

using graph::ElementOp;
using graph::ElementProgram;
using graph::ReduceKind;

constexpr int kMultiprocessors = 4;

double number_at(const std::byte* data, DType dtype, int64_t i) {
  return dispatch_dtype(dtype, [&]<typename T>(T) {
    T value;
    std::memcpy(&value, data + static_cast<size_t>(i) * sizeof(T), sizeof(T));
    if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
      return static_cast<double>(static_cast<float>(value));
    } else {
      return static_cast<double>(value);
    }
  });
}

/// Includes the edge cases of the functions.
void fill(std::byte* data, DType dtype, int64_t elems, Rng& rng) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double edges[] = {0, -0.0, 1,  -1,  0.5,      -0.5,      2.5,         3,
                          6, -7,   30, -30, infinity, -infinity, std::nan("")};
  const int64_t whole_edges[] = {
      0, 1, -1, 2, 7, -8, 255, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  dispatch_dtype(dtype, [&]<typename T>(T) {
    for (int64_t i = 0; i < elems; ++i) {
      const bool edge = rng.uniform() < 0.3;
      T value{};
      if constexpr (std::is_same_v<T, bool>) {
        value = rng.uniform() < 0.5;
      } else if constexpr (std::is_integral_v<T>) {
        value = static_cast<T>(edge ? whole_edges[rng.next_u64() % std::size(whole_edges)]
                                    : static_cast<int64_t>(rng.next_u64() % 41) - 20);
      } else {
        const double number = edge ? edges[rng.next_u64() % std::size(edges)]
                                   : (2 * rng.uniform() - 1) * (rng.uniform() < 0.2 ? 40 : 4);
        if constexpr (std::is_floating_point_v<T>) {
          value = static_cast<T>(number);
        } else {
          value = T(static_cast<float>(number));
        }
      }
      std::memcpy(data + static_cast<size_t>(i) * sizeof(T), &value, sizeof(T));
    }
  });
}

/// Fills with numbers from `low` to `high`.
void fill_between(std::byte* data, DType dtype, int64_t elems, Rng& rng, double low, double high) {
  dispatch_dtype(dtype, [&]<typename T>(T) {
    for (int64_t i = 0; i < elems; ++i) {
      const auto value = static_cast<T>(static_cast<float>(low + (high - low) * rng.uniform()));
      std::memcpy(data + static_cast<size_t>(i) * sizeof(T), &value, sizeof(T));
    }
  });
}

/// `scale`: the magnitude of the terms that cancel in the result.
bool agree(double device, double host, DType dtype, double scale) {
  if (std::isnan(host) || std::isnan(device)) return std::isnan(host) && std::isnan(device);
  if (device == host) return true;
  if (!is_floating(dtype)) return false;
  // One unit in the last place of 16 bits: both round what differs in the last of 24.
  const double relative = dtype == DType::kF64   ? 1e-13
                          : dtype == DType::kF32 ? 2e-6
                          : dtype == DType::kF16 ? 1e-3
                                                 : 8e-3;
  const double absolute = dtype == DType::kF64 ? 1e-14 : dtype == DType::kF16 ? 1e-6 : 2e-7;
  return std::abs(device - host) <= relative * std::abs(host) + scale * absolute;
}

using Bytes = std::vector<std::byte>;

/// Programs that are compiled together, run both ways and compared.
class Programs {
 public:
  void add(std::string what, ElementProgram program) {
    programs_.push_back({std::move(what), std::move(program)});
  }
  /// A program whose inputs and outputs begin one element after an aligned pack.
  void add_unaligned(std::string what, ElementProgram program) {
    programs_.push_back({std::move(what), std::move(program), std::nullopt, true});
  }
  /// A program whose inputs are numbers from `low` to `high`, without edge cases.
  void add_between(std::string what, ElementProgram program, double low, double high) {
    programs_.push_back({std::move(what), std::move(program), std::pair(low, high)});
  }

  void check() {
    std::string text = "static __device__ unsigned arrivals[64];\n" + ops::element_prelude();
    std::vector<ops::ElementSource> sources;
    for (size_t p = 0; p < programs_.size(); ++p) {
      sources.push_back(ops::element_source(programs_[p].program, fmt::format("p{}", p), kMultiprocessors));
      text += sources.back().text;
    }
    const HostKernels kernels(text);
    for (size_t p = 0; p < programs_.size(); ++p) compare(programs_[p], sources[p], kernels);
    compile_for_devices(text);
  }

 private:
  struct Named {
    std::string what;
    ElementProgram program;
    std::optional<std::pair<double, double>> range = {};
    bool unaligned = false;
  };

  void compare(const Named& named, const ops::ElementSource& source, const HostKernels& kernels) {
    const ElementProgram& program = named.program;
    std::vector<Bytes> inputs, expected, actual;
    for (const ElementProgram::Operand& operand : program.operands) {
      if (operand.immediate) continue;
      inputs.emplace_back(operand.spec.size_bytes() + 64);
      const int64_t elems = operand.spec.shape.elems();
      if (named.range) {
        const auto [low, high] = *named.range;
        fill_between(inputs.back().data(), operand.spec.dtype, elems, rng_, low, high);
      } else {
        fill(inputs.back().data(), operand.spec.dtype, elems, rng_);
      }
    }
    for (size_t o = 0; o < program.outputs.size(); ++o) {
      expected.emplace_back(program.output_spec(static_cast<int>(o)).size_bytes() + 64, std::byte{0x5a});
      actual.push_back(expected.back());
    }
    std::vector<std::byte*> in, out;
    for (Bytes& input : inputs) in.push_back(input.data());
    for (Bytes& output : expected) out.push_back(output.data());
    const auto kernel = ops::make_fused_kernel(program, 1);
    Bytes workspace(kernel->workspace_bytes() + 64);
    auto* aligned =
        reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(workspace.data()) + 63) / 64 * 64);
    const graph::KernelArgs args{in.data(), out.data(), aligned};
    kernel->bind(args);
    kernel->run(args);

    Bytes device_workspace(source.workspace_bytes);
    std::vector<void*> addresses;
    std::vector<size_t> elements;  // bytes of one, of inputs and then outputs
    for (const ElementProgram::Operand& operand : program.operands)
      if (!operand.immediate) elements.push_back(dtype_size(operand.spec.dtype));
    for (size_t o = 0; o < program.outputs.size(); ++o)
      elements.push_back(dtype_size(program.output_spec(static_cast<int>(o)).dtype));
    for (std::vector<Bytes>* const all : {&inputs, &actual}) {
      for (Bytes& bytes : *all) {
        const size_t behind = named.unaligned ? elements[addresses.size()] : 0;
        std::rotate(bytes.begin(), bytes.end() - static_cast<std::ptrdiff_t>(behind), bytes.end());
        addresses.push_back(bytes.data() + behind);
      }
    }
    addresses.push_back(device_workspace.data());
    std::vector<void*> arguments;
    for (void*& address : addresses) arguments.push_back(&address);
    for (const ops::ElementLaunch& launch : source.launches) {
      ASSERT_LE(launch.arrivals, 64);
      unsigned arrival = 0;
      std::vector<void*> all = arguments;
      if (launch.arrivals > 0) all.push_back(&arrival);
      kernels.run(launch.function, launch.grid, launch.block, all);
    }
    for (size_t o = 0; named.unaligned && o < actual.size(); ++o) {
      const size_t behind = elements[inputs.size() + o];
      std::rotate(actual[o].begin(), actual[o].begin() + static_cast<std::ptrdiff_t>(behind),
                  actual[o].end());
    }
    // The gradients that gelu_grad multiplies are up to 40; where its other factor crosses 0, its terms
    // cancel.
    const double scale = named.what == "gelu_grad" ? 40 : 1;
    for (size_t o = 0; o < program.outputs.size(); ++o) {
      const TensorSpec spec = program.output_spec(static_cast<int>(o));
      for (int64_t i = 0; i < spec.shape.elems(); ++i) {
        const double device = number_at(actual[o].data(), spec.dtype, i);
        const double host = number_at(expected[o].data(), spec.dtype, i);
        ASSERT_TRUE(agree(device, host, spec.dtype, scale))
            << named.what << " " << program.str() << ", output " << o << " element " << i << ": " << device
            << " on the device, " << host << " on the CPU\n"
            << source.text;
      }
      EXPECT_TRUE(std::equal(actual[o].end() - 64, actual[o].end(), expected[o].end() - 64))
          << named.what << " wrote beyond its output";
    }
  }

  std::vector<Named> programs_;
  Rng rng_{7};
};

bool defined_on_cpu(const ElementProgram& program) {
  try {
    ops::make_fused_kernel(program, 1);
    return true;
  } catch (const Error&) {
    return false;
  }
}

TEST(DeviceElements, EveryOpAgreesWithTheCpuOnEveryDtype) {
  Programs programs;
  int defined = 0;
  for (int id = 0; id < graph::kElementOpCount; ++id) {
    const auto op = static_cast<ElementOp>(id);
    for (int d = 0; d < kDTypeCount; ++d) {
      const auto dtype = static_cast<DType>(d);
      std::vector<TensorSpec> inputs(static_cast<size_t>(graph::element_op_arity(op)), {dtype, Shape{600}});
      if (op == ElementOp::kWhere) inputs[0].dtype = DType::kBool;
      const bool predicate = graph::element_op_is_predicate(op);
      const bool logical =
          op == ElementOp::kLogicalNot || op == ElementOp::kLogicalAnd || op == ElementOp::kLogicalOr;
      if (logical && dtype != DType::kBool) continue;
      if (op == ElementOp::kCast) {
        for (int t = 0; t < kDTypeCount; ++t) {
          const auto to = static_cast<DType>(t);
          const ElementProgram cast = graph::elementwise_program(op, inputs, {to, Shape{600}});
          if (is_floating(dtype) && !is_floating(to) && to != DType::kBool) {
            programs.add_between("cast", cast, to == DType::kU8 ? 0 : -300, to == DType::kU8 ? 255 : 300);
          } else {
            programs.add("cast", cast);
          }
        }
        continue;
      }
      const ElementProgram program =
          graph::elementwise_program(op, inputs, {predicate ? DType::kBool : dtype, Shape{600}});
      if (defined_on_cpu(program)) {
        programs.add(std::string(graph::element_op_name(op)), program);
        ++defined;
      } else {
        EXPECT_ERROR(ops::element_source(program, "p", 1), ErrorCode::kUnsupported, dtype_name(dtype).data());
      }
    }
  }
  EXPECT_GT(defined, 250);
  programs.check();
}

TEST(DeviceElements, BroadcastOperandsAreFound) {
  Programs programs;
  const Shape shape{3, 4, 5, 7};
  for (const Shape& other :
       {Shape{3, 4, 5, 7}, Shape{}, Shape{7}, Shape{1, 7}, Shape{3, 1, 1, 1}, Shape{3, 4, 1, 1},
        Shape{1, 4, 1, 7}, Shape{4, 1, 7}, Shape{3, 1, 5, 1}, Shape{5, 1}}) {
    const TensorSpec operands[] = {{DType::kF32, shape}, {DType::kF32, other}};
    programs.add(other.str(), graph::elementwise_program(ElementOp::kSub, operands, {DType::kF32, shape}));
  }
  programs.check();
}

/// gelu(a * b + 0.5) and its square, both kept, one in 16 bits.
ElementProgram chain(const Shape& shape) {
  ElementProgram program;
  program.shape = shape;
  program.operands = {{{DType::kF32, shape}},
                      {{DType::kF32, Shape{shape[shape.rank() - 1]}}},
                      {{DType::kF32, Shape{}}, true, 0.5}};
  program.code = {{ElementOp::kMulAdd, DType::kF32, {0, 1, 2}},
                  {ElementOp::kGelu, DType::kF32, {3}},
                  {ElementOp::kSquare, DType::kF32, {4}},
                  {ElementOp::kCast, DType::kBF16, {5}}};
  program.outputs = {{4}, {6}};
  return program;
}

TEST(DeviceElements, ChainsKeepWhatIsAskedFor) {
  Programs programs;
  programs.add("chain", chain({9, 33}));
  ElementProgram with_sums = chain({9, 33});
  with_sums.outputs.push_back({5, true, ReduceKind::kSum, {1}});
  with_sums.outputs.push_back({5, true, ReduceKind::kMax, {0}, true});
  EXPECT_EQ(ops::element_source(with_sums, "chain", 132).launches.size(), 2u)
      << "one for each kind of axes, the last of which writes what isn't reduced";
  programs.add("chain with reductions", with_sums);
  ElementProgram split = chain({60, 33});
  split.outputs.push_back({5, true, ReduceKind::kMax, {0}});
  const ops::ElementSource together = ops::element_source(split, "chain", kMultiprocessors);
  ASSERT_EQ(together.launches.size(), 1u);
  EXPECT_GT(together.launches[0].grid[1], 1u);
  EXPECT_EQ(ops::element_source(split, "chain", 1).launches.size(), 2u)
      << "many elements for so small a device";
  programs.add("chain with a split reduction", split);
  programs.check();
}

TEST(DeviceElements, ManyElementsAreLoadedAndStoredInPacks) {
  struct Case {
    DType dtype;
    Shape shape, other;
    int pack;
  };
  Programs programs;
  for (const Case& c : {Case{DType::kF32, {64, 96}, {64, 96}, 4}, Case{DType::kF32, {64, 96}, {96}, 4},
                        Case{DType::kF32, {64, 96}, {64, 1}, 4}, Case{DType::kF32, {1024, 7}, {7}, 4},
                        Case{DType::kF32, {1024, 7}, {1024, 1}, 4}, Case{DType::kF64, {64, 64}, {64, 64}, 2},
                        Case{DType::kBF16, {128, 96}, {96}, 8}, Case{DType::kF16, {16, 8, 96}, {8, 1}, 8},
                        Case{DType::kF32, {1023, 7}, {7}, 1}, Case{DType::kF32, {32, 96}, {96}, 1}}) {
    const TensorSpec operands[] = {{c.dtype, c.shape}, {c.dtype, c.other}};
    for (const ElementOp op : {ElementOp::kSub, ElementOp::kLess}) {
      const DType made = op == ElementOp::kLess ? DType::kBool : c.dtype;
      const ElementProgram program = graph::elementwise_program(op, operands, {made, c.shape});
      const std::string what = fmt::format("{} {} and {}", dtype_name(c.dtype), c.shape.str(), c.other.str());
      const ops::ElementSource source = ops::element_source(program, "p", kMultiprocessors);
      EXPECT_EQ(
          source.text.find(fmt::format("Pack<{}, {}>", ops::storage_type(made), c.pack)) != std::string::npos,
          c.pack > 1)
          << what << source.text;
      programs.add(what, program);
      programs.add_unaligned("unaligned " + what, program);
    }
  }
  programs.add("chain", chain({64, 96}));
  programs.add_unaligned("unaligned chain", chain({64, 96}));
  programs.check();
}

TEST(DeviceElements, ReductionsOfAllShapesAgree) {
  Programs programs;
  for (const ReduceKind kind :
       {ReduceKind::kSum, ReduceKind::kMean, ReduceKind::kMax, ReduceKind::kMin, ReduceKind::kProd}) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kI32}) {
      if (kind == ReduceKind::kMean && !is_floating(dtype)) continue;  // which is refused
      programs.add("rows", graph::reduction_program({dtype, {5, 37}}, kind, {1}, false));
      programs.add("columns", graph::reduction_program({dtype, {37, 5}}, kind, {0}, false));
    }
  }
  struct Case {
    Shape shape;
    Axes axes;
  };
  for (const Case& c : {Case{{1}, {0}}, Case{{300, 1}, {0, 1}}, Case{{40'000}, {0}}, Case{{3, 20'000}, {1}},
                        Case{{9'000, 3}, {0}}, Case{{2, 3, 4, 5}, {1, 3}}, Case{{2, 3, 4, 5}, {0, 2}},
                        Case{{2, 300, 40}, {1}}, Case{{4, 5, 6}, {0, 1, 2}}, Case{{700, 2}, {1}}}) {
    // Sums of numbers without edges: infinities would hide what is left out.
    ElementProgram program =
        graph::reduction_program({DType::kF32, c.shape}, ReduceKind::kSum, c.axes, false);
    program.operands = {{{DType::kBool, c.shape}}};
    program.code = {{ElementOp::kCast, DType::kF32, {0}}};
    program.outputs[0].reg = 1;
    programs.add("counts", program);
  }
  programs.check();
}

TEST(DeviceElements, ATextWithErrorsIsRefusedWithTheCompilersWords) {
  if (!cuda::built_with_cuda()) GTEST_SKIP() << "built without CUDA";
  cuda::Compiler* compiler = nullptr;
  try {
    compiler = &cuda::machine_compiler();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_ERROR(compiler->compile("__global__ void f() { g(); }", "a_text", 9, 0, false),
               ErrorCode::kBadFormat, "identifier \"g\" is undefined");
  EXPECT_ERROR(compiler->compile("", "a_text", 1, 0, false), ErrorCode::kUnsupported,
               "compute capability 1.0");
  // What compile_for_devices refuses.
  const auto stack_of = [&](const char* text) {
    const std::vector<char> cubin = compiler->compile(text, "a_text", 9, 0, false);
    return Cubin({cubin.data(), cubin.size()}).largest_stack_frame();
  };
  EXPECT_EQ(stack_of("extern \"C\" __global__ void f(float* y) { y[threadIdx.x] = 1; }"), 0u);
  EXPECT_GE(stack_of("extern \"C\" __global__ void f(float* y, const int* at) {\n"
                     "  float all[64];\n  for (int i = 0; i < 64; ++i) all[at[i]] = y[i];\n"
                     "  y[0] = all[at[64]];\n}"),
            256u);
}

TEST(DeviceElements, NothingIsLaunchedForNoElement) {
  const TensorSpec none[] = {{DType::kF32, {0, 3}}};
  EXPECT_TRUE(ops::element_source(graph::elementwise_program(ElementOp::kExp, none, none[0]), "p", 1)
                  .launches.empty());
}

TEST(DeviceElements, LargeReductionsAreSplitInOneLaunch) {
  const auto source = ops::element_source(
      graph::reduction_program({DType::kF32, {1 << 20}}, ReduceKind::kSum, {0}, false), "sum", 132);
  ASSERT_EQ(source.launches.size(), 1u);
  EXPECT_GT(source.launches[0].grid[1], 1u);
  EXPECT_EQ(source.workspace_bytes, source.launches[0].grid[1] * sizeof(float));
}

TEST(DeviceElements, ReductionsAlongTheSameAxesShareALaunch) {
  // Sums of x and of x^2 over the rows, the largest x of each row, in f32 and, split, in 64 bits as well.
  ElementProgram program;
  program.shape = {9'000, 3};
  program.operands = {{{DType::kBool, program.shape}}};
  program.code = {{ElementOp::kCast, DType::kF32, {0}},
                  {ElementOp::kSquare, DType::kF32, {1}},
                  {ElementOp::kCast, DType::kF64, {0}}};
  program.outputs = {{1, true, ReduceKind::kSum, {0}},
                     {3, true, ReduceKind::kSum, {0}},
                     {1, true, ReduceKind::kMax, {1}},
                     {2, true, ReduceKind::kMean, {0}}};
  EXPECT_EQ(ops::element_source(program, "sums", 132).launches.size(), 2u);
  Programs programs;
  programs.add("sums", program);
  programs.check();
}

}  // namespace
}  // namespace isochron
