#include "isochron/data/element.h"

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
          "more than {} different names of tensors; names say what a tensor is, not which element it is of",
          kMaxElementNames);
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

Element::Element(std::initializer_list<std::pair<std::string_view, Tensor>> fields) {
  for (const auto& [name, tensor] : fields) add(name, tensor);
}

void Element::add(std::string_view name, Tensor tensor) {
  require(size_ < kMaxElementTensors, ErrorCode::kInvalidArgument, "element", "holds at most {} tensors",
          kMaxElementTensors);
  require(!contains(name), ErrorCode::kInvalidArgument, "element", "the name '{}' appears twice", name);
  names_[static_cast<size_t>(size_)] = kept_name(name);
  tensors_[static_cast<size_t>(size_)] = std::move(tensor);
  ++size_;
}

bool Element::contains(std::string_view name) const {
  for (int i = 0; i < size_; ++i) {
    if (*names_[static_cast<size_t>(i)] == name) return true;
  }
  return false;
}

size_t Element::index_of(std::string_view name) const {
  for (size_t i = 0; i < static_cast<size_t>(size_); ++i) {
    if (*names_[i] == name) return i;
  }
  std::string known;
  for (int i = 0; i < size_; ++i)
    known += fmt::format("{}'{}'", i ? ", " : "", *names_[static_cast<size_t>(i)]);
  fail(ErrorCode::kInvalidArgument, "element", "has no '{}'; its names are {}", name, known);
}

void Element::throw_out_of_range(int index) const {
  fail(ErrorCode::kOutOfRange, "element", "position {} is outside [0, {})", index, size_);
}

bool Element::has(const Signature& signature) const {
  if (signature.size() != static_cast<size_t>(size_)) return false;
  for (size_t i = 0; i < signature.size(); ++i) {
    if (!tensors_[i].defined() || !(tensors_[i].spec() == signature[i])) return false;
  }
  return true;
}

Signature Element::signature() const {
  Signature result;
  for (int i = 0; i < size_; ++i) result.push_back(tensors_[static_cast<size_t>(i)].spec());
  return result;
}

std::string Element::str() const {
  std::string text;
  for (size_t i = 0; i < static_cast<size_t>(size_); ++i) {
    text += fmt::format("{}{}: {}", i ? ", " : "", *names_[i],
                        tensors_[i].defined() ? tensors_[i].spec().str() : "undefined");
  }
  return text;
}

}  // namespace isochron::data
