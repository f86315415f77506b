// Sources: where a dataset's elements come from. There are two kinds. A RowSource knows its rows and gives
// any of them in any order, so everything about the order of elements is arithmetic on row numbers. A
// StreamSource gives elements one after the other (a file of records, a generator, what is left by a filter).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "isochron/data/element/element_buffer.h"
#include "isochron/data/element/layout.h"
#include "isochron/data/element/position.h"
#include "isochron/data/element/state.h"

namespace isochron::data {

class RowSource {
 public:
  virtual ~RowSource() = default;

  /// Of every row; fixed.
  virtual const Layout& layout() const = 0;
  virtual int64_t rows() const = 0;
  /// Writes the tensors of row `position.row` to the addresses `into`. May be called from several threads at
  /// once. Throws what makes the row unreadable.
  virtual void read(const Position& position, std::span<std::byte* const> into) const = 0;
  /// Tells the source from others, as far as that can be told without reading it: files' names, options,
  /// sources below.
  virtual uint64_t fingerprint() const { return 0; }
  /// Where tensor `index` of the first row lies, when all rows lie in memory, one after the other; else null,
  /// the same answer for the whole life of the source.
  virtual std::byte* first_row(int /*index*/) const { return nullptr; }
};

/// One iteration over a stream. Used by one thread at a time.
class ElementStream {
 public:
  virtual ~ElementStream() = default;

  /// Goes to the beginning of an epoch. Its elements are a function of the source and the epoch alone.
  virtual void restart(uint64_t epoch) = 0;
  /// Writes the next element; false at the end of the epoch, and from then on. One that reads another stream
  /// lets through what that throws and stands where it stood: it may be an interrupt (interrupt.h), after
  /// which `next` or `save` is called.
  virtual bool next(ElementBuffer& buffer) = 0;
  /// Where it stands, and back. `restore` is called in place of `restart`.
  virtual void save(StateWriter& state) const = 0;
  virtual void restore(StateReader& state) = 0;
};

class StreamSource {
 public:
  virtual ~StreamSource() = default;

  /// One for every signature that elements can have; the first is the usual one. Its extents may vary
  /// (kAnyExtent); all have the same names.
  virtual const std::vector<Layout>& layouts() const = 0;
  /// Elements an epoch, kInfinite or kUnknown.
  virtual int64_t size() const = 0;
  virtual std::unique_ptr<ElementStream> open() const = 0;
  /// As RowSource's.
  virtual uint64_t fingerprint() const { return 0; }
};

}  // namespace isochron::data
