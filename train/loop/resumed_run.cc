#include "isochron/train/loop/resumed_run.h"

#include "isochron/backends/common/choices.h"
#include "isochron/core/telemetry/event.h"

namespace isochron::train {
namespace {

void compare_settings(const std::vector<FitOptions::Setting>& settings, const RunDocument& document,
                      const std::filesystem::path& path) {
  std::string differences;
  for (const FitOptions::Setting& setting : settings) {
    const auto found = document.settings.find(setting.name);
    if (found == document.settings.end() || found->second == setting.value) continue;
    const std::string text =
        fmt::format("{}: {} in the checkpoint, {} here", setting.name, found->second, setting.value);
    if (setting.noted) {
      tell_of_resuming(path, text + "; the run may not equal an uninterrupted one bit for bit");
    } else {
      differences += (differences.empty() ? "" : "; ") + text;
    }
  }
  require(differences.empty(), ErrorCode::kInvalidArgument, path.string(),
          "is from a run with other settings ({}); resume with the same settings, or start in another folder",
          differences);
}

}  // namespace

void tell_of_resuming(const std::filesystem::path& path, const std::string& text) {
  emit({EventKind::kNotice, path.filename().string(),
        fmt::format("resuming from {}: {}", path.string(), text)});
}

ResumedRun ResumedRun::read(const std::filesystem::path& path,
                            const std::vector<FitOptions::Setting>& settings) {
  Checkpoint checkpoint(path);
  RunDocument document = RunDocument::parse(checkpoint.document(), path.string());
  require(!document.weights_only, ErrorCode::kInvalidArgument, path.string(),
          "contains weights only, from which a run can't be resumed; read it with load_weights");
  compare_settings(settings, document, path);
  return {std::move(checkpoint), std::move(document)};
}

void ResumedRun::tell_other_choices(const std::map<std::string, std::string>& before) const {
  if (document.deterministic != ops::deterministic()) {
    tell_of_resuming(
        checkpoint.path(),
        fmt::format("its kernels were chosen by {}, this run's by {}; the run will not equal an "
                    "uninterrupted one bit for bit",
                    document.deterministic ? "rule" : "timing", ops::deterministic() ? "rule" : "timing"));
  }
  int64_t other = 0;
  std::string first;
  for (const auto& [call, name] : ops::recorded_choices()) {
    const auto found = before.find(call);
    if (found != before.end() && found->second == name) continue;
    if (other++ == 0) first = call;
  }
  if (other == 0) return;
  tell_of_resuming(checkpoint.path(),
                   fmt::format("{} choices of kernels are not in it (such as the one for {}) and were made "
                               "again; the run may not equal an uninterrupted one bit for bit",
                               other, first));
}

}  // namespace isochron::train
