// tf.train.Example: named lists of byte strings, 64-bit integers or floats, as TFRecord files hold them.
// core/files/record_file.h reads and writes the records; here is what is inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron::data {

enum class FeatureKind { kBytes, kInt64, kFloat };

/// The requirements on a feature. With a `shape` its size is fixed: exactly that many values, or for kBytes
/// one string of exactly that many bytes. Without, it has any number of values, or for kBytes any number of
/// strings; an absent feature then has none.
struct FeatureSpec {
  std::string name;
  FeatureKind kind = FeatureKind::kFloat;
  std::optional<Shape> shape = {};
  std::optional<double> missing = {};  // the value of a fixed feature that is absent; none: an error
};

/// Names an example in errors; the text is made only when there is an error.
class ExamplePlace {
 public:
  ExamplePlace(std::string_view name) : name_(name) {}  // NOLINT: a name is a place
  ExamplePlace(const char* name) : name_(name) {}       // NOLINT
  /// The record that begins at a byte of a file.
  ExamplePlace(std::string_view file, uint64_t offset_bytes) : name_(file), offset_bytes_(offset_bytes) {}
  std::string str() const;

 private:
  std::string_view name_;
  std::optional<uint64_t> offset_bytes_;
};

/// Parses examples, one at a time. Only one thread at a time may use a parser. Parsing allocates only for
/// examples larger than all before. Features that no spec names are ignored.
class ExampleParser {
 public:
  /// Throws kInvalidArgument for no spec, a repeated name, or `missing` for a feature of any length.
  explicit ExampleParser(std::vector<FeatureSpec> specs);
  ~ExampleParser();

  const std::vector<FeatureSpec>& specs() const { return specs_; }
  /// The spec of a feature of fixed size: f32, i64 or u8 of its shape. Throws kInvalidArgument for other
  /// features.
  TensorSpec tensor_spec(size_t feature) const;

  /// An upper bound on the memory that a record takes once it is parsed, besides its integers.
  static size_t most_bytes(std::span<const std::byte> example);
  /// The most memory that the integers of any record so far took once parsed. In the record itself they may
  /// take only an eighth of that.
  size_t int_bytes() const { return int_bytes_; }
  /// Parses `example`; the functions below refer to it until the next call. Throws kBadFormat if it isn't a
  /// complete Example, and, naming the feature, if one is absent, occurs twice, or has another kind or
  /// another number of values than its spec.
  void parse(std::span<const std::byte> example, const ExamplePlace& where);

  /// The values of a feature, by its position in `specs()`. Throws kInvalidArgument for a feature of another
  /// kind, kOutOfRange for a string that doesn't exist.
  std::span<const int64_t> ints(size_t feature) const;
  std::span<const float> floats(size_t feature) const;
  size_t strings(size_t feature) const;
  std::string_view string(size_t feature, size_t index) const;

  /// Writes a fixed feature's values to memory of its tensor_spec's bytes. Throws kInvalidArgument.
  void copy(size_t feature, std::span<std::byte> into) const;
  /// Copies a feature to a new tensor: of its tensor_spec if its size is fixed; otherwise (N) with N
  /// numbers, or the bytes of its only string. Throws kInvalidArgument for another number of strings.
  Tensor tensor(size_t feature) const;

 private:
  struct Message;

  const FeatureSpec& spec_of(size_t feature, FeatureKind kind) const;

  std::vector<FeatureSpec> specs_;
  std::unique_ptr<Message> message_;
  size_t int_bytes_ = 0;
};

/// Builds examples. Features are written in the order in which they were added.
class ExampleBuilder {
 public:
  ExampleBuilder();
  ~ExampleBuilder();

  /// Each adds a feature. Throws kInvalidArgument if the name has been added before.
  void add(std::string_view name, std::span<const int64_t> values);
  void add(std::string_view name, std::span<const float> values);
  void add(std::string_view name, std::span<const std::string_view> values);

  /// Replaces the content of `into` by the serialized example. Throws kUnsupported for 2 GiB or more.
  void serialize(std::string& into) const;
  /// Removes all features and keeps the memory.
  void clear();

 private:
  struct Message;
  std::unique_ptr<Message> message_;
};

}  // namespace isochron::data
