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

/// What a feature must be. With a `shape` it is fixed: exactly that many values, or for kBytes one string of
/// exactly that many bytes. Without, any number of values, and for kBytes any number of strings; a feature
/// that is absent has none then.
struct FeatureSpec {
  std::string name;
  FeatureKind kind = FeatureKind::kFloat;
  std::optional<Shape> shape = {};
  std::optional<double> missing = {};  // the value of a fixed feature that is absent; none: an error
};

/// Which example: names it in errors, and costs nothing before there is one.
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

/// Takes examples apart, one at a time; one thread may use a parser at a time. Once it has seen examples as
/// large as those to come, parsing allocates nothing. Features that no spec names are passed over.
class ExampleParser {
 public:
  /// Throws kInvalidArgument for no spec, a repeated name, or `missing` for a feature of any length.
  explicit ExampleParser(std::vector<FeatureSpec> specs);
  ~ExampleParser();

  const std::vector<FeatureSpec>& specs() const { return specs_; }
  /// Of a fixed feature: f32, i64 or u8 of its shape. Throws kInvalidArgument for one of any length.
  TensorSpec tensor_spec(size_t feature) const;

  /// Takes `example` apart; what the functions below give refers to it until the next call. Throws kBadFormat
  /// when it isn't a whole Example, and naming the feature when one is absent, there twice, of another kind,
  /// or of another number of values than its spec has.
  void parse(std::span<const std::byte> example, const ExamplePlace& where);

  /// The values of a feature by its place in `specs()`. Throws kInvalidArgument for a feature of another
  /// kind.
  std::span<const int64_t> ints(size_t feature) const;
  std::span<const float> floats(size_t feature) const;
  size_t strings(size_t feature) const;
  std::string_view string(size_t feature, size_t index) const;

  /// Writes a fixed feature's values to memory of its tensor_spec's bytes. Throws kInvalidArgument.
  void copy(size_t feature, std::span<std::byte> into) const;
  /// A feature as a tensor of its own: a fixed one of its tensor_spec; else (N) with N numbers, or the bytes
  /// of the only string. Throws kInvalidArgument when there is another number of strings.
  Tensor tensor(size_t feature) const;

 private:
  struct Message;

  const FeatureSpec& spec_of(size_t feature, FeatureKind kind) const;

  std::vector<FeatureSpec> specs_;
  std::unique_ptr<Message> message_;
};

/// Builds examples. Features are written in the order in which they were added.
class ExampleBuilder {
 public:
  ExampleBuilder();
  ~ExampleBuilder();

  /// Each adds a feature. Throws kInvalidArgument for a name that is there already.
  void add(std::string_view name, std::span<const int64_t> values);
  void add(std::string_view name, std::span<const float> values);
  void add(std::string_view name, std::span<const std::string_view> values);

  /// Replaces `into` by the example's bytes. Throws kUnsupported from 2 GiB on.
  void serialize(std::string& into) const;
  /// Begins anew and keeps the memory.
  void clear();

 private:
  struct Message;
  std::unique_ptr<Message> message_;
};

}  // namespace isochron::data
