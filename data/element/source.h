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

  /// The layout of every row; it never changes.
  virtual const Layout& layout() const = 0;
  virtual int64_t rows() const = 0;
  /// Writes the tensors of row `position.row` to the addresses `into`. May be called from several threads at
  /// once. Throws if the row can't be read.
  virtual void read(const Position& position, std::span<std::byte* const> into) const = 0;
  /// Distinguishes the source from others as far as possible without reading it: by names of files, options,
  /// and the sources below.
  virtual uint64_t fingerprint() const { return 0; }
  /// The address of tensor `index` of the first row if all rows are in memory, one after another; otherwise
  /// null. The result must be the same for the whole life of the source.
  virtual std::byte* first_row(int /*index*/) const { return nullptr; }
};

/// One iteration over a stream. Used by one thread at a time.
class ElementStream {
 public:
  virtual ~ElementStream() = default;

  /// Moves to the beginning of an epoch. The elements of an epoch are a function of the source and the epoch
  /// alone.
  virtual void restart(uint64_t epoch) = 0;
  /// Writes the next element; false at the end of the epoch, and from then on. A stream that reads another
  /// stream lets its exceptions through and keeps its own position: an exception may be an interrupt
  /// (interrupt.h), after which `next` or `save` is called.
  virtual bool next(ElementBuffer& buffer) = 0;
  /// Save and restore the position. `restore` is called instead of `restart`.
  virtual void save(StateWriter& state) const = 0;
  virtual void restore(StateReader& state) = 0;
};

class StreamSource {
 public:
  virtual ~StreamSource() = default;

  /// One layout per signature that elements can have; the first is the usual one. Extents may be kAnyExtent;
  /// all layouts have the same names.
  virtual const std::vector<Layout>& layouts() const = 0;
  /// Elements per epoch, kInfinite or kUnknown.
  virtual int64_t size() const = 0;
  virtual std::unique_ptr<ElementStream> open() const = 0;
  /// Like RowSource::fingerprint.
  virtual uint64_t fingerprint() const { return 0; }
};

}  // namespace isochron::data
