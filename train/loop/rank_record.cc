#include "isochron/train/loop/rank_record.h"

#include <algorithm>
#include <span>
#include <utility>

namespace isochron::train {

using observe::Phase;

RankRecord::RankRecord(observe::Recorder& recorder, comm::Group& group) : recorder_(recorder), group_(group) {
  if (group.size() == 1) return;
  recorder.join_ranks(group.rank(), group.size());
  times_.resize(static_cast<size_t>(group.size()));
  exposed_ns_ = group.stats().exposed_ns;
  exchanges_ = group.notes().exchanges();
  end_warmup();
}

void RankRecord::end_warmup() {
  if (group_.size() == 1) return;
  core_wait_ns_ = group_.core_wait_ns();
  arrivals_ = group_.arrivals();
}

/// The mean arrival time per call from each rank since the end of warm-up; -1: unknown.
std::vector<int64_t> RankRecord::mean_arrivals() const {
  const comm::Arrivals now = group_.arrivals();
  const int64_t calls = now.calls - arrivals_.calls;
  std::vector<int64_t> means(static_cast<size_t>(group_.size()), -1);
  if (calls == 0 || now.total_ns.empty()) return means;
  for (size_t r = 0; r < means.size(); ++r) means[r] = (now.total_ns[r] - arrivals_.total_ns[r]) / calls;
  return means;
}

void RankRecord::after_step() {
  if (group_.size() == 1) return;
  const comm::RankNotes& notes = group_.notes();
  const int64_t exposed_ns = group_.stats().exposed_ns;
  int64_t communication_ns = exposed_ns - std::exchange(exposed_ns_, exposed_ns);
  if (std::exchange(exchanges_, notes.exchanges()) != notes.exchanges()) {
    const int64_t rank_wait_ns = std::min(notes.rank_wait_ns(), communication_ns);
    communication_ns -= rank_wait_ns;
    recorder_.reassign(Phase::kCompute, Phase::kRankWait, rank_wait_ns);
    for (size_t r = 0; r < times_.size(); ++r) {
      const comm::RankNote& note = notes.all()[r];
      times_[r] = {static_cast<int64_t>(note.work_ns), static_cast<int64_t>(note.input_ns)};
    }
    recorder_.add_ranks(times_, communication_ns);
  }
  recorder_.reassign(Phase::kCompute, Phase::kCommunication, communication_ns);
}

void RankRecord::describe() {
  if (group_.size() == 1) return;
  struct Told {
    char host[64] = {};
    int64_t waited_ns = 0, throttled_ns = 0, stolen_ns = 0;
  };
  const observe::RankDescription own = recorder_.describe_rank();
  Told told{{}, own.waited_ns + group_.core_wait_ns() - core_wait_ns_, own.throttled_ns, own.stolen_ns};
  own.host.copy(told.host, sizeof(told.host) - 1);
  std::vector<Told> all(static_cast<size_t>(group_.size()));
  group_.gather(std::as_bytes(std::span(&told, 1)), std::as_writable_bytes(std::span(all)));
  const std::vector<int64_t> from_others = mean_arrivals();
  std::vector<int64_t> arrivals(all.size() * all.size());  // at each rank, from each rank
  group_.gather(std::as_bytes(std::span(from_others)), std::as_writable_bytes(std::span(arrivals)));
  std::vector<observe::RankDescription> ranks;
  for (const Told& one : all) ranks.push_back({one.host, one.waited_ns, one.throttled_ns, one.stolen_ns});
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto over_others = [&](const auto& arrival_of) {
      std::vector<int64_t> others;
      for (size_t other = 0; other < ranks.size(); ++other) {
        if (other != rank) others.push_back(arrival_of(other));
      }
      const auto middle = others.begin() + static_cast<std::ptrdiff_t>((others.size() - 1) / 2);
      std::ranges::nth_element(others, middle);
      return *middle;
    };
    ranks[rank].sent_in_ns = over_others([&](size_t to) { return arrivals[to * ranks.size() + rank]; });
    ranks[rank].received_in_ns =
        over_others([&](size_t from) { return arrivals[rank * ranks.size() + from]; });
  }
  recorder_.describe_ranks(std::move(ranks));
}

}  // namespace isochron::train
