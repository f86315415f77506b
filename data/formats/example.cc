#include "isochron/data/formats/example.h"

#include <data/formats/example.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>

#include "isochron/core/base/checked.h"
#include "isochron/core/base/error.h"
#include "isochron/memory/allocators/buffer.h"

namespace isochron::data {
namespace {

constexpr std::string_view kKindNames[] = {"byte strings", "64-bit integers", "floats"};

std::string_view kind_name(FeatureKind kind) { return kKindNames[static_cast<int>(kind)]; }

DType dtype_of_kind(FeatureKind kind) {
  constexpr DType kDtypes[] = {DType::kU8, DType::kI64, DType::kF32};
  return kDtypes[static_cast<int>(kind)];
}

bool represents(FeatureKind kind, double value) {
  if (kind == FeatureKind::kFloat) return true;
  const bool in_range = kind == FeatureKind::kBytes ? value >= 0 && value <= 255 : std::abs(value) < 0x1p63;
  return in_range && value == std::trunc(value);
}

bool has(const wire::Feature& feature, FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kBytes:
      return feature.has_bytes_list();
    case FeatureKind::kInt64:
      return feature.has_int64_list();
    case FeatureKind::kFloat:
      return feature.has_float_list();
  }
  return false;
}

/// The entries and byte strings of an encoded Example, or of a message within it. Each may be empty, and
/// takes far more memory than in the record.
size_t entries(google::protobuf::io::CodedInputStream& in, size_t depth = 0) {
  using google::protobuf::internal::WireFormatLite;
  constexpr int kField[] = {1, 1, 2, 1, 1};  // features, feature, value, bytes_list, value
  constexpr bool kCounted[] = {false, true, false, false, true};
  size_t count = 0;
  while (const uint32_t tag = in.ReadTag()) {
    const bool other = WireFormatLite::GetTagFieldNumber(tag) != kField[depth] ||
                       WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    if (!other) count += kCounted[depth];
    if (other || depth + 1 == std::size(kField)) {
      if (!WireFormatLite::SkipField(&in, tag)) break;
      continue;
    }
    uint32_t bytes = 0;
    if (!in.ReadVarint32(&bytes) || bytes > INT_MAX) break;
    const auto limit = in.PushLimit(static_cast<int>(bytes));
    count += entries(in, depth + 1);
    in.Skip(std::max(0, in.BytesUntilLimit()));
    in.PopLimit(limit);
  }
  return count;
}

}  // namespace

struct ExampleParser::Message {
  wire::Example example;
  std::vector<const wire::Feature*> found;  // one per spec; null when absent
};

ExampleParser::ExampleParser(std::vector<FeatureSpec> specs)
    : specs_(std::move(specs)), message_(std::make_unique<Message>()) {
  require(!specs_.empty(), ErrorCode::kInvalidArgument, "ExampleParser", "expected at least one feature");
  for (auto spec = specs_.begin(); spec != specs_.end(); ++spec) {
    const bool is_new =
        std::none_of(specs_.begin(), spec, [&](auto& other) { return other.name == spec->name; });
    require(is_new, ErrorCode::kInvalidArgument, "ExampleParser", "feature '{}' is named twice", spec->name);
    require(spec->shape || !spec->missing, ErrorCode::kInvalidArgument, "ExampleParser",
            "feature '{}' has variable length, so it takes no default value for records without it",
            spec->name);
    if (spec->shape) static_cast<void>(TensorSpec{dtype_of_kind(spec->kind), *spec->shape}.size_bytes());
    require(!spec->missing || represents(spec->kind, *spec->missing), ErrorCode::kInvalidArgument,
            "ExampleParser", "feature '{}' can't represent its default value {}", spec->name,
            spec->missing.value_or(0));
  }
  message_->found.resize(specs_.size());
}

ExampleParser::~ExampleParser() = default;

TensorSpec ExampleParser::tensor_spec(size_t feature) const {
  const FeatureSpec& spec = specs_.at(feature);
  require(spec.shape.has_value(), ErrorCode::kInvalidArgument, "ExampleParser",
          "feature '{}' has variable length, so its tensors have no fixed shape", spec.name);
  return {dtype_of_kind(spec.kind), *spec.shape};
}

std::string ExamplePlace::str() const {
  return offset_bytes_ ? fmt::format("{}, record at byte {}", name_, *offset_bytes_) : std::string(name_);
}

