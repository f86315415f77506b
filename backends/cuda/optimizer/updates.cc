// Optimizer updates on a device.
#include "isochron/backends/cuda/common/block_sizes.h"
#include "isochron/backends/cuda/common/element_source.h"
#include "isochron/backends/cuda/common/launches.h"
#include "isochron/backends/cuda/factories.h"
#include "isochron/backends/cuda/optimizer/update_settings.h"
#include "isochron/ops/optimizer/update_parameters.h"
#include "isochron/ops/optimizer/update_rule.h"

namespace isochron::ops {
namespace {

constexpr size_t kMaxAddresses = 480;  // per launch, whose parameters are limited to 4 KiB

/// Text that declares a table with one entry per parameter.
template <typename Text>
std::string table(std::string_view type, const std::string& name, size_t count, const Text& entry) {
  std::string text = fmt::format("__device__ const {} {}[] = {{", type, name);
  for (size_t i = 0; i < count; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", entry(i));
  return text + "};\n";
}

class DeviceUpdateKernel final : public graph::Kernel {
 public:
  explicit DeviceUpdateKernel(const graph::KernelRequest& request)
      : module_(*request.module), parameters_(request), layout_(parameters_.layout) {
    module_.add_shared(element_prelude());
    add_update_texts(module_);
    const size_t most = std::max<size_t>(1, kMaxAddresses / addresses_each());
    std::vector<size_t> some;  // parameters that have elements
    for (size_t i = 0; i < layout_.parameters; ++i) {
      if (request.inputs[layout_.parameter(i)].shape.elems() > 0) some.push_back(i);
      if (some.size() == most || (i + 1 == layout_.parameters && !some.empty())) {
        add_launch(request, std::move(some));
        some.clear();
      }
    }
    if (!launches_.empty()) return;
    const std::string name = module_.unique_name("count_step");
    module_.add(fmt::format(
        "extern \"C\" __global__ void {}(const long long* step, long long* done) {{ *done = *step + 1; }}\n",
        name));
    count_step_ = module_.add_function(name);
  }

  void run(const graph::KernelArgs& args) override {
    for (Launch& launch : launches_) {
      size_t a = 0;
      for (const size_t i : launch.parameters) {
        launch.addresses[a++] = args.inputs[layout_.parameter(i)];
        for (size_t k = 0; k < layout_.states; ++k) launch.addresses[a++] = args.inputs[layout_.state(k, i)];
        launch.addresses[a++] = args.inputs[layout_.gradient(i)];
        launch.addresses[a++] = args.outputs[layout_.parameter(i) - UpdateLayout::kFirstAliased];
        for (size_t k = 0; k < layout_.states; ++k)
          launch.addresses[a++] = args.outputs[layout_.state(k, i) - UpdateLayout::kFirstAliased];
      }
      // The last launch increments the step count.
      std::byte* const counted = &launch == &launches_.back() ? args.outputs[0] : nullptr;
      void* const arguments[] = {argument_of(args.inputs[UpdateLayout::kGradientFactor]),
                                 argument_of(args.inputs[UpdateLayout::kLearningRate]),
                                 argument_of(args.inputs[UpdateLayout::kStep]),
                                 launch.addresses.data(),
                                 argument_of(counted),
                                 &launch.arrival};
      module_.launch(launch.function, launch.size, arguments, args.stream);
    }
    if (!launches_.empty()) return;
    void* const arguments[] = {argument_of(args.inputs[UpdateLayout::kStep]), argument_of(args.outputs[0])};
    module_.launch(count_step_, {}, arguments, args.stream);
  }

 private:
  struct Launch {
    size_t function;
    cuda::LaunchSize size;
    std::vector<size_t> parameters;
    std::vector<std::byte*> addresses;
    unsigned arrival;
  };

  size_t addresses_each() const { return 3 + 2 * layout_.states; }

  void add_launch(const graph::KernelRequest& request, std::vector<size_t> parameters) {
    const UpdateDefinition definition = optimizer_rule(request.op.name).definition(request.attributes);
    const std::string name = module_.unique_name(request.op.name);
    const size_t count = parameters.size();
    const auto elems = [&](size_t i) {
      return request.inputs[layout_.parameter(parameters[i])].shape.elems();
    };
    std::vector<int64_t> first_block(1, 0);
    for (size_t i = 0; i < count; ++i)
      first_block.push_back(first_block.back() +
                            (elems(i) + element::kUpdateBlock - 1) / element::kUpdateBlock);
    std::string text =
        table("unsigned", name + "_first_block", count, [&](size_t i) { return first_block[i]; });
    text += table("unsigned long long", name + "_elems", count, elems);
    text += table("double", name + "_factor", count,
                  [&](size_t i) { return fmt::format("{:.17g}", parameters_.rate_factor(parameters[i])); });
    text += table("double", name + "_decay", count,
                  [&](size_t i) { return fmt::format("{:.17g}", parameters_.weight_decay(parameters[i])); });
    text += fmt::format(
        "extern \"C\" __global__ void {0}(const double* gradient_factor, const double* rate,\n"
        "    const long long* step, const __grid_constant__ Addresses<{1}> tensors,\n"
        "    long long* counted, unsigned arrival) {{  // threads meet\n{2}"
        "  const unsigned i = parameter_of({0}_first_block, {3}u, blockIdx.x);\n"
        "  const UpdateNumbers numbers = numbers_of(settings,\n"
        "      update_numbers(settings, *gradient_factor, *rate, *step + 1), *rate, {0}_factor[i], "
        "{0}_decay[i]);\n"
        "  update_elements<isochron::ops::scalar_target::{4}, {5}>(numbers, tensors.at + i * {6}u,\n"
        "      (blockIdx.x - {0}_first_block[i]) * static_cast<unsigned long long>(kUpdateBlock), "
        "{0}_elems[i]);\n"
        "  if (counted) count_step(step, counted, arrivals + arrival);\n}}\n",
        name, count * addresses_each(), settings_text(definition.settings), count,
        functor_name(definition.functor), storage_type(request.inputs.back().dtype), addresses_each());
    module_.add(text);
    launches_.push_back(
        {module_.add_function(name), row_of_blocks(request, first_block.back(), element::kUpdateThreads),
         std::move(parameters), std::vector<std::byte*>(count * addresses_each()), module_.add_arrivals(1)});
  }

  cuda::KernelModule& module_;
  const UpdateParameters parameters_;
  const UpdateLayout& layout_;
  std::vector<Launch> launches_;
  size_t count_step_ = 0;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_update_cuda(const graph::KernelRequest& request) {
  return std::make_unique<DeviceUpdateKernel>(request);
}

}  // namespace isochron::ops
