// The reference cases of `isochron bench`, which docs/performance.md compares with other frameworks. Each is
// a whole train step (or loop) on fixed random data.
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
  /// The captured step, for its plan's figures and its profile. Its last call had arguments that live as long
  /// as the case. Null if a case has several steps or none.
  virtual CapturedFunction* captured() { return nullptr; }
  /// What one step's time is divided by, e.g. the iterations of a loop.
  virtual double units() const { return 1; }
};

/// How a case computes, on which device, and with which other ranks.
struct CaseOptions {
  Precision precision = Precision::kF32;
  Device device = {};
  bool concurrent = true;  // on a device
  /// The ranks that exchange gradients in a train step; null: comm::world().
  std::shared_ptr<comm::Group> group = nullptr;
};

/// Computations of a step, besides matrix products, for which NVIDIA's libraries have kernels.
enum class Uses { kProducts, kConvolutions, kAttention };

struct BenchCase {
  std::string name;
  std::string what;
  std::unique_ptr<CaseRun> (*make)(const CaseOptions&);
  std::string precision = "f32";  // name of the precision policy
  bool trains = true;             // true: a precision policy applies, and the case runs on devices
  Uses uses = Uses::kProducts;
};

/// Draws (x, y), x first.
using DrawBatch = std::function<std::pair<Tensor, Tensor>(Rng& rng)>;

/// A train step of `model` on eight batches in turn, as in the other frameworks' benchmarks. On a device
/// there are four batches, stored there, and a step's time ends when its loss can be read.
std::unique_ptr<CaseRun> train_case(std::unique_ptr<nn::Module> model, optim::Optimizer optimizer,
                                    train::Loss loss, const DrawBatch& draw, const CaseOptions& options = {});

const std::vector<BenchCase>& bench_cases();
/// Throws kInvalidArgument listing the names.
const BenchCase& bench_case(const std::string& name);

/// Seconds as nanoseconds. Larger values count as 1e9 seconds, which fit into 64 bits.
inline int64_t to_ns(double seconds) { return static_cast<int64_t>(std::min(seconds, 1e9) * 1e9); }

}  // namespace isochron::apps
