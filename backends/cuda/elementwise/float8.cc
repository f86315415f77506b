// Matrix products with 8-bit operands on a device. The operands are rounded to 8 bits in the workspace, and
// the machine's library multiplies them. If it can't, the same rounded numbers are stored and multiplied in
// 16 bits.
#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "isochron/backends/cuda/common/inner_kernel.h"
#include "isochron/backends/cuda/common/launches.h"
#include "isochron/backends/cuda/common/texts.h"
#include "isochron/backends/cuda/factories.h"
#include "isochron/backends/cuda/libraries/library_kernel.h"
#include "isochron/backends/cuda/libraries/products.h"
#include "isochron/core/base/checked.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/ops/matmul/matmul_geometry.h"

namespace isochron::ops {
namespace {

using cuda::ProductSpec;
using graph::KernelArgs;
using graph::KernelRequest;

/// One of the two operands, and its location in the workspace.
struct Factor {
  size_t input;
  std::string format;  // "e4m3", "e5m2"
  int64_t elems;
  size_t offset = 0;

  std::string function(const char* name) const {
    return fmt::format("{}<{}>", name, format == "e5m2" ? "E5M2" : "E4M3");
  }
  /// Text that declares the operand's `scale`.
  std::string opening() const {
    return fmt::format("const float scale = {}(in{});\n  ", function("float8_scale"), input + 2);
  }
  std::string rounded(const std::string& index) const {
    return fmt::format("{}(widen(in{}[{}]), scale)", function("rounded_to_float8"), input, index);
  }
  std::vector<Slot> slots() const { return {{Slot::kInput, input}, {Slot::kInput, input + 2}}; }
};

std::array<Factor, 2> factors_of(const KernelRequest& request) {
  return {Factor{0, request.attributes.get<std::string>("a_format"), request.inputs[0].shape.elems()},
          Factor{1, request.attributes.get<std::string>("b_format"), request.inputs[1].shape.elems()}};
}

/// Multiplies the rounded operands in bf16, which represents them exactly.
class In16Bits final : public graph::Kernel {
 public:
  explicit In16Bits(const KernelRequest& request)
      : rounding_(request),
        product_(request, "matmul", {half(request.inputs[0]), half(request.inputs[1])}, request.outputs[0],
                 {{"transpose_a", request.attributes.get<bool>("transpose_a")},
                  {"transpose_b", request.attributes.get<bool>("transpose_b")}}),
        factors_(factors_of(request)) {
    request.module->add_shared(std::string(backends::texts::kFloat8));
    for (Factor& factor : factors_) {
      factor.offset = bytes_;
      bytes_ +=
          align_up(static_cast<size_t>(factor.elems) * dtype_size(DType::kBF16), cuda::kDeviceAlignment);
      rounding_.add_loop(
          request, factor.elems,
          factor.opening() +
              fmt::format("put(reinterpret_cast<bfloat16*>(static_cast<char*>(workspace) + {}ull) + i, "
                          "{} * scale);",
                          factor.offset, factor.rounded("i")),
          factor.slots());
    }
  }

  size_t workspace_bytes() const override { return checked_add(bytes_, product_.workspace_bytes()); }
  void run(const KernelArgs& args) override {
    rounding_.run(args);
    product_.run({args.workspace + factors_[0].offset, args.workspace + factors_[1].offset}, args.outputs[0],
                 args.workspace + bytes_, args.stream);
  }

 private:
  static TensorSpec half(const TensorSpec& spec) { return {DType::kBF16, spec.shape}; }