size_t ExampleParser::most_bytes(std::span<const std::byte> example) {
  using google::protobuf::io::CodedInputStream;
  if (example.size() > INT_MAX) return example.size();  // refused by `parse`
  CodedInputStream in(reinterpret_cast<const uint8_t*>(example.data()), static_cast<int>(example.size()));
  constexpr size_t kEntryBytes = sizeof(wire::FeatureEntry) + sizeof(wire::Feature) + 2 * sizeof(void*);
  static_assert(kEntryBytes >= sizeof(std::string) + sizeof(void*));
  return example.size() + kEntryBytes * entries(in);
}

void ExampleParser::parse(std::span<const std::byte> example, const ExamplePlace& where) {
  const auto demand = [&]<typename... Args>(bool holds, fmt::format_string<Args...> format, Args&&... args) {
    if (!holds) fail(ErrorCode::kBadFormat, where.str(), format, std::forward<Args>(args)...);
  };
  std::fill(message_->found.begin(), message_->found.end(), nullptr);
  const bool whole = example.size() <= INT_MAX &&
                     message_->example.ParseFromArray(example.data(), static_cast<int>(example.size()));
  demand(whole, "the record of {} bytes is not a complete Example", example.size());
  size_t int_bytes = 0;
  for (const wire::FeatureEntry& entry : message_->example.features().feature()) {
    int_bytes += sizeof(int64_t) * static_cast<size_t>(entry.value().int64_list().value_size());
    for (size_t i = 0; i < specs_.size(); ++i) {
      if (entry.key() != specs_[i].name) continue;
      demand(message_->found[i] == nullptr, "feature '{}' appears twice", specs_[i].name);
      message_->found[i] = &entry.value();
    }
  }
  int_bytes_ = std::max(int_bytes_, int_bytes);
  for (size_t i = 0; i < specs_.size(); ++i) {
    const FeatureSpec& spec = specs_[i];
    const wire::Feature* feature = message_->found[i];
    const bool empty = feature == nullptr ||
                       !(feature->has_bytes_list() || feature->has_int64_list() || feature->has_float_list());
    if (empty) {
      message_->found[i] = nullptr;
      demand(!spec.shape || spec.missing, "feature '{}' is absent", spec.name);
      continue;
    }
    demand(has(*feature, spec.kind), "feature '{}' contains no {}", spec.name, kind_name(spec.kind));
    if (!spec.shape) continue;
    const auto expected = static_cast<size_t>(spec.shape->elems());
    if (spec.kind == FeatureKind::kBytes) {
      demand(strings(i) == 1, "feature '{}' has {} strings; expected one", spec.name, strings(i));
    }
    const size_t got = spec.kind == FeatureKind::kBytes   ? string(i, 0).size()
                       : spec.kind == FeatureKind::kInt64 ? ints(i).size()
                                                          : floats(i).size();
    demand(got == expected, "feature '{}' has {} {}; expected {}", spec.name, got,
           spec.kind == FeatureKind::kBytes ? "bytes" : "values", expected);
  }
}

const FeatureSpec& ExampleParser::spec_of(size_t feature, FeatureKind kind) const {
  const FeatureSpec& spec = specs_.at(feature);
  require(spec.kind == kind, ErrorCode::kInvalidArgument, "ExampleParser", "feature '{}' contains {}, not {}",
          spec.name, kind_name(spec.kind), kind_name(kind));
  return spec;
}

std::span<const int64_t> ExampleParser::ints(size_t feature) const {
  spec_of(feature, FeatureKind::kInt64);
  if (message_->found[feature] == nullptr) return {};
  const auto& values = message_->found[feature]->int64_list().value();
  static_assert(sizeof(*values.data()) == sizeof(int64_t));
  return {reinterpret_cast<const int64_t*>(values.data()), static_cast<size_t>(values.size())};
}

std::span<const float> ExampleParser::floats(size_t feature) const {
  spec_of(feature, FeatureKind::kFloat);
  if (message_->found[feature] == nullptr) return {};
  const auto& values = message_->found[feature]->float_list().value();
  return {values.data(), static_cast<size_t>(values.size())};
}

size_t ExampleParser::strings(size_t feature) const {
  spec_of(feature, FeatureKind::kBytes);
  const wire::Feature* found = message_->found[feature];
  return found == nullptr ? 0 : static_cast<size_t>(found->bytes_list().value_size());
}

