// Passes the times of the other ranks to a recorder, so that its report can say for which rank's work the
// iterations wait. A fit does this automatically. In a hand-written loop:
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
  /// Both arguments must outlive it. Make it before the first iteration, because it allocates. In a group of
  /// one rank it does nothing.
  RankRecord(observe::Recorder& recorder, comm::Group& group);
  /// Call this when the recorder is sealed.
  void end_warmup();
  /// Call within an iteration, after a step whose time is in phase compute. Moves the time that the step
  /// waited for other ranks to the phases rank_wait and communication. After an update (Group::notes), also
  /// records the times of each rank for it.
  void after_step();
  /// Call this at the end, on every rank. Exchanges descriptions of the delays caused by each rank's machine.
  void describe();

 private:
  observe::Recorder& recorder_;
  comm::Group& group_;
  std::vector<observe::RankTimes> times_;
  std::vector<int64_t> mean_arrivals() const;

  int64_t core_wait_ns_ = 0;  // of the group's thread, at the end of warm-up
  comm::Arrivals arrivals_;   // at the end of warm-up
  int64_t exchanges_ = 0;     // exchanges of notes that were already recorded
  int64_t exposed_ns_ = 0;    // exposed time of the group that was already recorded
};

}  // namespace isochron::train
