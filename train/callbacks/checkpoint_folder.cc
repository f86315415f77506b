#include "isochron/train/callbacks/checkpoint_folder.h"

#include <fmt/args.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "isochron/core/telemetry/event.h"

namespace isochron::train {
namespace {

constexpr std::string_view kExtension = ".safetensors";

bool is_number_name(const std::string& name) {
  return !name.empty() && name.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "0123456789_") == std::string::npos;
}

/// Whether a field of a template, "{epoch:04d}", names a width or precision of four digits or more.
bool too_wide(std::string_view name_template) {
  for (size_t begin = 0; (begin = name_template.find('{', begin)) != std::string_view::npos; ++begin) {
    const std::string_view field = name_template.substr(begin, name_template.find('}', begin) - begin);
    int digits = 0;
    for (size_t at = field.find(':'); at < field.size(); ++at) {
      digits = field[at] >= '0' && field[at] <= '9' ? digits + 1 : 0;
      if (digits > 3) return true;
    }
  }
  return false;
}

/// Only damage is a reason to go on with an older checkpoint, or with none: a file that can't be read now may
/// be intact, and the new run would overwrite it.
void skip_if_damaged(const std::filesystem::path& path, const Error& error) {
  std::error_code failed;
  const bool unread = error.code() == ErrorCode::kIo || error.code() == ErrorCode::kOutOfMemory;
  const bool gone = !std::filesystem::exists(path, failed) && !failed;
  require(!unread || gone, error.code(), path.string(),
          "this checkpoint can't be read ({}); make it readable, or move it away to resume from an older one",
          error.text());
  emit({EventKind::kNotice, path.filename().string(),
        fmt::format("the checkpoint {} is skipped: {}", path.string(), error.what())});
}

}  // namespace

std::filesystem::path checkpoint_path(const std::filesystem::path& name_template, int epoch, int64_t step,
                                      int64_t total_steps, const Results& results) {
  require(!too_wide(name_template.string()), ErrorCode::kInvalidArgument, "checkpoint",
          "the template '{}' asks for more characters than a file name can have", name_template.string());
  fmt::dynamic_format_arg_store<fmt::format_context> arguments;
  arguments.push_back(fmt::arg("epoch", epoch));
  arguments.push_back(fmt::arg("step", step));
  arguments.push_back(fmt::arg("total_steps", total_steps));
  std::string names = "epoch, step, total_steps";
  for (const auto& [name, value] : results) {
    if (!is_number_name(name)) continue;
    arguments.push_back(fmt::arg(name.c_str(), value));
    names += ", " + name;
  }
  std::string text;
  try {
    text = fmt::vformat(name_template.string(), arguments);
  } catch (const fmt::format_error& error) {
    fail(ErrorCode::kInvalidArgument, "checkpoint",
         "the template '{}' can't be formatted ({}); it may contain {}", name_template.string(), error.what(),
         names);
  }
  if (!text.ends_with(kExtension)) text += kExtension;
  return text;
}

std::optional<FoundCheckpoint> newest_checkpoint(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const auto require_read = [&] {
    require(!failed, ErrorCode::kIo, folder.string(), "cannot read the folder: {}", failed.message());
  };
  const bool exists = fs::exists(folder, failed);
  require_read();
  if (!exists) return std::nullopt;
  std::vector<FoundCheckpoint> candidates;
  fs::directory_iterator at(folder, failed);
  require_read();
  for (; at != fs::directory_iterator(); at.increment(failed)) {
    std::error_code unknown;
    if (at->path().extension() != kExtension || (!at->is_regular_file(unknown) && !unknown)) continue;
    bool opened = false;
    try {
      // Weights in the same folder aren't checkpoints of a run, and no reason for a warning.
      const nn::SafetensorsFile file(at->path());
      if (!file.metadata().contains(kCheckpointKey)) continue;
      opened = true;
      const Checkpoint checkpoint(at->path());
      RunDocument document = RunDocument::parse(checkpoint.document(), at->path().string());
      if (!document.weights_only) candidates.push_back({at->path(), std::move(document)});
    } catch (const Error& error) {
      // A checkpoint of another version is intact: starting a new run next to it would lose its run.
      if (opened && error.code() == ErrorCode::kUnsupported) throw;
      skip_if_damaged(at->path(), error);
    }
  }
  require_read();
  std::sort(candidates.begin(), candidates.end(), [](const FoundCheckpoint& a, const FoundCheckpoint& b) {
    const auto rank = [](const FoundCheckpoint& c) {
      return std::tuple(c.document.epoch, c.document.epoch_done, c.document.step, c.document.total_steps);
    };
    return rank(a) != rank(b) ? rank(a) > rank(b) : a.path > b.path;
  });
  for (FoundCheckpoint& candidate : candidates) {
    try {
      Checkpoint(candidate.path).verify();
      return std::move(candidate);
    } catch (const Error& error) {
      skip_if_damaged(candidate.path, error);
    }
  }
  return std::nullopt;
}

}  // namespace isochron::train
