// Sums over ranks in the order of a binary tree, compared bit by bit with a plain recursion over the same
// tree.
#include "isochron/comm/group/tree_sum.h"

#include <gmock/gmock.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <new>

#include "isochron/core/base/rng.h"
#include "support/expect_error.h"
#include "support/rank_threads.h"

namespace isochron::comm {
namespace {

constexpr size_t kAlignment = 64;  // of the memory that TreeSum is bound to
constexpr std::byte kGuard{0xA5};

/// Memory that meets TreeSum's requirements, followed by a guard.
class Memory {
 public:
  explicit Memory(size_t bytes)
      : bytes_(bytes),
        begin_(static_cast<std::byte*>(
            ::operator new(bytes + kAlignment, static_cast<std::align_val_t>(kAlignment)))) {
    std::fill_n(begin_, bytes + kAlignment, kGuard);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { ::operator delete(begin_, static_cast<std::align_val_t>(kAlignment)); }
  std::byte* data() { return begin_; }
  bool whole() const {
    return std::all_of(begin_ + bytes_, begin_ + bytes_ + kAlignment,
                       [](std::byte b) { return b == kGuard; });
  }

 private:
  size_t bytes_;
  std::byte* begin_;
};

using Bytes = std::vector<std::byte>;
using Runs = std::vector<TreeSum::Run>;

size_t bytes_of(const Runs& runs) {
  size_t bytes = 0;
  for (const TreeSum::Run& run : runs) bytes += run.bytes;
  return bytes;
}

/// Numbers of such different magnitudes that summing in another order gives other bits.
double uneven_number(Rng& rng) {
  return std::ldexp(rng.uniform() - 0.5, static_cast<int>(rng.uniform() * 30));
}

template <typename T>
void append(Bytes& bytes, T number) {
  const auto* const raw = reinterpret_cast<const std::byte*>(&number);
  bytes.insert(bytes.end(), raw, raw + sizeof number);
}

Bytes random_numbers(const Runs& runs, Rng& rng) {
  Bytes bytes;
  for (const TreeSum::Run& run : runs) {
    for (size_t i = 0; i < run.bytes / dtype_size(run.dtype); ++i) {
      const double number = uneven_number(rng);
      if (run.dtype == DType::kF32) append(bytes, static_cast<float>(number));
      if (run.dtype == DType::kF64) append(bytes, number);
      if (run.dtype == DType::kI64) append(bytes, static_cast<int64_t>(number * 1e6));
    }
  }
  return bytes;
}

template <typename T>
void add_all(std::byte* to, const std::byte* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, to + at, sizeof a);
    std::memcpy(&b, from + at, sizeof b);
    a += b;
    std::memcpy(to + at, &a, sizeof a);
  }
}

/// The tree over the positions [first, first + width) of `parts`; those beyond the last add nothing.
Bytes tree_of(const std::vector<Bytes>& parts, const Runs& runs, size_t first, size_t width) {
  if (width == 1) return parts[first];
  Bytes sum = tree_of(parts, runs, first, width / 2);
  if (first + width / 2 >= parts.size()) return sum;
  const Bytes right = tree_of(parts, runs, first + width / 2, width / 2);
  size_t begin = 0;
  for (const TreeSum::Run& run : runs) {
    auto* const add = run.dtype == DType::kF32   ? add_all<float>
                      : run.dtype == DType::kF64 ? add_all<double>
                                                 : add_all<int64_t>;
    add(sum.data() + begin, right.data() + begin, run.bytes);
    begin += run.bytes;
  }
  return sum;
}
Bytes tree_of(const std::vector<Bytes>& parts, const Runs& runs) {
  return tree_of(parts, runs, 0, std::bit_ceil(parts.size()));
}

struct Summed {
  std::vector<Bytes> ranks;  // what each rank has at the end
  int64_t sent = 0;          // by all
  size_t empty_slices = 0;
};

/// Runs the collective made by `make` twice, on ranks that begin with these numbers.
template <typename Make>
Summed sum(const std::vector<Bytes>& parts, const Make& make) {
  Summed summed{std::vector<Bytes>(parts.size())};
  std::mutex mutex;
  run_ranks(static_cast<int>(parts.size()), [&](const std::shared_ptr<Group>& group) {
    const auto rank = static_cast<size_t>(group->rank());
    const Bytes& own = parts[rank];
    TreeSum collective = make();
    Memory numbers(own.size()), scratch(collective.scratch_bytes());
    collective.bind(numbers.data(), scratch.data());
    for (int time = 0; time < 2; ++time) {
      std::ranges::copy(own, numbers.data());
      group->run(collective);
    }
    EXPECT_TRUE(numbers.whole() && scratch.whole()) << "written beyond the end";
    const std::lock_guard lock(mutex);
    summed.ranks[rank].assign(numbers.data(), numbers.data() + own.size());
    summed.sent += group->stats().bytes_sent / 2;
    summed.empty_slices += collective.slices().bytes(group->rank()) == 0 ? 1 : 0;
  });
  return summed;
}

/// Runs of random dtypes and lengths, some of them empty; each begins at an aligned offset.
Runs random_runs(Rng& rng, size_t most) {
  constexpr DType kDTypes[] = {DType::kF32, DType::kF64, DType::kI64};
  Runs runs(1 + rng.below(4));
  for (TreeSum::Run& run : runs) run = {kDTypes[rng.below(3)], 8 * rng.below(most)};
  runs.push_back({DType::kF32, 4 * rng.below(most)});
  return runs;
}

TEST(TreeSum, AddsInTheOrderOfTheTreeOnAnyNumberOfRanks) {
  Rng rng(1);
  size_t empty_slices = 0, differ_from_a_row = 0;
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (const size_t most : {1, 9, 60, 400, 20'000}) {  // the last have slices of several blocks
      const Runs runs = random_runs(rng, most);
      std::vector<Bytes> parts;
      for (int rank = 0; rank < ranks; ++rank) parts.push_back(random_numbers(runs, rng));
      const Bytes expected = tree_of(parts, runs);
      const Summed summed = sum(parts, [&] { return TreeSum(ranks, runs); });
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_TRUE(summed.ranks[static_cast<size_t>(rank)] == expected)
            << "rank " << rank << " of " << ranks << ", " << bytes_of(runs) << " bytes";
      }
      EXPECT_EQ(summed.sent, ranks > 1 ? 2 * (ranks - 1) * static_cast<int64_t>(bytes_of(runs)) : 0);
      empty_slices += summed.empty_slices;
      Bytes row = parts[0];
      for (size_t rank = 1; rank < parts.size(); ++rank) row = tree_of({row, parts[rank]}, runs);
      differ_from_a_row += row != expected ? 1 : 0;
    }
  }
  EXPECT_GT(empty_slices, 0u) << "no size was so small";
  EXPECT_GT(differ_from_a_row, 5u) << "the numbers don't tell one order from another";
}

