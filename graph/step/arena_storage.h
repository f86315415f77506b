// The arena in which a captured function's results lie.
#pragma once

#include <string>
#include <utility>

#include "isochron/memory/allocators/storage_over.h"

namespace isochron {

/// The arena that all plans of a function share. Only one plan runs at a time, and memory that is still in
/// the CPU's caches serves the next call, whatever its signature. Every call makes all views of the previous
/// results stale.
class ArenaStorage final : public StorageOver {
 public:
  ArenaStorage(Ref<Storage> memory, std::string name)
      : StorageOver(std::move(memory)), name_(std::move(name)) {}
  bool overwritten() const override { return true; }
  std::string owner() const override { return fmt::format("the next call of captured '{}'", name_); }

 private:
  std::string name_;
};

}  // namespace isochron
