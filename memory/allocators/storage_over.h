// A storage over the bytes of another storage, with its own owner and generations.
#pragma once

#include <string>
#include <utility>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

class StorageOver : public Storage {
 public:
  void read(size_t offset, std::byte* to, size_t bytes) const override { memory_->read(offset, to, bytes); }
  void write(size_t offset, const std::byte* from, size_t bytes) override {
    memory_->write(offset, from, bytes);
  }

 protected:
  explicit StorageOver(Ref<Storage> memory)
      : Storage(memory->data(), memory->size_bytes(), memory->device()), memory_(std::move(memory)) {}

 private:
  Ref<Storage> memory_;
};

}  // namespace isochron
