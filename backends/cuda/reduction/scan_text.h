// Scans along an axis. Comes after element_prelude() in the compiled source. Each thread folds neighboring
// places, and blocks scan the results of their threads. If several blocks share an axis, an earlier launch
// computes the total of each part. The order of folding depends only on the shapes and the device. A scan is
// a class with a type State and two functions: `none()` is the neutral element, and `of(a, b)` folds b, which
// comes later, into a.
#ifndef ISOCHRON_OPS_CUDA_SCAN_TEXT_H_
#define ISOCHRON_OPS_CUDA_SCAN_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

/// Integers wrap around in unsigned long long.
template <typename T>
struct SumScan {
  using State = T;
  ISOCHRON_SCALAR State none() { return 0; }
  ISOCHRON_SCALAR State of(State a, State b) { return a + b; }
};

struct WholeProductScan {
  using State = unsigned long long;
  ISOCHRON_SCALAR State none() { return 1; }
  ISOCHRON_SCALAR State of(State a, State b) { return a * b; }
};

/// A product, m 2^e, which doesn't overflow; `high` and `low` are the largest and the least e of those of its
/// first factors, up to one that is 0, infinite or NaN.
struct Factors {
  double m;
  int e, high, low;

  ISOCHRON_SCALAR Factors one(double x) {
    Factors result = {x, 0, 0, 0};
    if (ends(x)) return result;
    result.m = ::frexp(x, &result.e);
    result.high = result.low = result.e;
    return result;
  }
  /// Whether all that comes behind keeps it 0, infinite or NaN, or makes it NaN.
  ISOCHRON_SCALAR bool ends(double x) { return x == 0 || x - x != 0; }
};
/// The sum of two exponents; beyond 2^29 their order of magnitude doesn't matter.
ISOCHRON_SCALAR int exponent_sum(int a, int b) {
  constexpr int kMax = 1 << 29;
  const int sum = a + b;
  return sum > kMax ? kMax : sum < -kMax ? -kMax : sum;
}

/// `before` times all of `factors`, as it comes out one by one: what overflows in between stays infinite,
/// what becomes smaller than all normal numbers stays 0.
ISOCHRON_SCALAR double times(double before, const Factors& factors) {
  if (Factors::ends(before)) return before * factors.m;
  int e = 0;
  const double m = ::frexp(before, &e) * factors.m;
  if (factors.high > 1025 - e) return double_of(0x7ff0000000000000ull) * m;
  if (factors.low < -1021 - e) return 0.0 * m;
  return Factors::ends(m) ? m : ::ldexp(m, e + factors.e);
}
ISOCHRON_SCALAR Factors times(const Factors& a, const Factors& b) {
  Factors result = {a.m * b.m, a.e, a.high, a.low};
  if (!Factors::ends(a.m)) {
    const int high = exponent_sum(a.e, b.high), low = exponent_sum(a.e, b.low);
    if (high > a.high) result.high = high;
    if (low < a.low) result.low = low;
  }
  if (Factors::ends(result.m)) return result;
  int more = 0;
  result.m = ::frexp(result.m, &more);
  result.e = exponent_sum(exponent_sum(a.e, b.e), more);
  return result;
}

struct ProductScan {
  using State = Factors;
  ISOCHRON_SCALAR State none() { return Factors::one(1); }
  ISOCHRON_SCALAR State of(State a, State b) { return times(a, b); }
};

struct LogSumExpScan {
  using State = double;
  ISOCHRON_SCALAR State none() { return double_of(0xfff0000000000000ull); }
  ISOCHRON_SCALAR State of(State a, State b) {
    constexpr double kLogTwo = 0.69314718055994530942;
    using M = ScalarMath<double>;
    if (a == b) return b + kLogTwo;  // also where both are infinite
    if (a != a || b != b) return a + b;
    return M::max(a, b) + M::log1p(M::exp(-M::abs(a - b)));
  }
};

/// The largest or smallest element and its position; of equal elements, and of NaNs, the last one.
template <typename T, bool kLargest>
struct ExtremeScan {
  struct State {
    T value;
    unsigned position;  // ~0: none
  };
  ISOCHRON_SCALAR State none() { return {T{}, ~0u}; }
  ISOCHRON_SCALAR State of(State a, State b) {
    if (a.position == ~0u || b.position == ~0u) return a.position == ~0u ? b : a;
    const auto before = widen(a.value), later = widen(b.value);
    return later != later || (kLargest ? later >= before : later <= before) ? b : a;
  }
};

