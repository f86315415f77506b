#include "isochron/apps/compare/scenarios/every_epoch_ranks.h"

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <thread>

#include "isochron/apps/compare/models/digits_training.h"
#include "isochron/comm/group/group.h"
#include "isochron/comm/transport/thread_communicator.h"
#include "isochron/core/process/threads.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/train/loop/rank_record.h"

namespace isochron::apps {
namespace {

using observe::Flatness;
using observe::Phase;
using observe::PhaseScope;

constexpr int kWorkers = 2;
constexpr int64_t kSteps = kDigitsSteps / kWorkers;  // per worker and pass
constexpr int64_t kPassesAnEpoch = 10;               // over 1,437 images an epoch
constexpr int64_t kHiddenUnits = 256;
constexpr int64_t kMaxPasses = 4000;  // limit for the loop that exchanges more and more

/// The results that the workers exchange to count correct predictions.
enum class Results { kAllSoFar, kNewOnes };

class Worker {
 public:
  Worker(std::unique_ptr<comm::Communicator> transport, Results results)
      : results_(results),
        group_(std::make_shared<comm::Group>([&] { return std::move(transport); })),
        batches_(DigitsTraining::make_batches(1).repeat().shard(kWorkers, group_->rank())),
        at_(batches_.begin()) {
    step_.prepare({(*at_)["images"].spec(), (*at_)["labels"].spec()});
  }

  comm::Group& group() { return *group_; }
  double accuracy() const { return accuracy_; }
  void take_weights(Worker& other) {
    const std::vector<Variable> own = model_.parameters(), theirs = other.model_.parameters();
    for (size_t i = 0; i < own.size(); ++i) own[i].assign(copy(theirs[i].tensor()));
  }

  /// `compute` calls its argument: a step, or the exchange of results.
  template <typename Compute>
  void pass(const Compute& compute) {
    if (results_ == Results::kNewOnes) right_.clear();
    for (int64_t step = 0; step < kSteps; ++step) {
      compute([&] {
        const std::array<const Tensor*, 2> batch{&(*at_)["images"], &(*at_)["labels"]};
        const Tensor& right = step_.call(batch)[0];
        right_.insert(right_.end(), right.data<bool>(), right.data<bool>() + right.elems());
      });
      ++at_;
    }
    compute([&] { results_ == Results::kAllSoFar ? gather() : sum_up(); });
  }

 private:
  /// Gives every worker the exchanged results of all workers; each computes the accuracy.
  void gather() {
    all_.resize(kWorkers * right_.size());
    group_->gather(std::as_bytes(std::span(right_)), std::as_writable_bytes(std::span(all_)));
    accuracy_ = static_cast<double>(std::ranges::count(all_, char{1})) / static_cast<double>(all_.size());
  }
  void sum_up() {
    double counts[] = {static_cast<double>(std::ranges::count(right_, char{1})),
                       static_cast<double>(right_.size())};
    group_->sum(std::span<double>(counts));
    seen_right_ += counts[0];
    seen_ += counts[1];
    accuracy_ = seen_right_ / seen_;
  }

  const Results results_;
  std::shared_ptr<comm::Group> group_;
  nn::Sequential model_{nn::Flatten(), nn::Dense(kHiddenUnits, nn::Activation::kRelu),
                        nn::Dense(10, nn::Activation::kSoftmax)};
  optim::Optimizer optimizer_ = optim::Adam({.step = {.accumulate = kSteps, .group = group_}});
  CapturedFunction step_{[this](std::span<const Tensor> batch) {
                           const Tensor predicted = model_(batch[0]);
                           optimizer_.minimize(nn::categorical_cross_entropy(predicted, batch[1]),
                                               model_.parameters(), kDigitsBatch);
                           return std::vector<Tensor>{equal(argmax(predicted, 1), argmax(batch[1], 1))};
                         },
                         {.name = "worker's step"}};
  data::Dataset batches_;
  data::Dataset::Iterator at_;
  std::vector<char> right_, all_;  // 1 for a correct prediction
  double seen_right_ = 0, seen_ = 0, accuracy_ = 0;
};

/// The outcome of a run, for its notes.
struct Exchanged {
  int64_t first_bytes = 0, last_bytes = 0;  // in the first and the last pass
  double accuracy = 0;
};

/// While it exists, new plans compute on one thread, because there may be only as many cores as workers.
class OneThreadEach {
 public:
  OneThreadEach() { set_compute_threads(1); }
  OneThreadEach(const OneThreadEach&) = delete;
  OneThreadEach& operator=(const OneThreadEach&) = delete;
  ~OneThreadEach() { set_compute_threads(before_); }

 private:
  int before_ = compute_threads();
};

Exchanged train(LoopContext& context, Results results) {
  const OneThreadEach threads;
  auto transports = comm::make_thread_group(kWorkers);
  Worker other(std::move(transports[1]), results);
  auto own = std::make_unique<Worker>(std::move(transports[0]), results);
  other.take_weights(*own);
  std::exception_ptr failure;
  std::thread thread([&] {
    try {
      while (other.group().notes().requests() == 0) other.pass([](const auto& work) { work(); });
    } catch (...) {
      failure = std::current_exception();
    }
  });
  Exchanged exchanged;
  try {
    train::RankRecord ranks(context.recorder, own->group());
    bool more = true;
    for (int64_t pass = 0; more; ++pass) {
      const int64_t before = own->group().stats().bytes_sent;
      {
        const observe::IterationScope iteration(context.recorder);
        own->pass([&](const auto& work) {
          {
            const PhaseScope compute(context.recorder, Phase::kCompute);
            work();
          }
          ranks.after_step();
        });
      }
      exchanged.last_bytes = own->group().stats().bytes_sent - before;
      if (pass == 0) exchanged.first_bytes = exchanged.last_bytes;
      more = context.next();
    }
    own->group().notes().request(true);
    own->pass([](const auto& work) { work(); });
  } catch (...) {
    own.reset();  // leaves the group, so that the other worker doesn't wait for this one
    thread.join();
    throw;
  }
  thread.join();
  if (failure) std::rethrow_exception(failure);
  exchanged.accuracy = own->accuracy();
  return exchanged;
}

Loop with_workers(Loop loop, Results results) {
  const auto exchanged = std::make_shared<Exchanged>();
  loop.iterations_per_epoch = kPassesAnEpoch;
  loop.work_per_iteration = kDigitsSteps;
  loop.run = [exchanged, results](LoopContext& context) { *exchanged = train(context, results); };
  loop.notes = [exchanged] {
    return std::vector<std::string>{fmt::format(
        "each worker sent {} in the first pass and {} in the last; {:.1f} % of all predictions were right",
        observe::bytes_text(static_cast<double>(exchanged->first_bytes)),
        observe::bytes_text(static_cast<double>(exchanged->last_bytes)), 100 * exchanged->accuracy)};
  };
  return loop;
}

}  // namespace

std::vector<Loop> every_epoch_rank_loops() {
  const std::string cured = "what is new exchanged";
  return {
      with_workers(
          {.name = "all results exchanged",
           .what = "an iteration is a pass of two workers and one update, after which they gather all "
                   "predictions since the first epoch",
           .against = cured,
           .max_iterations = kMaxPasses,
           .expected = {.time = {Flatness::kGrowing},
                        .memory = {Flatness::kFlat, Flatness::kGrowing},
                        .cause = "communication that grows"}},
          Results::kAllSoFar),
      with_workers({.name = cured,
                    .what = "the same two workers, which add up how many predictions of the pass were right",
                    .against = cured,
                    .cured = true},
                   Results::kNewOnes)};
}

}  // namespace isochron::apps
