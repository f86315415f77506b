#include "isochron/backends/cpu/control/debug.h"

#include <cstdio>
#include <cstring>

#include "isochron/core/telemetry/counters.h"
#include "isochron/core/tensor/finite.h"

namespace isochron::ops {
namespace {

/// Inspects its input, then copies it to the output.
class ObservingKernel : public graph::Kernel {
 public:
  explicit ObservingKernel(const graph::KernelRequest& request)
      : spec_(request.inputs[0]), label_(request.attributes.get<std::string>("label")) {}

  void run(const graph::KernelArgs& args) final {
    observe(args.inputs[0]);
    if (args.outputs[0] != args.inputs[0] && spec_.size_bytes() > 0) {
      std::memcpy(args.outputs[0], args.inputs[0], spec_.size_bytes());
    }
  }

 protected:
  virtual void observe(std::byte* x) = 0;

  TensorSpec spec_;
  std::string label_;
};

class PrintKernel final : public ObservingKernel {
  using ObservingKernel::ObservingKernel;
  void observe(std::byte* x) override {
    const std::string line = fmt::format("{}: {}\n", label_, Tensor::from_external(x, spec_).str());
    std::fputs(line.c_str(), stderr);
  }
};

class CheckNumericsKernel final : public ObservingKernel {
  using ObservingKernel::ObservingKernel;
  void observe(std::byte* x) override {
    const std::optional<NotFinite> found = find_not_finite(spec_, x);
    if (!found) return;
    count(Counter::kNotFinite, 1);
    fail(ErrorCode::kNotANumber, "check_numerics", "'{}' {}", label_, not_finite_text(spec_, *found));
  }
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_print(const graph::KernelRequest& request) {
  return std::make_unique<PrintKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_check_numerics(const graph::KernelRequest& request) {
  return std::make_unique<CheckNumericsKernel>(request);
}

}  // namespace isochron::ops
