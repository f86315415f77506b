#include "isochron/graph/capture/settings.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "isochron/graph/capture/capture.h"
#include "isochron/graph/ir/attributes.h"

namespace isochron::graph {

void TracedSettings::note(const void* identity, const Name& name, Now now) {
  if (!known_.insert(identity).second) return;
  const int64_t value = now();
  reads_.push_back({name(), std::move(now), value});
}

void TracedSettings::forget_changed() {
  std::erase_if(reads_, [](const Read& read) { return read.now() != read.value; });
}

bool TracedSettings::check() const {
  checked_at_ = changes();
  checked_by_ = &t_marker;
  return held_ = std::ranges::all_of(reads_, [](const Read& read) { return read.now() == read.value; });
}

std::string TracedSettings::changed() const {
  constexpr size_t kNamed = 3;
  std::vector<std::string> names;
  for (const Read& read : reads_) {
    if (read.now() != read.value) names.push_back(read.name);
  }
  const size_t count = names.size();
  if (count > kNamed) names.resize(kNamed);
  return fmt::format("{}{}", fmt::join(names, ", "),
                     count > kNamed ? fmt::format(" and {} more", count - kNamed) : "");
}

size_t TracedSettings::hash() const {
  size_t hash = reads_.size();
  for (const Read& read : reads_)
    hash = hash_mix(hash_mix(hash, std::hash<std::string>()(read.name)), static_cast<size_t>(read.value));
  return hash;
}

uint64_t capture_serial() {
  const Capture* capture = Capture::current();
  return capture != nullptr ? capture->serial() : 0;
}

void note_setting(const void* identity, uint64_t changed_in, const TracedSettings::Name& name,
                  TracedSettings::Now now) {
  Capture* capture = Capture::current();
  if (capture == nullptr || capture->serial() == changed_in) return;
  while (capture->parent() != nullptr) capture = capture->parent();
  capture->settings().note(identity, name, std::move(now));
}

int64_t Setting::read(const TracedSettings::Name& name) const {
  if (Capture::current() != nullptr)
    note_setting(state_.get(), state_->changed_in, name, [state = state_] { return state->value; });
  return state_->value;
}

void Setting::set(int64_t value) const {
  if (std::exchange(state_->value, value) == value) return;
  state_->changed_in = capture_serial();
  TracedSettings::note_change();
}

}  // namespace isochron::graph
