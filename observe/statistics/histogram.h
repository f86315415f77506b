// Log-linear histogram of durations in the manner of HdrHistogram (Tene): every octave is divided into
// `kSubBuckets` equal buckets, so the relative error of a value is at most 1 / kSubBuckets (0.2 %; half of
// that for the bucket's middle). Recording a value takes one shift and one increment. The memory is fixed.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace isochron::observe {

template <typename Count>
class LogHistogram {
 public:
  static constexpr int kSubBits = 9;
  static constexpr int kSubBuckets = 1 << kSubBits;
  static constexpr int kLargestBits = 62;  // 2^62 ns is 146 years; longer durations are clamped to it
  static constexpr int kBuckets = kSubBuckets * (kLargestBits - kSubBits + 1);

  LogHistogram() : counts_(kBuckets, Count{0}) {}

  /// Adds `value` `times` times; a value below 0 counts as 0.
  void add(int64_t value, int64_t times = 1) {
    const int bucket = bucket_of(value);
    counts_[static_cast<size_t>(bucket)] += static_cast<Count>(times);
    count_ += times;
    first_ = std::min(first_, bucket);
    last_ = std::max(last_, bucket);
  }
  int64_t count() const { return count_; }
  size_t bytes() const { return counts_.size() * sizeof(Count); }

  /// The value below which `fraction` of the recorded values lie, interpolated within its bucket; 0 if empty.
  double quantile(double fraction) const {
    double result = 0;
    quantiles(&fraction, 1, &result);
    return result;
  }

  /// Fills `results` with the quantiles at `n` ascending `fractions`, in one pass over the touched buckets.
  template <typename Value>
  void quantiles(const double* fractions, int n, Value* results) const {
    joint_quantiles([this](auto visit) { visit(*this); }, fractions, n, results);
  }
  /// The same for several histograms together; `for_each` calls its argument with each of them.
  template <typename ForEach, typename Value>
  static void joint_quantiles(ForEach for_each, const double* fractions, int n, Value* results) {
    double all = 0, below = 0;
    int next = 0, first = kBuckets, last = -1;
    for_each([&](const auto& histogram) {
      all += static_cast<double>(histogram.count_);
      first = std::min(first, histogram.first_);
      last = std::max(last, histogram.last_);
    });
    for (int bucket = first; bucket <= last && next < n; ++bucket) {
      double here = 0;
      for_each([&](const auto& histogram) {
        here += static_cast<double>(histogram.counts_[static_cast<size_t>(bucket)]);
      });
      if (here == 0) continue;
      for (; next < n; ++next) {
        const double target = fractions[next] * all - below;
        if (target > here && bucket < last) break;
        const double inside = std::clamp(target / here, 0.0, 1.0);
        results[next] = static_cast<Value>(lower_edge(bucket) + inside * width(bucket));
      }
      below += here;
    }
    for (; next < n; ++next) results[next] = Value{0};
  }

  /// Calls `visit(lower_edge, upper_edge, count)` for every non-empty bucket, in ascending order.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (int bucket = first_; bucket <= last_; ++bucket) {
      const Count count = counts_[static_cast<size_t>(bucket)];
      if (count != 0) visit(lower_edge(bucket), lower_edge(bucket) + width(bucket), count);
    }
  }

  template <typename Other>
  void add_all(const LogHistogram<Other>& other) {
    if (other.count() == 0) return;
    for (int bucket = other.first_; bucket <= other.last_; ++bucket) {
      counts_[static_cast<size_t>(bucket)] += other.counts_[static_cast<size_t>(bucket)];
    }
    count_ += other.count_;
    first_ = std::min(first_, other.first_);
    last_ = std::max(last_, other.last_);
  }

  /// Takes time linear in the width of the touched range.
  void clear() {
    if (count_ > 0) std::fill(counts_.begin() + first_, counts_.begin() + last_ + 1, Count{0});
    count_ = 0;
    first_ = kBuckets;
    last_ = -1;
  }

 private:
  template <typename>
  friend class LogHistogram;

  static int bucket_of(int64_t value) {
    const uint64_t v = static_cast<uint64_t>(std::clamp<int64_t>(value, 0, (int64_t{1} << kLargestBits) - 1));
    const int shift = std::max(0, static_cast<int>(std::bit_width(v)) - kSubBits - 1);
    return (shift << kSubBits) + static_cast<int>(v >> shift);
  }
  static int shift_of(int bucket) { return std::max(0, (bucket >> kSubBits) - 1); }
  static double lower_edge(int bucket) {
    const int shift = shift_of(bucket);
    return static_cast<double>(static_cast<int64_t>(bucket - (shift << kSubBits)) << shift);
  }
  static double width(int bucket) { return static_cast<double>(int64_t{1} << shift_of(bucket)); }

  std::vector<Count> counts_;
  int64_t count_ = 0;
  int first_ = kBuckets;
  int last_ = -1;
};

}  // namespace isochron::observe
