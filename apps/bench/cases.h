// The reference cases of `isochron bench`: what docs/performance.md measures beside the peers. Each is a
// whole train step (or loop) on fixed random data.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "isochron/comm/group/group.h"
#include "isochron/core/base/rng.h"
#include "isochron/core/tensor/device.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/module/module.h"
#include "isochron/optim/optimizer.h"
#include "isochron/train/loop/batch_functions.h"

namespace isochron::apps {

/// A case made ready to run: model built, step captured and planned.
class CaseRun {
 public:
  virtual ~CaseRun() = default;
  /// One measured unit: a train step, an epoch, a loop.
  virtual void step() = 0;
  /// The captured step, called last with arguments that live as long as the case, for its plan's figures and
  /// its profile; null where a case has several or none.
  virtual CapturedFunction* captured() { return nullptr; }
  /// What one step's time is divided by, e.g. the iterations of a loop.
  virtual double units() const { return 1; }
};

/// How it computes, where, and with whom.
struct CaseOptions {
  Precision precision = Precision::kF32;
  Device device = {};
  bool concurrent = true;  // on a device
  /// The ranks that exchange gradients in a train step; null: comm::world().
  std::shared_ptr<comm::Group> group = nullptr;
};

/// What a step computes, beside matrix products, that NVIDIA's libraries have kernels for.
enum class Uses { kProducts, kConvolutions, kAttention };

struct BenchCase {
  std::string name;
  std::string what;
  std::unique_ptr<CaseRun> (*make)(const CaseOptions&);
  std::string precision = "f32";  // under the policy of that name
  bool trains = true;             // and so is subject to a policy, and runs on devices
  Uses uses = Uses::kProducts;
};

/// Draws (x, y), x first.
using DrawBatch = std::function<std::pair<Tensor, Tensor>(Rng& rng)>;

/// A train step of `model` on eight batches in turn, as the frameworks beside it have them (on a device four,
/// which lie there). On a device a step's time ends when its loss could be read.
std::unique_ptr<CaseRun> train_case(std::unique_ptr<nn::Module> model, optim::Optimizer optimizer,
                                    train::Loss loss, const DrawBatch& draw, const CaseOptions& options = {});

const std::vector<BenchCase>& bench_cases();
/// Throws kInvalidArgument listing the names.
const BenchCase& bench_case(const std::string& name);

/// As nanoseconds; 1e9 seconds, which fit into 64 bits, where there are more.
inline int64_t to_ns(double seconds) { return static_cast<int64_t>(std::min(seconds, 1e9) * 1e9); }

}  // namespace isochron::apps
