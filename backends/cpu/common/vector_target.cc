#include "isochron/backends/common/vector_target.h"

#include <dnnl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "isochron/backends/cpu/common/bf16_tiles.h"
#include "isochron/core/base/error.h"
#include "isochron/core/text/encoding.h"

#include <hwy/targets.h>

namespace isochron::ops {
namespace {

constexpr const char* kVariable = "ISOCHRON_VECTOR_TARGET";

std::string name_of(int64_t target) { return in_lower_case(hwy::TargetName(target)); }

struct OnednnTarget {
  dnnl_cpu_isa_t isa;
  const char* name;
};
constexpr OnednnTarget kOnednnTargets[] = {
    {dnnl_cpu_isa_all, "all"},
    {dnnl_cpu_isa_sse41, "sse41"},
    {dnnl_cpu_isa_avx, "avx"},
    {dnnl_cpu_isa_avx2, "avx2"},
    {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
    {dnnl_cpu_isa_avx512_core, "avx512_core"},
    {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
    {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
    {dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"},
};

/// The best instruction set that oneDNN may use with `target`. oneDNN supports nothing below SSE4.1.
dnnl_cpu_isa_t onednn_limit(int64_t target) {
#if HWY_ARCH_X86
  if (target == HWY_AVX3) return dnnl_cpu_isa_avx512_core;
  if (target == HWY_AVX2) return dnnl_cpu_isa_avx2;
  return dnnl_cpu_isa_sse41;
#else
  return dnnl_cpu_isa_all;
#endif
}

/// The supported targets before any limit is applied.
const std::vector<int64_t>& supported() {
  static const auto* const targets = new std::vector<int64_t>(hwy::SupportedAndGeneratedTargets());
  return *targets;
}

void limit_to(const std::string& name) {
  const std::vector<int64_t>& targets = supported();
  const auto found =
      std::find_if(targets.begin(), targets.end(), [&](int64_t target) { return name_of(target) == name; });
  require(found != targets.end(), ErrorCode::kInvalidArgument, kVariable,
          "'{}' is not supported on this machine: expected one of {}", name,
          fmt::join(vector_targets(), ", "));
  const dnnl_cpu_isa_t limit = onednn_limit(*found);
  const bool limited = limit == dnnl_cpu_isa_all || dnnl_set_max_cpu_isa(limit) == dnnl_success ||
                       dnnl_get_effective_cpu_isa() == limit;
  require(limited, ErrorCode::kUnsupported, kVariable,
          "oneDNN was used before the first op, so it can't be limited any more: set DNNL_MAX_CPU_ISA too");
  hwy::DisableTargets(~*found);
}

}  // namespace

void limit_vector_target() {
  static const bool limited = [] {
    supported();
    const char* text = std::getenv(kVariable);
    if (text && *text) limit_to(text);
    return true;
  }();
  (void)limited;
}

std::vector<std::string> vector_targets() {
  std::vector<std::string> names;
  for (const int64_t target : supported()) names.push_back(name_of(target));
  return names;
}

std::string vector_target() {
  limit_vector_target();
  return name_of(hwy::SupportedAndGeneratedTargets().front());
}

std::string onednn_target() {
  limit_vector_target();
  const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
  for (const OnednnTarget& target : kOnednnTargets) {
    if (target.isa == isa) return target.name;
  }
  return fmt::format("{:#x}", static_cast<unsigned>(isa));
}

bool multiplies_in(DType dtype) {
  limit_vector_target();
  return dtype == DType::kBF16 &&
         (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
}

std::string half_arithmetic(Precision precision) {
  if (precision == Precision::kF32) return "f32: nothing is stored in 16 bits";
  if (precision == Precision::kTf32) return "tf32: operands are rounded to a 10-bit mantissa on the device";
  const DType dtype = precision == Precision::kMixedF16 ? DType::kF16 : DType::kBF16;
  const std::string_view rounded =
      precision == Precision::kMixedFp8
          ? "matmul operands of dense layers rounded to 8 bits, which this processor can't multiply; "
          : "";
  if (multiplies_in(dtype)) {
    return fmt::format("{}: {}multiplied by the processor's {} {}, summed in f32", precision_name(precision),
                       rounded, dtype_name(dtype), multiplies_tiles() ? "tiles (AMX)" : "instructions");
  }
  return fmt::format(
      "{}: {}stored in {}, converted to f32 for every product (no {} instructions are used here)",
      precision_name(precision), rounded, dtype_name(dtype), dtype_name(dtype));
}

}  // namespace isochron::ops
