// Passes the times of the other ranks to a recorder, so that its report can say for which rank's work the
// iterations wait. A fit does this by itself; in your own loop:
//
//   train::RankRecord ranks(recorder, *comm::world());
//   ...                                  // recorder.seal(), then:
//   ranks.end_warmup();
//   for (...) {
//     observe::IterationScope iteration(recorder);
//     { observe::PhaseScope scope(recorder, observe::Phase::kCompute); step(batch); }
//     ranks.after_step();
//   }
//   ranks.describe();
//   observe::make_report(recorder, "my loop");
#pragma once

#include <cstdint>
#include <vector>

#include "isochron/comm/group/group.h"
#include "isochron/observe/record/recorder.h"

namespace isochron::train {

class RankRecord {
 public:
  /// Both outlive it. Before the first iteration: allocates. In a group of one rank it does nothing.
  RankRecord(observe::Recorder& recorder, comm::Group& group);
  /// When the recorder is sealed.
  void end_warmup();
  /// Call within an iteration, after a step whose time is in phase compute. Moves the time that the step
  /// waited for other ranks to phases of its own and, after an update (Group::notes), also records the times
  /// that each rank took for it.
  void after_step();
  /// At the end, on every rank: what the machines did to them.
  void describe();

 private:
  observe::Recorder& recorder_;
  comm::Group& group_;
  std::vector<observe::RankTimes> times_;
  std::vector<int64_t> mean_arrivals() const;

  int64_t core_wait_ns_ = 0;  // of the group's thread, at the end of warm-up
  comm::Arrivals arrivals_;   // then
  int64_t exchanges_ = 0;     // of the group's notes, those that were looked at
  int64_t exposed_ns_ = 0;    // of the group, what the recorder knows of
};

}  // namespace isochron::train