std::string_view ExampleParser::string(size_t feature, size_t index) const {
  require(index < strings(feature), ErrorCode::kOutOfRange, "ExampleParser",
          "feature '{}' has {} strings; there is none at index {}", specs_[feature].name, strings(feature),
          index);
  return message_->found[feature]->bytes_list().value(static_cast<int>(index));
}

void ExampleParser::copy(size_t feature, std::span<std::byte> into) const {
  const TensorSpec spec = tensor_spec(feature);
  require(into.size() == spec.size_bytes(), ErrorCode::kInvalidArgument, "ExampleParser",
          "feature '{}' has {} bytes, but the memory for it has {}", specs_[feature].name, spec.size_bytes(),
          into.size());
  if (message_->found[feature] == nullptr) {
    const double value = specs_[feature].missing.value_or(0);
    const auto fill = [&]<typename T>(T value_of_type) {
      for (size_t i = 0; i < into.size(); i += sizeof(T)) std::memcpy(&into[i], &value_of_type, sizeof(T));
    };
    if (spec.dtype == DType::kF32) return fill(static_cast<float>(value));
    if (spec.dtype == DType::kI64) return fill(static_cast<int64_t>(value));
    return fill(static_cast<uint8_t>(value));
  }
  const void* from = spec.dtype == DType::kF32   ? static_cast<const void*>(floats(feature).data())
                     : spec.dtype == DType::kI64 ? static_cast<const void*>(ints(feature).data())
                                                 : static_cast<const void*>(string(feature, 0).data());
  if (!into.empty()) std::memcpy(into.data(), from, into.size());
}

Tensor ExampleParser::tensor(size_t feature) const {
  const FeatureSpec& spec = specs_.at(feature);
  if (spec.shape) {
    Tensor result = empty(tensor_spec(feature), "example");
    copy(feature, {result.raw(), result.size_bytes()});
    return result;
  }
  const auto of = [&]<typename T>(const T* values, size_t count, DType dtype) {
    Tensor result = empty({dtype, {static_cast<int64_t>(count)}}, "example");
    if (count > 0) std::memcpy(result.raw(), values, count * sizeof(T));
    return result;
  };
  switch (spec.kind) {
    case FeatureKind::kInt64:
      return of(ints(feature).data(), ints(feature).size(), DType::kI64);
    case FeatureKind::kFloat:
      return of(floats(feature).data(), floats(feature).size(), DType::kF32);
    case FeatureKind::kBytes:
      break;
  }
  require(strings(feature) == 1, ErrorCode::kInvalidArgument, "ExampleParser",
          "feature '{}' has {} strings; only a single string can become a tensor", spec.name,
          strings(feature));
  const std::string_view text = string(feature, 0);
  return of(text.data(), text.size(), DType::kU8);
}

struct ExampleBuilder::Message {
  wire::Example example;

  wire::Feature& add(std::string_view name) {
    auto& features = *example.mutable_features();
    for (const wire::FeatureEntry& entry : features.feature()) {
      require(entry.key() != name, ErrorCode::kInvalidArgument, "ExampleBuilder",
              "feature '{}' was already added", name);
    }
    wire::FeatureEntry& entry = *features.add_feature();
    entry.set_key(name.data(), name.size());
    return *entry.mutable_value();
  }
};

ExampleBuilder::ExampleBuilder() : message_(std::make_unique<Message>()) {}
ExampleBuilder::~ExampleBuilder() = default;

void ExampleBuilder::add(std::string_view name, std::span<const int64_t> values) {
  message_->add(name).mutable_int64_list()->mutable_value()->Assign(values.begin(), values.end());
}

void ExampleBuilder::add(std::string_view name, std::span<const float> values) {
  message_->add(name).mutable_float_list()->mutable_value()->Assign(values.begin(), values.end());
}

void ExampleBuilder::add(std::string_view name, std::span<const std::string_view> values) {
  auto& list = *message_->add(name).mutable_bytes_list();
  for (const std::string_view value : values) list.add_value(value.data(), value.size());
}

void ExampleBuilder::serialize(std::string& into) const {
  const size_t bytes = message_->example.ByteSizeLong();
  require(bytes <= INT_MAX, ErrorCode::kUnsupported, "ExampleBuilder",
          "an example must be smaller than 2 GiB, but this one has {} bytes; split it", bytes);
  message_->example.SerializeToString(&into);
}

void ExampleBuilder::clear() { message_->example.Clear(); }

}  // namespace isochron::data
