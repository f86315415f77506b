#include "isochron/graph/ir/backend.h"

#include <algorithm>

#include "isochron/graph/ir/half_storage.h"

namespace isochron::graph {

KernelTable::KernelTable(std::string name, KernelFactory elementwise, KernelFactory reduction,
                         std::initializer_list<Entry> entries)
    : name_(std::move(name)),
      elementwise_{elementwise, StorageDtypes::kAsDefined},
      reduction_{reduction, StorageDtypes::kAsDefined} {
  for (const Entry& entry : entries) add(entry);
}

void KernelTable::add(const Entry& entry) {
  const bool added = factories_.try_emplace(std::string(entry.op), Factory{entry.make, entry.dtypes}).second;
  require(added, ErrorCode::kInvalidArgument, name_, "there is a kernel for '{}' already", entry.op);
}

const KernelTable::Factory* KernelTable::find(const OpDef& op) const {
  if (const auto found = factories_.find(op.name); found != factories_.end()) return &found->second;
  if (op.fusion == FusionClass::kElementwise && elementwise_.make != nullptr) return &elementwise_;
  if (op.fusion == FusionClass::kReduction && reduction_.make != nullptr) return &reduction_;
  return nullptr;
}

bool KernelTable::runs_half_storage(const OpDef& op) const {
  const Factory* factory = find(op);
  return factory != nullptr && factory->dtypes == StorageDtypes::kAny;
}

std::unique_ptr<Kernel> KernelTable::make_kernel(const KernelRequest& request) const {
  const Factory* factory = find(request.op);
  require(factory != nullptr, ErrorCode::kUnsupported, request.op.name, "there is no kernel for {}", name_);
  if (has_half_storage(request) && factory->dtypes == StorageDtypes::kAsDefined) return nullptr;
  return factory->make(request);
}

std::vector<std::string> KernelTable::ops() const {
  std::vector<std::string> names;
  for (const auto& [op, factory] : factories_) names.push_back(op);
  std::sort(names.begin(), names.end());
  return names;
}

const Backend& backend_of(const KernelRequest& request) {
  return backend_of(request.backend, request.module == nullptr ? DeviceKind::kCpu : DeviceKind::kCuda);
}

}  // namespace isochron::graph
