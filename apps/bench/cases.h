// The reference cases of `isochron bench`, in which docs/performance.md compares Isochron with other
// frameworks. Each is a complete train step or loop on fixed random data.
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

/// A case that is ready to run: its model is built, its step captured and planned.
class CaseRun {
 public:
  virtual ~CaseRun() = default;
  /// One measured unit: a train step, an epoch, a loop.
  virtual void step() = 0;
  /// The captured step, for figures about its plan and for a profile; null if a case has several steps or
  /// none. The arguments of its last call must live as long as the case.
  virtual CapturedFunction* captured() { return nullptr; }
  /// The number by which a step's time is divided, such as the iterations of a loop.
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

/// Draws a batch (x, y); x is drawn first.
using DrawBatch = std::function<std::pair<Tensor, Tensor>(Rng& rng)>;

/// A train step of `model` that cycles through eight batches, as in the other frameworks' benchmarks. On a
/// device it cycles through four batches that are stored there, and a step ends when its loss can be read.
std::unique_ptr<CaseRun> train_case(std::unique_ptr<nn::Module> model, optim::Optimizer optimizer,
                                    train::Loss loss, const DrawBatch& draw, const CaseOptions& options = {});

const std::vector<BenchCase>& bench_cases();
/// The case of that name. Throws kInvalidArgument, listing the names, if there is none.
const BenchCase& bench_case(const std::string& name);

/// Seconds as nanoseconds. Larger values count as 1e9 seconds, which fit into 64 bits.
inline int64_t to_ns(double seconds) { return static_cast<int64_t>(std::min(seconds, 1e9) * 1e9); }

}  // namespace isochron::apps
