#include "isochron/ops/collective/packed_sum.h"

#include <cstring>
#include <utility>

#include "isochron/graph/ir/attributes.h"

namespace isochron::ops {

uint64_t hash_of(std::span<const TensorSpec> tensors) {
  uint64_t hash = tensors.size();
  for (const TensorSpec& spec : tensors) hash = graph::hash_spec(hash, spec);
  return hash;
}

/// Tensors of one dtype are stored together. Each tensor begins at an address with the alignment that kernels
/// require.
PackedSum::PackedSum(std::shared_ptr<comm::Group> group, std::span<const TensorSpec> tensors, Content content)
    : group_(std::move(group)), places_(tensors.size()), offsets_(tensors.size()) {
  std::vector<comm::TreeSum::Run> runs;
  for (const DType dtype : {DType::kF64, DType::kI64, DType::kF32}) {
    const size_t begin = packed_;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].dtype != dtype) continue;
      offsets_[i] = add(tensors[i].size_bytes());
    }
    if (content == Content::kGradientsAndNotes && dtype == DType::kF64) notes_ = add(group_->notes().bytes());
    if (packed_ > begin) runs.push_back({dtype, packed_ - begin});
  }
  for (const TensorSpec& spec : tensors) bytes_.push_back(spec.size_bytes());
  sum_.emplace(group_->size(), std::move(runs));
  sum_->describe(content == Content::kTensors ? "all_reduce" : "sums of gradients", packed_,
                 hash_of(tensors));
}

/// Reserves `bytes` more and returns where they begin.
size_t PackedSum::add(size_t bytes) {
  const size_t begin = align_up(packed_, kAlignment);
  if (begin > packed_) gaps_.emplace_back(packed_, begin - packed_);
  packed_ = begin + bytes;
  return begin;
}

void PackedSum::copy(std::byte* const* to, std::byte* const* from) const {
  for (size_t i = 0; i < bytes_.size(); ++i) {
    if (bytes_[i] > 0 && to[i] != from[i]) std::memcpy(to[i], from[i], bytes_[i]);
  }
}

void PackedSum::start(std::byte* const* tensors, std::byte* range, std::byte* scratch, Begin begin) {
  if (group_->size() == 1) {
    places_.assign(tensors, tensors + bytes_.size());
    return;
  }
  abandon();
  for (size_t i = 0; i < places_.size(); ++i) places_[i] = range + offsets_[i];
  copy(places_.data(), tensors);
  for (const auto& [gap, bytes] : gaps_) std::memset(range + gap, 0, bytes);
  range_ = range;
  if (notes_) group_->notes().write(range_ + *notes_, group_->stats().exposed_ns);
  sum_->bind(range, scratch);
  if (begin == Begin::kNow) {
    group_->start(*sum_);
  } else {
    group_->start_when_waited_for(*sum_);
  }
  in_flight_ = true;
}

void PackedSum::abandon() {
  if (std::exchange(in_flight_, false)) group_->abandon(*sum_);
}

void PackedSum::finish(std::byte* const* sums) {
  group_->wait(*sum_);
  in_flight_ = false;
  if (notes_ && group_->size() > 1) group_->notes().read(range_ + *notes_, group_->stats().exposed_ns);
  copy(sums, places_.data());
}

}  // namespace isochron::ops
