#include "isochron/core/telemetry/sealed.h"

#include <algorithm>

#include "isochron/core/base/error.h"

namespace isochron {

namespace {

/// "1 plan", "2 tape entries".
std::string counted_name(int64_t count, Made what) {
  std::string name(made_name(what));
  if (count > 1) name = name.ends_with('y') ? name.substr(0, name.size() - 1) + "ies" : name + "s";
  return fmt::format("{} {}", count, name);
}

}  // namespace

std::string_view made_name(Made what) {
  constexpr std::string_view kNames[kMadeCount] = {"allocation",  "tensor", "tape entry", "graph node",
                                                   "file handle", "thread", "plan",       "trace"};
  return kNames[static_cast<int>(what)];
}

Seal::Seal() { StackTrace::prepare(); }

void Seal::note(Made what, size_t bytes, std::string_view tag) noexcept {
  Record& record = records_[static_cast<size_t>(what)];
  record.bytes.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  if (record.count.fetch_add(1, std::memory_order_acq_rel) == 0) {
    record.first_bytes = bytes;
    record.first_tag.fill(0);
    std::copy_n(tag.data(), std::min(tag.size(), record.first_tag.size() - 1), record.first_tag.data());
    record.first.capture();
  }
  broken_.store(true, std::memory_order_relaxed);
}

void Seal::report(std::string_view where, int64_t step) {
  std::string made, trace;
  for (int i = kMadeCount - 1; i >= 0; --i) {
    Record& record = records_[static_cast<size_t>(i)];
    const int64_t count = record.count;
    if (count == 0) continue;
    made += fmt::format("{}{}", made.empty() ? "" : ", ", counted_name(count, static_cast<Made>(i)));
    if (record.bytes > 0) {
      made += fmt::format(" of {} bytes", record.bytes.load());
      if (count > 1) made += fmt::format(" (the first of {})", record.first_bytes);
      if (record.first_tag[0] != 0) made += fmt::format(" for '{}'", record.first_tag.data());
    }
    if (trace.empty()) {
      trace = fmt::format("the {}{} was made here:\n{}", count > 1 ? "first " : "",
                          made_name(static_cast<Made>(i)), record.first.text());
    }
    record.count = 0;
    record.bytes = 0;
  }
  broken_ = false;
  fail(
      ErrorCode::kSealed, where,
      "step {} is sealed, so it must create nothing, but it created {}; create it before the loop, reuse it, "
      "or move it to a callback; {}",
      step, made, trace);
}

namespace internal {

void note_made(Made what, size_t bytes, std::string_view tag) noexcept {
  Seal* const seal = t_seal;
  const UnsealedScope untracked;  // objects made while taking the trace don't count
  seal->note(what, bytes, tag);
}

}  // namespace internal
}  // namespace isochron
