#include "isochron/train/callbacks/plan_picture.h"

#include <algorithm>

namespace isochron::train {

observe::PlanPicture plan_picture(const CapturedFunction& function, std::string title) {
  const auto [graph, report] = function.largest_plan();
  const auto number = [](size_t value) { return static_cast<int64_t>(value); };
  observe::PlanPicture picture{.title = std::move(title),
                               .kernels = 1,
                               .arena_bytes = number(std::max<size_t>(report.arena_bytes, 1)),
                               .lower_bound_bytes = number(report.lower_bound_bytes),
                               .peak_kernel = report.peak_instruction};
  for (int kind = 0; kind < graph::kBufferKindCount; ++kind) {
    picture.kinds.emplace_back(graph::buffer_kind_name(static_cast<graph::BufferKind>(kind)));
  }
  for (const auto& node : graph.nodes()) {
    if (node->op->fusion != graph::FusionClass::kView) picture.names.push_back(node->name());
  }
  picture.kernels = number(std::max<size_t>(picture.names.size(), 1));
  for (const graph::PlannedBuffer& buffer : report.buffers) {
    picture.kernels = std::max(picture.kernels, buffer.upper);
    picture.buffers.push_back({buffer.owner, static_cast<int>(buffer.kind), buffer.lower, buffer.upper,
                               number(buffer.size_bytes), number(buffer.offset)});
  }
  return picture;
}

}  // namespace isochron::train
