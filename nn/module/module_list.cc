#include "isochron/nn/module/module_list.h"

namespace isochron::nn {

Module& ModuleList::append(std::unique_ptr<Module> module) {
  require(module != nullptr, ErrorCode::kInvalidArgument, kind(), "module {} is null", modules_.size());
  modules_.push_back(std::move(module));
  return *modules_.back();
}

Module& ModuleList::operator[](size_t index) {
  require(index < modules_.size(), ErrorCode::kOutOfRange, kind(), "module {} of {}", index, modules_.size());
  return *modules_[index];
}

void ModuleList::members(Members& list) {
  for (size_t i = 0; i < modules_.size(); ++i) list(fmt::format("{}", i), *modules_[i]);
}

}  // namespace isochron::nn