  LaunchKernel rounding_;
  InnerKernel product_;
  std::array<Factor, 2> factors_;
  size_t bytes_ = 0;
};

/// The product for the library, which is column-major. Both operands are in 8 bits and contiguous along the
/// summed axis. None if the library doesn't support the call: see ProductSpec.
std::optional<ProductSpec> product_spec(const KernelRequest& request, const MatmulGeometry& g) {
  constexpr int64_t kMultiple = 16;
  if (g.batch.elems() != 1 || g.m == 0 || g.n == 0 || g.k == 0) return {};
  if (g.n % kMultiple != 0 || g.k % kMultiple != 0) return {};
  const auto format = [&](const char* name) {
    return request.attributes.get<std::string>(name) == "e5m2" ? cuda::Float8::kE5M2 : cuda::Float8::kE4M3;
  };
  if (format("a_format") == cuda::Float8::kE5M2 && format("b_format") == cuda::Float8::kE5M2) return {};
  return ProductSpec{.m = g.n,
                     .n = g.m,
                     .k = g.k,
                     .transpose_a = true,
                     .a_lead = g.k,
                     .b_lead = g.k,
                     .c_lead = g.n,
                     .result = request.outputs[0].dtype,
                     .a_bytes = format("b_format"),
                     .b_bytes = format("a_format")};
}

/// The library's candidates; empty if the device or the library has no algorithm for the call.
std::vector<Candidate> by_library(const KernelRequest& request) {
  constexpr int kFirstWithUnits = 89;  // compute capability
  const auto& device = request.module->device();
  cuda::ProductLibrary* library = request.module->sources().library<cuda::ProductSpec>();
  if (library == nullptr) return {};
  if (10 * device.major + device.minor < kFirstWithUnits) {
    static std::once_flag told;
    std::call_once(told, [&] {
      emit({EventKind::kNotice, request.op.name,
            device.name + " has no units for factors in 8 bits; rounded ones are multiplied in 16"});
    });
    return {};
  }
  const MatmulGeometry g = matmul_geometry(request);
  const std::optional<ProductSpec> spec = product_spec(request, g);
  if (!spec) return {};
  cuda::LibraryAlgorithms algorithms = library->algorithms(request.module->context(), *spec);
  if (algorithms.empty()) return {};
  LibraryParts parts;
  auto before = std::make_unique<LaunchKernel>(request);
  request.module->add_shared(std::string(backends::texts::kFloat8));
  std::array<Factor, 2> factors = factors_of(request);
  std::vector<Slot> scales;
  for (Factor& factor : factors) {
    factor.offset = parts.tensor_bytes;
    const size_t scale = align_up(static_cast<size_t>(factor.elems), cuda::kDeviceAlignment) + factor.offset;
    parts.tensor_bytes = scale + cuda::kDeviceAlignment;
    scales.push_back({Slot::kWorkspace, scale});
    const bool across = factor.input == 0 ? g.transpose_a : !g.transpose_b;
    const int64_t rows = factor.elems / g.k;
    before->add_loop(
        request, factor.elems,
        factor.opening() +
            fmt::format(
                "auto* const bytes = static_cast<unsigned char*>(workspace) + {}ull;\n"
                "  if (i == 0) *reinterpret_cast<float*>(bytes + {}ull) = scale;\n"
                "  bytes[i] = {}({});",
                factor.offset, scale - factor.offset, factor.function("float8_byte"),
                factor.rounded(across ? fmt::format("i % {0}ull * {1}ull + i / {0}ull", g.k, rows) : "i")),
        factor.slots());
  }
  const Slot a{Slot::kWorkspace, factors[0].offset}, b{Slot::kWorkspace, factors[1].offset};
  parts.tensors = {b, a, {Slot::kOutput, 0}, scales[1], scales[0]};
  parts.before = std::move(before);
  algorithms =
      working_algorithms(*request.module, std::move(algorithms),
                         {static_cast<size_t>(factors[1].elems), static_cast<size_t>(factors[0].elems),
                          request.outputs[0].size_bytes(), sizeof(float), sizeof(float)});
  return candidates_of(std::move(algorithms), std::move(parts));
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_matmul_float8_cuda(const KernelRequest& request) {
  if (request.outputs[0].dtype == DType::kF16) return nullptr;
  std::vector<Candidate> candidates = by_library(request);
  if (candidates.empty()) return std::make_unique<In16Bits>(request);
  graph::Attributes attributes = request.attributes;  // equal products, whatever is kept of their gradients
  attributes.erase("gradient");
  return choose_kernel({request.op, request.inputs, request.outputs, attributes, request.threads,
                        request.unread, request.module},
                       "cublasLt", request.module->sources().library<cuda::ProductSpec>(),
                       std::move(candidates));
}

}  // namespace isochron::ops
