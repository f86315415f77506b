#include "isochron/apps/train/patience.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "isochron/comm/group/world.h"
#include "isochron/comm/watch/wait_report.h"
#include "isochron/core/base/error.h"
#include "isochron/train/callbacks/checkpoint_folder.h"

namespace isochron::apps {
namespace {

constexpr const char* kFolder = "ranks";
constexpr auto kLongestLook = std::chrono::seconds(10);

/// A sentence that says from which checkpoint an ended run can continue. The search has a time limit, because
/// the file system itself may hang.
std::string way_on(const std::filesystem::path& folder, bool weights_only) {
  auto found = std::make_shared<std::promise<std::string>>();
  std::future<std::string> text = found->get_future();
  std::thread([folder, weights_only, found] {
    std::string said = fmt::format("There is no checkpoint in {}.", folder.string());
    try {
      if (folder.empty())
        said = "Nothing was saved, as no folder was named with --checkpoint.";
      else if (weights_only)
        said = fmt::format("The weights saved so far are in {}; the run can't be resumed from them.",
                           folder.string());
      else if (const auto newest = train::newest_checkpoint(folder))
        said = fmt::format("The last good checkpoint is {}; continue from it with --resume.",
                           newest->path.string());
    } catch (const std::exception& error) {
      said = error.what();
    }
    found->set_value(std::move(said));
  }).detach();
  if (text.wait_for(kLongestLook) == std::future_status::ready) return text.get();
  return fmt::format("The checkpoints in {} could not be read within {} s.", folder.string(),
                     kLongestLook.count());
}

std::chrono::nanoseconds nanoseconds_of(double seconds) {
  constexpr double kMax = 1e9;  // 30 years
  return std::chrono::nanoseconds(static_cast<int64_t>(std::min(seconds, kMax) * 1e9));
}

/// The requested patience instead of the defaults, which are to report after 60 s and never to end the run.
template <typename WatchOptions>
WatchOptions patient(const TrainOptions& options) {
  WatchOptions watch;
  if (options.patience_seconds) watch.patience = nanoseconds_of(*options.patience_seconds);
  if (options.patience_end_seconds) watch.end_after = nanoseconds_of(*options.patience_end_seconds);
  return watch;
}

}  // namespace

comm::LaunchWatchOptions patience_of(const TrainOptions& options) {
  return patient<comm::LaunchWatchOptions>(options);
}

std::unique_ptr<comm::Watchdog> watch_ranks(const TrainOptions& options) {
  const std::shared_ptr<comm::Group>& group = comm::world();
  if (group->size() == 1 || options.dry_run) return nullptr;
  auto watch = patient<comm::WatchdogOptions>(options);
  const std::filesystem::path& folder = options.checkpoint.empty() ? options.out : options.checkpoint;
  if (!folder.empty()) watch.folder = folder / kFolder;
  watch.tell = comm::print_message;
  watch.end = [checkpoint = options.checkpoint, weights_only = options.weights_only,
               group](const std::string& text) {
    comm::print_message(fmt::format("{} {}", text, way_on(checkpoint, weights_only)));
    group->abort(exit_code(ErrorCode::kCommunication));
  };
  return std::make_unique<comm::Watchdog>(group, std::move(watch));
}

}  // namespace isochron::apps
