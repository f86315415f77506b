// Scalars in the files that TensorBoard reads: records (core/record_file.h) of protobuf messages.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

namespace isochron::observe {

class EventFile {
 public:
  /// A new file in `folder`, which is made where it is missing: events.out.tfevents.SECONDS.HOST.PID.NUMBER.
  /// Throws kIo.
  explicit EventFile(const std::filesystem::path& folder);
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;
  ~EventFile();

  /// Tells readers to forget what files of the folder have from `step` on: this one begins there anew.
  void restart_at(int64_t step);
  void scalar(std::string_view tag, int64_t step, double value);
  /// Hands what was written to the system, for readers to see. All three throw kIo.
  void flush();
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Impl;
  std::filesystem::path path_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace isochron::observe
