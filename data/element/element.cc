#include "isochron/data/element/element.h"

#include <array>
#include <mutex>
#include <set>

namespace isochron::data {
namespace {

/// The one string of the process that is equal to `name`.
const std::string* kept_name(std::string_view name) {
  static std::mutex mutex;
  static auto* names = new std::set<std::string, std::less<>>;  // elements may outlive statics
  constexpr size_t kRecent = 64;
  thread_local std::array<const std::string*, kRecent> recent{};
  const size_t hash = name.empty() ? 0
                                   : name.size() * 7 + static_cast<unsigned char>(name.front()) * 5 +
                                         static_cast<unsigned char>(name.back());
  const std::string*& found = recent[hash % kRecent];
  if (found != nullptr && *found == name) return found;
  const std::scoped_lock lock(mutex);
  if (const auto at = names->find(name); at != names->end()) return found = &*at;
  require(names->size() < kMaxElementNames, ErrorCode::kInvalidArgument, "element",
          "more than {} different names of tensors; use the same names in every element", kMaxElementNames);
  return found = &*names->emplace(name).first;
}

}  // namespace

TensorSpec spec_of(DType dtype, std::initializer_list<int64_t> extents) {
  TensorSpec spec{dtype, {}};
  for (int64_t extent : extents) {
    require(extent >= 0 || extent == kAnyExtent, ErrorCode::kInvalidArgument, "spec_of",
            "expected extents >= 0 or kAnyExtent, got {}", extent);
    spec.shape.push_back(extent);
  }
  return spec;
}

// Delegates to the default constructor, so that the fields added so far are destroyed if a later one is
// rejected.
Element::Element(std::initializer_list<std::pair<std::string_view, Tensor>> fields) : Element() {
  for (const auto& [name, tensor] : fields) add(name, tensor);
}

void Element::add(std::string_view name, Tensor tensor) {
  require(size_ < kMaxElementTensors, ErrorCode::kInvalidArgument, "element", "contains at most {} tensors",
          kMaxElementTensors);
  require(!contains(name), ErrorCode::kInvalidArgument, "element", "the name '{}' appears twice", name);
  std::construct_at(field(size_), Field{kept_name(name), std::move(tensor)});
  ++size_;
}

bool Element::contains(std::string_view name) const {
  for (int i = 0; i < size_; ++i) {
    if (*field(i)->name == name) return true;
  }
  return false;
}

int Element::index_of(std::string_view name) const {
  for (int i = 0; i < size_; ++i) {
    if (*field(i)->name == name) return i;
  }
  std::string known;
  for (int i = 0; i < size_; ++i) known += fmt::format("{}'{}'", i ? ", " : "", *field(i)->name);
  fail(ErrorCode::kInvalidArgument, "element", "has no tensor '{}'; its names are {}", name, known);
}

void Element::throw_out_of_range(int index) const {
  fail(ErrorCode::kOutOfRange, "element", "position {} is outside [0, {})", index, size_);
}

bool Element::has(const Signature& signature) const {
  if (signature.size() != static_cast<size_t>(size_)) return false;
  for (int i = 0; i < size_; ++i) {
    const Tensor& tensor = field(i)->tensor;
    if (!tensor.defined() || !(tensor.spec() == signature[static_cast<size_t>(i)])) return false;
  }
  return true;
}

Signature Element::signature() const {
  Signature result;
  for (int i = 0; i < size_; ++i) result.push_back(field(i)->tensor.spec());
  return result;
}

std::string Element::str() const {
  std::string text;
  for (int i = 0; i < size_; ++i) {
    const auto& [name, tensor] = *field(i);
    text +=
        fmt::format("{}{}: {}", i ? ", " : "", *name, tensor.defined() ? tensor.spec().str() : "undefined");
  }
  return text;
}

}  // namespace isochron::data
