#include "isochron/graph/ir/op.h"

#include <algorithm>
#include <numeric>

#include "isochron/graph/ir/half_storage.h"

template class std::vector<isochron::graph::InputSample>;
template class std::vector<isochron::graph::OpSample>;
template class std::vector<isochron::graph::ErrorSample>;

namespace isochron::graph {
namespace {

/// Levenshtein distance, for "did you mean".
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

OpDef::OpDef() = default;
OpDef::OpDef(const OpDef&) = default;
OpDef::OpDef(OpDef&&) noexcept = default;
OpDef& OpDef::operator=(const OpDef&) = default;
OpDef& OpDef::operator=(OpDef&&) noexcept = default;
OpDef::~OpDef() = default;

const OpDef& Registry::add(OpDef op) {
  require(find(op.name) == nullptr, ErrorCode::kInvalidArgument, "registry", "op '{}' exists already",
          op.name);
  require(op.infer != nullptr, ErrorCode::kInvalidArgument, "registry", "op '{}' has no shape rule", op.name);
  op.registry = this;
  return rows_.emplace_back(std::move(op));
}

const OpDef* Registry::find(std::string_view name) const {
  for (const OpDef& row : rows_) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

const OpDef& Registry::at(std::string_view name) const {
  if (const OpDef* row = find(name)) return *row;
  require(!rows_.empty(), ErrorCode::kInvalidArgument, "registry", "no op '{}': no op is registered", name);
  const auto closest = std::min_element(rows_.begin(), rows_.end(), [name](const OpDef& a, const OpDef& b) {
    return edit_distance(a.name, name) < edit_distance(b.name, name);
  });
  fail(ErrorCode::kInvalidArgument, "registry", "no op '{}'; did you mean '{}'?", name, closest->name);
}

std::vector<TensorSpec> infer_outputs(const OpDef& op, std::span<const TensorSpec> inputs,
                                      const Attributes& attributes) {
  const int count = static_cast<int>(inputs.size());
  if (count < op.min_inputs || (op.max_inputs >= 0 && count > op.max_inputs)) [[unlikely]] {
    fail(ErrorCode::kInvalidArgument, op.name, "takes {}{} inputs, got {}", op.min_inputs,
         op.max_inputs < 0 ? " or more"
                           : (op.max_inputs != op.min_inputs ? fmt::format(" to {}", op.max_inputs) : ""),
         count);
  }
  if (has_half_storage(attributes)) return infer_with_storage(op, inputs, attributes);
  return op.infer({op, inputs, attributes});
}

}  // namespace isochron::graph
