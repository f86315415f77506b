// ItemStore: the items of a stream that have been read and not yet been made into elements. They are found by
// number, so that what orders rows orders items too. Any thread may take and give back.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "isochron/data/item.h"

namespace isochron::data {

class ItemStore {
 public:
  struct Held {
    explicit Held(const Layout& layout) : item(layout) {}
    Item item;
    int64_t row = 0;  // how many its stream gave before it in this epoch

   private:
    static constexpr size_t kBytesInLists =
        4 * sizeof(void*);  // of all, and of the free, at twice their size
    MemoryCharge charge_{sizeof(Held) - sizeof(Item) + kHeapBlockBytes + kBytesInLists};
  };

  /// `layout` must outlive the store.
  explicit ItemStore(const Layout& layout) : layout_(layout) {}

  /// An item to be filled; its number stays valid, from any thread, until it is given back.
  int64_t take();
  /// kNoRow stands for none.
  void give_back(std::span<const int64_t> numbers);
  static Held& at(int64_t number) { return *reinterpret_cast<Held*>(number); }

 private:
  const Layout& layout_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Held>> all_;
  std::vector<int64_t> free_;
};

}  // namespace isochron::data
