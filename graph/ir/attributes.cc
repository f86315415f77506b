#include "isochron/graph/ir/attributes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <functional>

namespace isochron::graph {
namespace {

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

std::string value_str(const AttributeValue& value) {
  return std::visit(
      Overloaded{
          [](bool v) { return std::string(v ? "true" : "false"); },
          [](int64_t v) { return std::to_string(v); }, [](double v) { return fmt::format("{:g}", v); },
          [](DType v) { return std::string(dtype_name(v)); }, [](const Dims& v) { return dims_str(v); },
          [](const std::string& v) { return "'" + v + "'"; },
          [](const std::vector<double>& v) { return fmt::format("[{:g}]", fmt::join(v, " ")); },
          [](const std::vector<DType>& v) {
            std::string text;
            for (const DType dtype : v)
              text += fmt::format("{}{}", text.empty() ? "" : " ", dtype_name(dtype));
            return "[" + text + "]";
          },
          [](const std::shared_ptr<const AttributeObject>& v) { return v ? v->str() : std::string("null"); }},
      value);
}

uint64_t bits(double value) { return std::bit_cast<uint64_t>(value); }

bool equal(const AttributeValue& a, const AttributeValue& b) {
  if (a.index() != b.index()) return false;
  if (const double* number = std::get_if<double>(&a)) return bits(*number) == bits(std::get<double>(b));
  if (const auto* numbers = std::get_if<std::vector<double>>(&a))
    return std::ranges::equal(*numbers, std::get<std::vector<double>>(b), {}, bits, bits);
  return a == b;
}

size_t value_hash(const AttributeValue& value) {
  return std::visit(
      Overloaded{
          [](bool v) { return size_t{v}; }, [](int64_t v) { return static_cast<size_t>(v); },
          [](double v) { return static_cast<size_t>(bits(v)); },
          [](DType v) { return static_cast<size_t>(v); },
          [](const Dims& v) {
            size_t h = static_cast<size_t>(v.rank());
            for (int64_t d : v) h = hash_mix(h, static_cast<size_t>(d));
            return h;
          },
          [](const std::string& v) { return std::hash<std::string>()(v); },
          [](const std::vector<double>& v) {
            size_t h = v.size();
            for (const double number : v) h = hash_mix(h, static_cast<size_t>(bits(number)));
            return h;
          },
          [](const std::vector<DType>& v) {
            size_t h = v.size();
            for (const DType dtype : v) h = hash_mix(h, static_cast<size_t>(dtype));
            return h;
          },
          [](const std::shared_ptr<const AttributeObject>& v) { return std::hash<const void*>()(v.get()); }},
      value);
}

}  // namespace

// Defined here because the tables of rows make thousands of them.
Attributes::Attributes() = default;
Attributes::Attributes(std::initializer_list<Entry> entries) : entries_(entries) {}
Attributes::Attributes(const Attributes&) = default;
Attributes::Attributes(Attributes&&) noexcept = default;
Attributes& Attributes::operator=(const Attributes&) = default;
Attributes& Attributes::operator=(Attributes&&) noexcept = default;
Attributes::~Attributes() = default;

void Attributes::set(std::string_view name, AttributeValue value) {
  for (Entry& entry : entries_) {
    if (entry.first == name) {
      entry.second = std::move(value);
      return;
    }
  }
  entries_.emplace_back(name, std::move(value));
}

void Attributes::erase(std::string_view name) {
  std::erase_if(entries_, [name](const Entry& entry) { return entry.first == name; });
}

bool Attributes::has_objects() const {
  for (const Entry& entry : entries_) {
    if (std::holds_alternative<std::shared_ptr<const AttributeObject>>(entry.second)) return true;
  }
  return false;
}

size_t Attributes::hash() const {
  size_t h = entries_.size();
  for (const Entry& entry : entries_) {
    h = hash_mix(hash_mix(h, std::hash<std::string_view>()(entry.first)), value_hash(entry.second));
  }
  return h;
}

bool operator==(const Attributes& a, const Attributes& b) {
  return std::ranges::equal(a.entries_, b.entries_, [](const auto& x, const auto& y) {
    return x.first == y.first && equal(x.second, y.second);
  });
}

std::string Attributes::str() const {
  std::string text;
  for (const Entry& entry : entries_) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", entry.first, value_str(entry.second));
  }
  return text;
}

void Attributes::missing(std::string_view name) const {
  fail(ErrorCode::kInvalidArgument, "attributes", "no attribute '{}' of that type among: {}", name, str());
}

size_t hash_spec(size_t seed, const TensorSpec& spec) {
  size_t h = hash_mix(seed, static_cast<size_t>(spec.dtype) * 16 + static_cast<size_t>(spec.shape.rank()));
  for (int64_t extent : spec.shape) h = hash_mix(h, static_cast<size_t>(extent));
  return h;
}

}  // namespace isochron::graph
