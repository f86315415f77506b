// What every communicator must do, whichever moves the bytes: called by each rank.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "isochron/comm/transport/communicator.h"

namespace isochron::comm {

struct WrongBytes : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr std::byte kUntouched{0xEE};

/// The value of byte `index` on rank `rank`; differs between ranks and is never kUntouched.
inline std::byte pattern(int rank, size_t index) {
  return std::byte(
      static_cast<unsigned char>((static_cast<size_t>(rank) * 59 + index * 7 + index / 251) % 233));
}

inline void expect_byte(const Communicator& comm, std::string_view what, size_t index, std::byte got,
                        std::byte expected) {
  if (got == expected) return;
  throw WrongBytes(fmt::format("{} on rank {} of {}: byte {} is {}, not {}", what, comm.rank(), comm.size(),
                               index, static_cast<int>(got), static_cast<int>(expected)));
}

inline void check_all_to_all(Communicator& comm, const Slices& slices) {
  const auto ranks = static_cast<size_t>(comm.size());
  std::vector<std::byte> data(slices.total_bytes);
  for (size_t i = 0; i < data.size(); ++i) data[i] = pattern(comm.rank(), i);
  std::vector<std::byte> received(ranks * slices.slice_bytes, kUntouched);
  comm.all_to_all(data.data(), received.data(), slices);
  for (size_t i = 0; i < received.size(); ++i) {
    const auto from = static_cast<int>(i / slices.slice_bytes);
    const size_t within = i % slices.slice_bytes;
    const bool sent = from != comm.rank() && within < slices.bytes(comm.rank());
    expect_byte(comm, "all_to_all", i, received[i],
                sent ? pattern(from, slices.begin(comm.rank()) + within) : kUntouched);
  }
  for (size_t i = 0; i < data.size(); ++i) {
    expect_byte(comm, "the data of all_to_all", i, data[i], pattern(comm.rank(), i));
  }
}

inline void check_all_gather(Communicator& comm, const Slices& slices) {
  std::vector<std::byte> data(slices.total_bytes, kUntouched);
  for (size_t i = slices.begin(comm.rank()); i < slices.begin(comm.rank() + 1); ++i) {
    data[i] = pattern(comm.rank(), i);
  }
  comm.all_gather(data.data(), slices);
  for (int from = 0; from < comm.size(); ++from) {
    for (size_t i = slices.begin(from); i < slices.begin(from + 1); ++i) {
      expect_byte(comm, "all_gather", i, data[i], pattern(from, i));
    }
  }
}

/// Small whole numbers, so that sums in any order are the same.
template <typename T>
void check_all_reduce(Communicator& comm, int64_t count) {
  const auto element = [](int rank, int64_t i) {
    return static_cast<T>((rank + 1) * (i % 17) - 5) * static_cast<T>(sizeof(T) == 8 ? int64_t{1} << 33 : 1);
  };
  std::vector<T> data(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) data[static_cast<size_t>(i)] = element(comm.rank(), i);
  comm.all_reduce(reinterpret_cast<std::byte*>(data.data()), count, dtype_of<T>);
  for (int64_t i = 0; i < count; ++i) {
    T sum{};
    for (int rank = 0; rank < comm.size(); ++rank) sum += element(rank, i);
    if (data[static_cast<size_t>(i)] != sum) {
      throw WrongBytes(fmt::format("all_reduce of {} {} on rank {} of {}: element {} is {}, not {}", count,
                                   dtype_name(dtype_of<T>), comm.rank(), comm.size(), i,
                                   data[static_cast<size_t>(i)], sum));
    }
  }
}

inline void check_broadcast(Communicator& comm, size_t bytes, int root) {
  std::vector<std::byte> data(bytes, kUntouched);
  if (comm.rank() == root) {
    for (size_t i = 0; i < bytes; ++i) data[i] = pattern(root, i);
  }
  comm.broadcast(data, root);
  for (size_t i = 0; i < bytes; ++i) expect_byte(comm, "broadcast", i, data[i], pattern(root, i));
}

/// Runs all collectives with even, uneven and empty slices of up to `most_bytes`, twice in a row.
inline void check_collectives(Communicator& comm, size_t most_bytes) {
  for (int pass = 0; pass < 2; ++pass) {
    for (const size_t bytes :
         {size_t{0}, size_t{1}, size_t{3}, size_t{64}, size_t{1000}, size_t{4097}, most_bytes}) {
      for (const size_t unit : {size_t{1}, size_t{64}}) {
        check_all_to_all(comm, Slices::of(bytes, comm.size(), unit));
        check_all_gather(comm, Slices::of(bytes, comm.size(), unit));
      }
      for (int root = 0; root < comm.size(); ++root) check_broadcast(comm, bytes, root);
      const auto count = static_cast<int64_t>(bytes / 8);
      check_all_reduce<float>(comm, count);
      check_all_reduce<double>(comm, count);
      check_all_reduce<int64_t>(comm, count);
    }
    comm.barrier();
  }
}

}  // namespace isochron::comm
