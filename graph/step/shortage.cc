#include "isochron/graph/step/shortage.h"

#include <algorithm>

namespace isochron {
namespace {

std::string megabytes(size_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6); }

}  // namespace

std::string shortage_text(const graph::PlanReport& report, const Signature& signature, size_t available) {
  constexpr size_t kNamed = 3;
  std::vector<const graph::PlannedBuffer*> live;
  for (const graph::PlannedBuffer& buffer : report.buffers) {
    if (buffer.lower <= report.peak_instruction && report.peak_instruction < buffer.upper)
      live.push_back(&buffer);
  }
  std::ranges::sort(live, std::ranges::greater(), &graph::PlannedBuffer::size_bytes);
  std::string text = fmt::format("the plan for {} needs {}, of which live at once are",
                                 signature_str(signature), megabytes(report.arena_bytes));
  for (size_t i = 0; i < std::min(live.size(), kNamed); ++i)
    text += fmt::format("{} {} ({})", i == 0 ? "" : ",", live[i]->owner, megabytes(live[i]->size_bytes));
  if (live.size() > kNamed) text += fmt::format(" and {} smaller ones", live.size() - kNamed);
  text += fmt::format("; {} are available", megabytes(available));
  const auto rows_of = [](const TensorSpec& spec) { return spec.shape.rank() == 0 ? 0 : spec.shape[0]; };
  const int64_t rows = signature.empty() ? 0 : rows_of(signature[0]);
  const bool batch = rows > 1 && std::ranges::all_of(signature, [&](const TensorSpec& spec) {
                       return rows_of(spec) == rows;
                     });
  const double share = static_cast<double>(available) / static_cast<double>(report.arena_bytes);
  const auto fit = static_cast<int64_t>(static_cast<double>(rows) * share);
  if (batch && fit > 0 && fit < rows)
    text += fmt::format(", which is enough for about {} of the {} rows", fit, rows);
  return text;
}

}  // namespace isochron
