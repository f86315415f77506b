// Notes that ranks exchange along with the sums of every update: requests, and how long their work took. A
// separate exchange would cost as much as exchanging a small model's gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace isochron::comm {

/// What one rank sends. The fields are f64, because they are sent in a sum to which each rank adds only its
/// own note.
struct RankNote {
  double request = 0;   // 1: the rank requests something, such as a stop
  double work_ns = 0;   // since the end of the previous update, without time spent waiting for collectives
  double input_ns = 0;  // part of work_ns spent waiting for input, as reported to `add_input`
};

class RankNotes {
 public:
  RankNotes(int rank, int ranks);

  /// Sets this rank's request, which is sent from the next exchange on.
  void request(bool asked) { asked_ = asked; }
  /// Adds to the input time that the next exchange sends.
  void add_input(int64_t ns) { input_ns_ += ns; }

  /// The notes of all ranks from the latest exchange, rank 0 first; zeros before the first exchange.
  std::span<const RankNote> all() const { return all_; }
  int64_t requests() const;
  /// The number of exchanges so far.
  int64_t exchanges() const { return exchanges_; }
  /// How long this rank waited for collectives between the previous exchange and the latest one, and how much
  /// of that time it waited for the rank with the longest work. The rest is communication that isn't hidden.
  int64_t exposed_ns() const { return exposed_ns_; }
  int64_t rank_wait_ns() const { return rank_wait_ns_; }

  // For the exchange. `waited_ns`: the total time spent waiting for collectives.

  size_t bytes() const { return all_.size() * sizeof(RankNote); }
  /// Writes this rank's note, and zeros in the other ranks' places.
  void write(std::byte* to, int64_t waited_ns);
  void read(const std::byte* sums, int64_t waited_ns);

 private:
  size_t rank_;
  bool asked_ = false;
  int64_t input_ns_ = 0;
  std::vector<RankNote> all_;
  int64_t exchanges_ = 0;
  int64_t ended_ns_;       // when the newest exchange ended
  int64_t waited_ns_ = 0;  // total waiting time at that moment
  int64_t exposed_ns_ = 0, rank_wait_ns_ = 0;
};

}  // namespace isochron::comm
