// Named constants of an op call: axis, strides, the sub-graph of a loop. Small, ordered, comparable.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "isochron/core/tensor/shape.h"

namespace isochron::graph {

/// Base class of structured attributes (sub-graphs, fused programs). Immutable once it is in a node.
class AttributeObject {
 public:
  virtual ~AttributeObject() = default;
  /// One line for printed graphs.
  virtual std::string str() const = 0;
};

using AttributeValue = std::variant<bool, int64_t, double, DType, Dims, std::string, std::vector<double>,
                                    std::vector<DType>, std::shared_ptr<const AttributeObject>>;

/// Ordered name -> value pairs. Names are string literals.
class Attributes {
 public:
  using Entry = std::pair<std::string_view, AttributeValue>;
  Attributes();
  Attributes(std::initializer_list<Entry> entries);
  Attributes(const Attributes&);
  Attributes(Attributes&&) noexcept;
  Attributes& operator=(const Attributes&);
  Attributes& operator=(Attributes&&) noexcept;
  ~Attributes();

  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// The value of `name`. A missing name or a wrong type is a programming error: throws kInvalidArgument.
  template <typename T>
  const T& get(std::string_view name) const {
    const AttributeValue* value = find(name);
    if (!value || !std::holds_alternative<T>(*value)) missing(name);
    return std::get<T>(*value);
  }
  template <typename T>
  T get_or(std::string_view name, T fallback) const {
    return has(name) ? get<T>(name) : fallback;
  }
  /// The object attribute `name` as a `T`.
  template <typename T>
  std::shared_ptr<const T> object(std::string_view name) const {
    return std::static_pointer_cast<const T>(get<std::shared_ptr<const AttributeObject>>(name));
  }
  void set(std::string_view name, AttributeValue value);
  void erase(std::string_view name);
  bool has_objects() const;
  size_t hash() const;
  std::string str() const;
  const std::vector<Entry>& entries() const { return entries_; }
  /// Compares numbers by their bits: 0.0 differs from -0.0, and NaN is equal to itself.
  friend bool operator==(const Attributes& a, const Attributes& b);

 private:
  const AttributeValue* find(std::string_view name) const {
    for (const Entry& entry : entries_) {
      if (entry.first == name) return &entry.second;
    }
    return nullptr;
  }
  [[noreturn]] void missing(std::string_view name) const;
  std::vector<Entry> entries_;
};

/// Mixes `value` into `seed` (boost's hash_combine with a 64-bit constant).
inline size_t hash_mix(size_t seed, size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15ull + (seed << 12) + (seed >> 4));
}
size_t hash_spec(size_t seed, const TensorSpec& spec);

}  // namespace isochron::graph
