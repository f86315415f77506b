// What ranks tell one another along with the sums of every update: requests, and how long their work took.
// An exchange of its own would cost as much as that of a small model's gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace isochron::comm {

/// What one rank sends. The fields are f64, because they are sent in a sum to which each rank adds only its
/// own note.
struct RankNote {
  double request = 0;   // 1: it asks for something, such as to stop
  double work_ns = 0;   // from the end of the update before to the exchange, less waiting for collectives
  double input_ns = 0;  // of it, waiting for input, as far as `add_input` was told
};

class RankNotes {
 public:
  RankNotes(int rank, int ranks);

  /// Of this rank, from the next exchange on.
  void request(bool asked) { asked_ = asked; }
  /// Adds to what the next exchange tells.
  void add_input(int64_t ns) { input_ns_ += ns; }

  /// Of all ranks, rank 0 first, at the newest exchange; zeros before the first.
  std::span<const RankNote> all() const { return all_; }
  int64_t requests() const;
  /// How many exchanges there were.
  int64_t exchanges() const { return exchanges_; }
  /// What this rank has waited for collectives between the newest exchange and the one before, and how much
  /// of that for the rank whose work took longest. The rest is communication that nothing has hidden.
  int64_t exposed_ns() const { return exposed_ns_; }
  int64_t rank_wait_ns() const { return rank_wait_ns_; }

  // For the exchange. `waited_ns`: for collectives, in all.

  size_t bytes() const { return all_.size() * sizeof(RankNote); }
  /// This rank's note, and zeros in the others' places.
  void write(std::byte* to, int64_t waited_ns);
  void read(const std::byte* sums, int64_t waited_ns);

 private:
  size_t rank_;
  bool asked_ = false;
  int64_t input_ns_ = 0;
  std::vector<RankNote> all_;
  int64_t exchanges_ = 0;
  int64_t ended_ns_;       // when the newest exchange ended
  int64_t waited_ns_ = 0;  // then
  int64_t exposed_ns_ = 0, rank_wait_ns_ = 0;
};

}  // namespace isochron::comm
