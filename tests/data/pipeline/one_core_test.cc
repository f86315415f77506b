// A process that can count on a single core only: who makes the elements, and that they are the same.
#include <gmock/gmock.h>

#include "data/pipeline/small_datasets.h"
#include "isochron/core/process/cores.h"

namespace isochron::data {
namespace {

/// While it exists, this process has a share of `cores` cores.
struct Cores {
  explicit Cores(int cores) { set_core_share(cores); }
  ~Cores() { set_core_share(before); }
  const int before = core_share();
};

TEST(OneCore, HasAWorkerOnlyWhereItMayWait) {
  const auto workers = [](const Dataset& batches) {
    const auto epochs_and_workers = [&](int cores) {
      const Cores share(cores);
      Dataset own = batches;
      std::vector<std::vector<std::vector<double>>> epochs;
      for (int epoch = 0; epoch < 3; ++epoch) epochs.push_back(epoch_of(own));
      return std::pair(epochs, own.stats().workers);
    };
    const auto [several, ahead] = epochs_and_workers(2);
    const auto [one, beside] = epochs_and_workers(1);
    EXPECT_EQ(one, several);
    EXPECT_EQ(ahead, 1);
    return beside;
  };
  const Dataset shuffled = rows(50).shuffle(20).batch(4).prefetch();
  EXPECT_EQ(workers(shuffled), 0);
  EXPECT_EQ(workers(shuffled.map([](Element element) { return element; })), 1) << "it may read files";
  EXPECT_EQ(workers(rows(50).filter([](const Element&) { return true; }).prefetch()), 1) << "a stream";
}

TEST(OneCore, GoesOnWhereAWorkerWas) {
  Dataset ahead = rows(50).shuffle(20).batch(4).prefetch();
  std::vector<std::vector<double>> rest, resumed;
  std::string state;
  int batches = 0;
  for (const Element& element : ahead) {
    if (++batches == 5) state = ahead.state();
    if (batches > 5) rest.push_back(element[0].to_vector());
  }
  const Cores share(1);
  Dataset later = rows(50).shuffle(20).batch(4).prefetch();
  for (auto at = later.resume(state); at != std::default_sentinel; ++at)
    resumed.push_back((*at)[0].to_vector());
  EXPECT_EQ(resumed, rest);
  EXPECT_EQ(later.stats().workers, 0);
}

}  // namespace
}  // namespace isochron::data