TEST(TreeSum, HasTheSameBitsForEverySplitOfItsParts) {
  Rng rng(2);
  const Runs runs = {{DType::kF64, 8 * 70}, {DType::kF32, 4 * 301}};
  std::vector<Bytes> parts;
  for (int part = 0; part < 8; ++part) parts.push_back(random_numbers(runs, rng));
  const Bytes whole = tree_of(parts, runs);
  for (const size_t ranks : {2, 4, 8}) {
    const size_t each = 8 / ranks;
    std::vector<Bytes> own;
    for (size_t rank = 0; rank < ranks; ++rank) own.push_back(tree_of(parts, runs, rank * each, each));
    const Summed summed = sum(own, [&] { return TreeSum(static_cast<int>(ranks), runs); });
    EXPECT_TRUE(summed.ranks[0] == whole) << ranks << " ranks";
  }
}

TEST(TreeSum, GivesEachRankItsSliceWhereThatIsAskedFor) {
  Rng rng(3);
  size_t empty_slices = 0;
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kI64}) {
      const size_t size = dtype_size(dtype), count = rng.below(40'000 / size);
      const TreeSum::Run run{dtype, count * size};
      // Longer than necessary, so that the last ranks have less, or nothing.
      const size_t slice_bytes = (count / static_cast<size_t>(ranks) + 1 + rng.below(count / 4 + 1)) * size;
      std::vector<Bytes> parts;
      for (int rank = 0; rank < ranks; ++rank) parts.push_back(random_numbers({run}, rng));
      const Bytes expected = tree_of(parts, {run});
      const Summed summed = sum(parts, [&] { return TreeSum(ranks, run, slice_bytes); });
      const Slices slices{run.bytes, slice_bytes};
      for (int rank = 0; rank < ranks; ++rank) {
        const auto begin = static_cast<std::ptrdiff_t>(slices.begin(rank));
        const auto end = begin + static_cast<std::ptrdiff_t>(slices.bytes(rank));
        EXPECT_TRUE(std::equal(expected.begin() + begin, expected.begin() + end,
                               summed.ranks[static_cast<size_t>(rank)].begin() + begin))
            << "rank " << rank << " of " << ranks << ", " << run.bytes << " bytes of " << dtype_name(dtype);
      }
      EXPECT_EQ(summed.sent, (ranks - 1) * static_cast<int64_t>(run.bytes)) << "nothing is gathered";
      empty_slices += summed.empty_slices;
    }
  }
  EXPECT_GT(empty_slices, 0u) << "no slice was so long";
}

TEST(TreeSum, TakesNothingAtAll) {
  const Summed summed = sum({{}, {}, {}}, [] { return TreeSum(3, {{DType::kF32, 0}}); });
  EXPECT_THAT(summed.ranks, testing::Each(testing::IsEmpty()));
  EXPECT_EQ(summed.sent, 0);
}

TEST(TreeSum, RefusesDtypesThatItDoesNotAdd) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kI32, DType::kU8, DType::kBool}) {
    EXPECT_ERROR(TreeSum(2, {{DType::kF32, 8}, {dtype, 8}}), ErrorCode::kDtypeMismatch,
                 fmt::format("sums f32, f64 or i64, got {}; cast first", dtype_name(dtype)));
  }
}

}  // namespace
}  // namespace isochron::comm