/// y = factors y_before + term.
struct RecurrenceScan {
  struct State {
    Factors factors;
    double term;
  };
  ISOCHRON_SCALAR State none() { return {Factors::one(1), 0}; }
  ISOCHRON_SCALAR State of(State a, State b) {
    return {times(a.factors, b.factors), times(a.term, b.factors) + b.term};
  }
};

/// (outer, extent, inner), of which blocks have `part` places along the axis each, `parts` blocks all of
/// them, and `across` of those all columns of an outer one.
struct ScannedAxis {
  unsigned long long extent, inner, part;
  unsigned parts, across;
  bool reverse;
};

/// What comes before what a thread has, of those of its column and `carry`, to which then all is added.
template <typename Scan, unsigned kAcross>
ISOCHRON_SCALAR typename Scan::State before_own(typename Scan::State* states, typename Scan::State own,
                                                typename Scan::State& carry) {
  using State = typename Scan::State;
  states[threadIdx.x] = own;
  __syncthreads();
  ISOCHRON_NO_UNROLL
  for (unsigned reach = kAcross; reach < kScanThreads; reach *= 2) {
    State sum = states[threadIdx.x];
    if (threadIdx.x >= reach) {
      const State earlier = states[threadIdx.x - reach];
      sum = Scan::of(earlier, sum);
    }
    __syncthreads();
    states[threadIdx.x] = sum;
    __syncthreads();
  }
  State before = carry;
  if (threadIdx.x >= kAcross) {
    const State earlier = states[threadIdx.x - kAcross];
    before = Scan::of(carry, earlier);
  }
  const State all = states[kScanThreads - kAcross + threadIdx.x % kAcross];
  carry = Scan::of(carry, all);
  __syncthreads();
  return before;
}

/// A block's part of a scan; it has kAcross columns. `load(at, place)` gives the state of the element at
/// `at`, which has that place on the axis; `store(at, before, after)` takes what is folded before it and with
/// it. `totals`: of each part what it comes to, which a launch with kTotals leaves and stores nothing else.
template <typename Scan, unsigned kAcross, bool kTotals, typename Load, typename Store>
ISOCHRON_SCALAR void scan_part(const ScannedAxis& s, typename Scan::State* totals, const Load& load,
                               const Store& store) {
  using Wide = unsigned long long;
  using State = typename Scan::State;
  static_assert(sizeof(State) <= kScanStateBytes, "the workspace has no room for it");
  constexpr unsigned kAlong = kScanThreads / kAcross;
  __shared__ State states[kScanThreads];
  const unsigned across = threadIdx.x % kAcross, along = threadIdx.x / kAcross;
  const unsigned part = blockIdx.x % s.parts, columns = blockIdx.x / s.parts;
  const Wide column = columns % s.across * Wide(kAcross) + across;
  const Wide line = columns / s.across * s.extent * s.inner + column;
  State* const own_totals = totals + columns * Wide(s.parts) * kAcross + across;
  if (kTotals && part + 1 == s.parts) return;  // nothing comes behind it
  State carry = Scan::none();
  if (!kTotals && part > 0) {
    const unsigned each = (part + kAlong - 1) / kAlong;
    State own = Scan::none();
    for (unsigned p = along * each; p < (along + 1) * each && p < part; ++p) {
      const State total = own_totals[p * Wide(kAcross)];
      own = Scan::of(own, total);
    }
    before_own<Scan, kAcross>(states, own, carry);
  }
  const Wide begin = part * s.part, end = begin + s.part < s.extent ? begin + s.part : s.extent;
  for (Wide chunk = begin; chunk < end; chunk += kAlong * kScanEach) {
    const Wide first = chunk + along * kScanEach;
    State elements[kScanEach], own = Scan::none();
    ISOCHRON_UNROLL
    for (unsigned e = 0; e < kScanEach; ++e) {
      if (first + e >= end || column >= s.inner) continue;
      const Wide place = s.reverse ? s.extent - 1 - (first + e) : first + e;
      elements[e] = load(line + place * s.inner, place);
      own = Scan::of(own, elements[e]);
    }
    State before = before_own<Scan, kAcross>(states, own, carry);
    if constexpr (!kTotals) {
      ISOCHRON_UNROLL
      for (unsigned e = 0; e < kScanEach; ++e) {
        if (first + e >= end || column >= s.inner) continue;
        const Wide place = s.reverse ? s.extent - 1 - (first + e) : first + e;
        const State after = Scan::of(before, elements[e]);
        store(line + place * s.inner, before, after);
        before = after;
      }
    }
  }
  if (kTotals && along == 0) own_totals[part * Wide(kAcross)] = carry;
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
