// CheckpointWriter: saves while training continues. A save costs the caller one copy of the variables into
// memory that was allocated at construction. A separate thread computes checksums, writes, and removes the
// files that the new file replaces.
#pragma once

#include <condition_variable>
#include <exception>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "isochron/train/checkpoints/checkpoint.h"

namespace isochron::train {

/// The text of the event of a save with Request::again.
inline constexpr const char* kWrittenAgain = "written again";

struct CheckpointWriterStats {
  int64_t saved = 0;      // files written, without those written again
  int64_t coalesced = 0;  // saves that were not begun, because a later one replaces or removes their file
  int64_t stall_ns = 0;   // total time of `save`
  int64_t longest_stall_ns = 0;
  int64_t write_ns = 0;  // total time that the thread worked
  size_t staging_bytes = 0;
};

class CheckpointWriter {
 public:
  struct Request {
    std::filesystem::path path;
    std::string document;
    std::vector<std::filesystem::path> replaced = {};  // removed once the file is complete
    bool again = false;  // the request before had the same path and step, such as the last of an epoch
  };

  /// Allocates two copies of `variables`: one that is being written, and one that waits. Files are in
  /// `temporary_folder` until they are complete, see write_file_atomically. `first_blobs` is called for each
  /// copy to allocate its blobs in advance. Throws kOutOfMemory.
  CheckpointWriter(NamedVariables variables, std::filesystem::path temporary_folder,
                   const std::function<void(NamedBlobs&)>& first_blobs = {});
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  /// Finishes the requested saves. Reports a failure as an event kNotice; call `flush` before to get it as an
  /// exception.
  ~CheckpointWriter();

  /// Saves the present content in the background. While the thread is busy, one request waits. A new request
  /// replaces the waiting one only if nobody would miss its file: the new request has the same path, or
  /// removes that file (`replaced`). This is counted in `coalesced`, and the new request then also removes
  /// the waiting one's `replaced` files. Otherwise the call blocks until the thread has started the waiting
  /// request, so that every named file is written. Takes the content of `blobs` and returns the blobs of an
  /// earlier save in it, for reuse of their memory. Throws the error of an earlier write, once.
  void save(Request request, NamedBlobs& blobs);
  void save(Request request) {
    NamedBlobs none;
    save(std::move(request), none);
  }
  /// Waits until all requests are written. Throws the error of a failed write, once.
  void flush();
  CheckpointWriterStats stats() const;

 private:
  struct Staging {
    Ref<Storage> memory;
    std::vector<const std::byte*> contents;  // of each variable
    NamedBlobs blobs;
  };

  void fill(Staging& staging);
  void run();
  void write(const Staging& staging, const Request& request) const;
  void rethrow_failure();
  /// Whether no request is waiting, or `request` may replace it. Called with `mutex_` held.
  bool has_place_for(const Request& request) const;

  NamedVariables variables_;
  std::filesystem::path temporary_folder_;
  Staging staging_[2];

  mutable std::mutex mutex_;  // protects all below
  std::condition_variable changed_;
  std::optional<Request> waiting_;
  int waiting_in_ = 0;    // the staging of `waiting_`, and where the next save goes
  bool writing_ = false;  // the thread writes from the other one
  bool stop_ = false;
  std::exception_ptr failure_;
  CheckpointWriterStats stats_;
  std::thread thread_;
};

}  // namespace isochron::train
