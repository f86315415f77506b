#include "isochron/backends/cpu/elementwise/tile_reductions.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace isochron::ops {
namespace {

using graph::ReduceKind;

/// Folds n consecutive elements into n consecutive accumulators.
void fold_run(Accumulator* into, const void* from, DType dtype, ReduceKind kind, int64_t n) {
  dispatch_dtype(dtype, [&]<typename T>(T) {
    const T* x = static_cast<const T*>(from);
    if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
      for (int64_t i = 0; i < n; ++i) {
        into[i].f = combine_numbers(kind, into[i].f, static_cast<double>(static_cast<float>(x[i])));
      }
    } else if constexpr (std::is_floating_point_v<T>) {
      if (kind == ReduceKind::kSum || kind == ReduceKind::kMean) {
        for (int64_t i = 0; i < n; ++i) into[i].f += static_cast<double>(x[i]);
      } else {
        for (int64_t i = 0; i < n; ++i)
          into[i].f = combine_numbers(kind, into[i].f, static_cast<double>(x[i]));
      }
    } else {
      for (int64_t i = 0; i < n; ++i)
        into[i].i = combine_numbers(kind, into[i].i, static_cast<int64_t>(x[i]));
    }
  });
}

/// Visits the accumulators of the lines along the last axis of an iteration, one after the other.
class LineWalk {
 public:
  LineWalk(const Reduction& reduction, int64_t line) : reduction_(reduction) {
    for (size_t axis = reduction.extents.size() - 1; axis-- > 0;) {
      at_[axis] = line % reduction.extents[axis];
      line /= reduction.extents[axis];
      out_ += at_[axis] * reduction.out_strides[axis];
    }
  }
  int64_t out() const { return out_; }
  void next() {
    for (size_t axis = reduction_.extents.size() - 1; axis-- > 0;) {
      out_ += reduction_.out_strides[axis];
      if (++at_[axis] < reduction_.extents[axis]) return;
      out_ -= reduction_.out_strides[axis] * reduction_.extents[axis];
      at_[axis] = 0;
    }
  }

 private:
  const Reduction& reduction_;
  std::array<int64_t, kMaxRank> at_{};
  int64_t out_ = 0;
};

/// Folds elements [begin, begin + n) of an iteration whose last axis is reduced and too short for vectors.
void fold_lines(const Reduction& reduction, Accumulator* into, const void* from, int64_t begin, int64_t n) {
  const int64_t length = reduction.extents.back();
  const ReduceKind kind = reduction.kind;
  dispatch_dtype(reduction.dtype, [&]<typename T>(T) {
    const T* x = static_cast<const T*>(from);
    const auto each = [&](auto fold_one) {
      LineWalk line(reduction, begin / length);
      int64_t column = begin % length;
      for (int64_t i = 0; i < n; ++i) {
        fold_one(into[line.out()], x[i]);
        if (++column < length) continue;
        column = 0;
        line.next();
      }
    };
    if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
      each([kind](Accumulator& to, T value) {
        to.f = combine_numbers(kind, to.f, static_cast<double>(static_cast<float>(value)));
      });
    } else if constexpr (std::is_floating_point_v<T>) {
      if (kind == ReduceKind::kSum || kind == ReduceKind::kMean) {
        each([](Accumulator& to, T value) { to.f += static_cast<double>(value); });
      } else {
        each([kind](Accumulator& to, T value) {
          to.f = combine_numbers(kind, to.f, static_cast<double>(value));
        });
      }
    } else {
      each([kind](Accumulator& to, T value) {
        to.i = combine_numbers(kind, to.i, static_cast<int64_t>(value));
      });
    }
  });
}

/// Folds `rows` rows of `inner` elements into one row in `scratch`. It folds them pairwise, which also
/// reduces rounding errors.
std::byte* halve(const Reduction& reduction, std::byte* tile, std::byte* scratch, int64_t rows,
                 int64_t inner) {
  const size_t row_bytes = static_cast<size_t>(inner) * dtype_size(reduction.dtype);
  while (rows > 1) {
    const int64_t half = rows / 2;
    const int64_t kept = rows - half;
    reduction.combine(scratch, tile, tile + static_cast<size_t>(kept) * row_bytes, nullptr, half * inner);
    if (kept > half && tile != scratch) {
      const size_t middle = static_cast<size_t>(half) * row_bytes;
      std::memcpy(scratch + middle, tile + middle, row_bytes);
    }
    tile = scratch;
    rows = kept;
  }
  return tile;
}

}  // namespace

Accumulator identity_of(ReduceKind kind, bool floating) {
  Accumulator identity;
  const double infinity = std::numeric_limits<double>::infinity();
  switch (kind) {
    case ReduceKind::kProd:
      floating ? void(identity.f = 1) : void(identity.i = 1);
      break;
    case ReduceKind::kMax:
      floating ? void(identity.f = -infinity) : void(identity.i = std::numeric_limits<int64_t>::min());
      break;
    case ReduceKind::kMin:
      floating ? void(identity.f = infinity) : void(identity.i = std::numeric_limits<int64_t>::max());
      break;
    default:
      floating ? void(identity.f = 0) : void(identity.i = 0);
  }
  return identity;
}

bool halves(const Reduction& reduction) {
  return !reduction.inner_reduced && reduction.extents.size() <= 2 && dtype_size(reduction.dtype) >= 4;
}

void accumulate_tile(const Reduction& reduction, Accumulator* into, std::byte* tile, std::byte* scratch,
                     int64_t begin, int64_t n) {
  const int64_t inner = reduction.extents.back();
  const size_t size = dtype_size(reduction.dtype);
  const bool floating = is_floating(reduction.dtype);
  if (halves(reduction) && begin % inner == 0 && n % inner == 0 && n > inner) {
    tile = halve(reduction, tile, scratch, n / inner, inner);
    n = inner;
  }
  constexpr int64_t kShort = 16;
  if (reduction.inner_reduced && inner <= kShort && reduction.extents.size() > 1) {
    fold_lines(reduction, into, tile, begin, n);
    return;
  }
  for (int64_t i = 0; i < n;) {
    const int64_t at = begin + i;
    const int64_t column = at % inner;
    const int64_t run = std::min(n - i, inner - column);
    int64_t out = 0;
    int64_t rest = at / inner;
    for (size_t axis = reduction.extents.size() - 1; axis-- > 0;) {
      out += rest % reduction.extents[axis] * reduction.out_strides[axis];
      rest /= reduction.extents[axis];
    }
    const std::byte* from = tile + static_cast<size_t>(i) * size;
    if (reduction.inner_reduced) {
      const TileScalar part = reduction.reduce(from, run);
      Accumulator value;
      floating ? void(value.f = part.f) : void(value.i = part.i);
      fold(into[out], value, reduction.kind, floating);
    } else {
      fold_run(into + out + column, from, reduction.dtype, reduction.kind, run);
    }
    i += run;
  }
}

void store_results(void* out, const Accumulator* from, const Reduction& reduction) {
  const double divisor = reduction.kind == ReduceKind::kMean ? static_cast<double>(reduction.count) : 1.0;
  dispatch_dtype(reduction.dtype, [&]<typename T>(T) {
    T* y = static_cast<T*>(out);
    for (int64_t i = 0; i < reduction.out_elems; ++i) {
      if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
        y[i] = T(static_cast<float>(from[i].f / divisor));
      } else if constexpr (std::is_floating_point_v<T>) {
        y[i] = static_cast<T>(from[i].f / divisor);
      } else {
        y[i] = static_cast<T>(from[i].i);
      }
    }
  });
}

}  // namespace isochron::ops
