// CheckpointWriter: saves while the training goes on. A save costs the caller one copy of the variables into
// memory held since the construction; a thread of its own computes checksums, writes, and removes what a
// newer file replaces.
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

struct CheckpointWriterStats {
  int64_t saved = 0;      // files written
  int64_t coalesced = 0;  // saves that were not begun, because a later one replaces or removes their file
  int64_t stall_ns = 0;   // that `save` took in all
  int64_t longest_stall_ns = 0;
  int64_t write_ns = 0;  // that the thread worked in all
  size_t staging_bytes = 0;
};

class CheckpointWriter {
 public:
  struct Request {
    std::filesystem::path path;
    std::string document;
    std::vector<std::filesystem::path> replaced = {};  // removed once the file is whole
  };

  /// Two copies of `variables` are held: one that is being written, one that waits. Files lie in
  /// `temporary_folder` until they are whole, see write_file_atomically. `first_blobs`, called for each copy,
  /// takes the room of its blobs, which are there from the beginning then. Throws kOutOfMemory.
  CheckpointWriter(NamedVariables variables, std::filesystem::path temporary_folder,
                   const std::function<void(NamedBlobs&)>& first_blobs = {});
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;
  /// Finishes what was asked for; a failure then is an event kNotice. Call `flush` to learn of it.
  ~CheckpointWriter();

  /// Has the present content saved. While the thread is busy one request waits. The next takes its place only
  /// if nobody would miss the file: the new one has the same path, or removes it (`replaced`); that is
  /// counted in `coalesced`, and the new one then removes the other's `replaced` files too. Otherwise this
  /// call waits until the thread has taken up the waiting request, so that every named file is written. The
  /// blobs are taken in exchange for those of an earlier save, whose room the next ones can have. Throws what
  /// an earlier write threw, once.
  void save(Request request, NamedBlobs& blobs);
  void save(Request request) {
    NamedBlobs none;
    save(std::move(request), none);
  }
  /// Waits until all is written. Throws what a write threw, once.
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
  /// Whether `request` may take the place of what waits. Called with `mutex_` held.
  bool has_place_for(const Request& request) const;

  NamedVariables variables_;
  std::filesystem::path temporary_folder_;
  Staging staging_[2];

  mutable std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::optional<Request> waiting_;
  int waiting_in_ = 0;    // the staging of `waiting_`, and where the next save goes
  bool writing_ = false;  // from the other one
  bool stop_ = false;
  std::exception_ptr failure_;
  CheckpointWriterStats stats_;
  std::thread thread_;
};

}  // namespace isochron::train
