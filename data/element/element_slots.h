// The buffers of a stream's elements that were read but not yet delivered. They have numbers, like the rows
// of a source, so that the stages that order rows can order them, too.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "isochron/data/element/element_buffer.h"

namespace isochron::data {

/// A table of slots that grows and never moves one. Any thread may call any function.
class ElementSlots {
 public:
  struct Slot {
    explicit Slot(const Layout& layout) : buffer(layout) {}
    ElementBuffer buffer;
    int64_t row = 0;  // number of elements that the stream returned before it in this epoch

   private:
    static constexpr size_t kBytesInLists =
        4 * sizeof(void*);  // of all, and of the free, at twice their size
    MemoryCharge charge_{sizeof(Slot) - sizeof(ElementBuffer) + kHeapBlockBytes + kBytesInLists};
  };

  /// `layout` must outlive this.
  explicit ElementSlots(const Layout& layout) : layout_(layout) {}

  /// Takes a slot whose buffer is to be filled, and returns its number. The caller owns it until
  /// `give_back`.
  int64_t take();
  /// Entries equal to kNoRow are ignored.
  void give_back(std::span<const int64_t> numbers);
  /// The slot of a number that was taken. Never blocks.
  Slot& at(int64_t number) const;

 private:
  static constexpr int64_t kFirstChunk = 16;  // slots; each further chunk has twice as many
  static constexpr size_t kMaxChunks = 48;
  struct Place {
    size_t chunk = 0;
    size_t index = 0;
  };
  static Place place_of(int64_t number);

  const Layout& layout_;
  std::mutex mutex_;
  int64_t count_ = 0;
  std::array<std::unique_ptr<std::unique_ptr<Slot>[]>, kMaxChunks> chunks_;
  std::vector<int64_t> free_;
};

}  // namespace isochron::data
