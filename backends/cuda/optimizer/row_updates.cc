// Optimizer updates of listed rows of tables on a device.
#include "isochron/ops/indexing/row_updates.h"
#include "isochron/backends/cuda/common/block_sizes.h"
#include "isochron/backends/cuda/common/launches.h"
#include "isochron/backends/cuda/factories.h"
#include "isochron/backends/cuda/optimizer/update_settings.h"
#include "isochron/ops/optimizer/update_rule.h"

namespace isochron::ops {
namespace {

/// Makes one launch per table, which updates its rows in the memory of the results.
class DeviceRowUpdateKernel final : public graph::Kernel {
 public:
  explicit DeviceRowUpdateKernel(const graph::KernelRequest& request)
      : context_(request.module->context()),
        launches_(request),
        rule_(request.op.registry->at(request.attributes.get<std::string>("rule"))),
        layout_(row_update_layout(rule_, request.attributes, request.inputs.size())) {
    for (const TensorSpec& output : request.outputs) sizes_.push_back(output.size_bytes());
    add_update_texts(*request.module);
    for (size_t i = 0; i < layout_.parameters; ++i) {
      if (request.inputs[layout_.values(i)].shape.elems() > 0) add_table(request, i);
    }
  }

  void run(const graph::KernelArgs& args) override {
    for (size_t o = 0; o < sizes_.size(); ++o)
      cuda::copy_within(context_, args.outputs[o], args.inputs[o + RowUpdateLayout::kFirstAliased], sizes_[o],
                        args.stream);
    launches_.run(args);
  }

 private:
  void add_table(const graph::KernelRequest& request, size_t i) {
    const UpdateDefinition definition = optimizer_rule(rule_.name).definition(request.attributes);
    const TensorSpec& values = request.inputs[layout_.values(i)];
    const int64_t elems = values.shape.elems(), row_elems = elems / values.shape[0];
    const auto number = [&](std::string_view list, double otherwise) {
      const auto all = request.attributes.get_or<std::vector<double>>(list, {});
      return fmt::format("{:.17g}", all.empty() ? otherwise : all[i]);
    };
    std::vector<Slot> slots = {{Slot::kInput, RowUpdateLayout::kGradientFactor},
                               {Slot::kInput, RowUpdateLayout::kLearningRate},
                               {Slot::kInput, RowUpdateLayout::kStep},
                               {Slot::kInput, layout_.values(i)},
                               {Slot::kInput, layout_.rows(i)},
                               {Slot::kInput, layout_.count(i)}};
    const size_t parameter = layout_.parameter(i) - RowUpdateLayout::kFirstAliased;
    slots.push_back({Slot::kOutput, parameter});
    std::string states;
    for (size_t k = 0; k < layout_.states; ++k) {
      const size_t state = layout_.state(k, i) - RowUpdateLayout::kFirstAliased;
      slots.push_back({Slot::kOutput, state});
      states += fmt::format("out{}, ", state);
    }
    launches_.add(
        request,
        fmt::format("const unsigned long long elems = static_cast<unsigned long long>(*in{0}) * {1}ull;\n"
                    "  if (blockIdx.x * static_cast<unsigned long long>(kUpdateBlock) >= elems) return;\n{2}"
                    "  const UpdateNumbers numbers = numbers_of(settings,\n"
                    "      update_numbers(settings, *in{3}, *in{4}, *in{5} + 1), *in{4}, {6}, {7});\n"
                    "  {8}* const states[] = {{{9}nullptr}};\n"
                    "  update_listed_rows<isochron::ops::scalar_target::{10}>(numbers, out{11}, states, "
                    "in{12}, in{13}, {1}ull, elems);",
                    layout_.count(i), row_elems, settings_text(definition.settings),
                    RowUpdateLayout::kGradientFactor, RowUpdateLayout::kLearningRate, RowUpdateLayout::kStep,
                    number("rate_factors", 1), number("weight_decays", 0), storage_type(values.dtype), states,
                    functor_name(definition.functor), parameter, layout_.values(i), layout_.rows(i)),
        row_of_blocks(request, (elems + element::kUpdateBlock - 1) / element::kUpdateBlock,
                      element::kUpdateThreads),
        std::move(slots));
  }

  cuda::Context& context_;
  LaunchKernel launches_;
  const graph::OpDef& rule_;
  const RowUpdateLayout layout_;
  std::vector<size_t> sizes_;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_update_rows_cuda(const graph::KernelRequest& request) {
  return std::make_unique<DeviceRowUpdateKernel>(request);
}

}  // namespace isochron::ops
