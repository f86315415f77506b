#include "isochron/data/element.h"

namespace isochron::data {

Element::Element(std::initializer_list<std::pair<std::string_view, Tensor>> fields) {
  for (const auto& [name, tensor] : fields) add(name, tensor);
}

void Element::add(std::string_view name, Tensor tensor) {
  require(size_ < kMaxElementTensors, ErrorCode::kInvalidArgument, "element", "holds at most {} tensors",
          kMaxElementTensors);
  require(!contains(name), ErrorCode::kInvalidArgument, "element", "the name '{}' appears twice", name);
  names_[static_cast<size_t>(size_)] = name;
  tensors_[static_cast<size_t>(size_)] = std::move(tensor);
  ++size_;
}

bool Element::contains(std::string_view name) const {
  for (int i = 0; i < size_; ++i) {
    if (names_[static_cast<size_t>(i)] == name) return true;
  }
  return false;
}

size_t Element::index_of(std::string_view name) const {
  for (size_t i = 0; i < static_cast<size_t>(size_); ++i) {
    if (names_[i] == name) return i;
  }
  std::string known;
  for (int i = 0; i < size_; ++i)
    known += fmt::format("{}'{}'", i ? ", " : "", names_[static_cast<size_t>(i)]);
  fail(ErrorCode::kInvalidArgument, "element", "has no '{}'; its names are {}", name, known);
}

size_t Element::checked(int index) const {
  require(index >= 0 && index < size_, ErrorCode::kOutOfRange, "element", "position {} is outside [0, {})",
          index, size_);
  return static_cast<size_t>(index);
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
    text += fmt::format("{}{}: {}", i ? ", " : "", names_[i],
                        tensors_[i].defined() ? tensors_[i].spec().str() : "undefined");
  }
  return text;
}

}  // namespace isochron::data
