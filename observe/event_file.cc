#include "isochron/observe/event_file.h"

#include <observe/events.pb.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>

#include "isochron/core/error.h"
#include "isochron/core/record_file.h"

namespace isochron::observe {
namespace {

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::filesystem::path new_path(const std::filesystem::path& folder) {
  static std::atomic<int> made{0};
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  require(!failed, ErrorCode::kIo, folder.string(), "cannot create the folder: {}", failed.message());
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host = {"localhost"};
  return folder / fmt::format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<int64_t>(wall_seconds()),
                              host.data(), ::getpid(), made++);
}

}  // namespace

struct EventFile::Impl {
  explicit Impl(const std::filesystem::path& path) : writer(path) {}

  RecordWriter writer;
  proto::Event event;  // used again, with its memory
  std::string bytes;

  void write(int64_t step) {
    event.set_wall_time(wall_seconds());
    event.set_step(step);
    event.SerializeToString(&bytes);
    writer.write(std::as_bytes(std::span(bytes)));
  }
};

EventFile::EventFile(const std::filesystem::path& folder)
    : path_(new_path(folder)), impl_(std::make_unique<Impl>(path_)) {
  impl_->event.set_file_version("brain.Event:2");
  impl_->write(0);
}

EventFile::~EventFile() = default;

void EventFile::restart_at(int64_t step) {
  impl_->event.mutable_session_log()->set_status(proto::SessionLog::START);
  impl_->write(step);
}

void EventFile::scalar(std::string_view tag, int64_t step, double value) {
  proto::Summary& summary = *impl_->event.mutable_summary();
  if (summary.value_size() == 0) summary.add_value();
  summary.mutable_value(0)->set_tag(tag.data(), tag.size());
  summary.mutable_value(0)->set_simple_value(static_cast<float>(value));
  impl_->write(step);
}

void EventFile::flush() { impl_->writer.flush(); }

}  // namespace isochron::observe
