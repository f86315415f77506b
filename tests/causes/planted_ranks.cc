#include <chrono>
#include <optional>
#include <thread>

#include "causes/models.h"
#include "causes/planted.h"
#include "isochron/comm/transport/adaptors.h"
#include "isochron/comm/transport/thread_communicator.h"
#include "isochron/ops/collective/packed_sum.h"
#include "isochron/train/loop/rank_record.h"

namespace isochron::causes {
namespace {

using comm::Communicator;
using observe::Phase;
using observe::PhaseScope;
using observe::Recorder;
using observe::RunReport;

constexpr int kRanks = 2;

/// Each call takes longer than the one before.
class SlowingLink final : public comm::CommunicatorAdaptor {
 public:
  using CommunicatorAdaptor::CommunicatorAdaptor;

 private:
  void before(const comm::Call&) override {
    constexpr int64_t kEachNs = 500;
    std::this_thread::sleep_for(std::chrono::nanoseconds(kEachNs * calls_++));
  }
  int64_t calls_ = 0;
};

/// What a loop over ranks does.
struct Loop {
  /// What a rank does before it exchanges; may tell of input.
  std::function<void(comm::Group& group, int64_t i)> work;
  /// What it exchanges in addition to the gradients.
  std::function<void(comm::Group& group, int64_t i)> exchange = [](comm::Group&, int64_t) {};
  std::function<std::unique_ptr<Communicator>(std::unique_ptr<Communicator>)> link =
      [](std::unique_ptr<Communicator> transport) { return transport; };
};

/// A rank: its work, and the sum of the gradients and notes of all ranks.
class Rank {
 public:
  Rank(const Loop& loop, std::unique_ptr<Communicator> transport)
      : loop_(loop),
        group_(std::make_shared<comm::Group>([&] { return loop.link(std::move(transport)); })),
        sum_(group_, std::array{TensorSpec{DType::kF32, {kElems}}},
             ops::PackedSum::Content::kGradientsAndNotes),
        gradients_(full({kElems}, 1)),
        range_(full({static_cast<int64_t>(sum_.range_bytes())}, 0, DType::kU8)),
        scratch_(full({static_cast<int64_t>(sum_.scratch_bytes())}, 0, DType::kU8)) {}

  void step(int64_t i) {
    loop_.work(*group_, i);
    loop_.exchange(*group_, i);
    std::byte* gradients = gradients_.raw();
    sum_.start(&gradients, range_.raw(), scratch_.raw(), ops::PackedSum::Begin::kWhenFinished);
    sum_.finish(&gradients);
  }
  /// Runs until another rank asks it to stop.
  void run() {
    for (int64_t i = 0; group_->notes().requests() == 0; ++i) step(i);
  }
  comm::Group& group() { return *group_; }

 private:
  static constexpr int64_t kElems = 4096;
  const Loop& loop_;
  std::shared_ptr<comm::Group> group_;
  ops::PackedSum sum_;
  Tensor gradients_, range_, scratch_;
};

RunReport run_over_ranks(const Loop& loop) {
  auto transports = comm::make_thread_group(kRanks);
  std::thread other([&] { Rank(loop, std::move(transports[1])).run(); });
  Rank own(loop, std::move(transports[0]));
  std::optional<train::RankRecord> ranks;
  int64_t done = 0;
  RunReport report = run_loop([&](Recorder& recorder, int64_t i) {
    if (!ranks) ranks.emplace(recorder, own.group());
    {
      const PhaseScope compute(recorder, Phase::kCompute);
      own.step(i);
    }
    ranks->after_step();
    done = i + 1;
  });
  own.group().notes().request(true);
  own.step(done);
  other.join();
  return report;
}

/// Rank 1 computes `times` times as long as rank 0.
auto work_of(int64_t ns, int64_t times) {
  return [=](comm::Group& group, int64_t) { compute_for(group.rank() == 1 ? times * ns : ns); };
}

RunReport a_rank_that_computes_longer() { return run_over_ranks({.work = work_of(1'000'000, 2)}); }

RunReport a_rank_whose_input_is_slow() {
  return run_over_ranks({.work = [](comm::Group& group, int64_t) {
    constexpr int64_t kNs = 1'000'000;
    compute_for(kNs);
    if (group.rank() == 0) return;
    const int64_t began_ns = now_ns();
    std::this_thread::sleep_for(std::chrono::nanoseconds(kNs));
    group.notes().add_input(now_ns() - began_ns);
  }});
}

/// All losses so far, again and again.
RunReport history_exchanged_each_step() {
  constexpr size_t kEach = 128, kMax = size_t{1} << 22;
  std::vector<std::vector<double>> losses(kRanks, std::vector<double>(kMax, 1.0));
  return run_over_ranks({.work = work_of(50'000, 1), .exchange = [&](comm::Group& group, int64_t i) {
                           const size_t count = std::min(kMax, kEach * static_cast<size_t>(i + 1));
                           group.sum(std::span(losses[static_cast<size_t>(group.rank())]).first(count));
                         }});
}

RunReport a_slow_network() {
  constexpr comm::SlowLink::Options kSlow{.latency = std::chrono::microseconds(200), .bytes_per_second = 1e8};
  return run_over_ranks({.work = work_of(200'000, 1), .link = [&](std::unique_ptr<Communicator> transport) {
                           return std::make_unique<comm::SlowLink>(std::move(transport), kSlow);
                         }});
}

RunReport a_network_that_slows() {
  return run_over_ranks({.work = work_of(200'000, 1), .link = [](std::unique_ptr<Communicator> transport) {
                           return std::make_unique<SlowingLink>(std::move(transport));
                         }});
}

}  // namespace

RunReport ranks_alike() { return run_over_ranks({.work = work_of(1'000'000, 1)}); }

std::vector<Planted> planted_ranks() {
  return {
      {observe::kStragglingRank, "a rank whose work takes twice as long", a_rank_that_computes_longer},
      {observe::kStragglingRank, "a rank that waits for its input", a_rank_whose_input_is_slow},
      {"communication that grows", "all losses so far exchanged in each step", history_exchanged_each_step},
      {"exposed communication", "a slow network, and nothing to compute meanwhile", a_slow_network},
      {"the network slowed", "calls that take longer and longer", a_network_that_slows}};
}

}  // namespace isochron::causes
