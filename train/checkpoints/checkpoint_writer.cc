#include "isochron/train/checkpoints/checkpoint_writer.h"

#include <algorithm>
#include <cstring>
#include <system_error>

#include "isochron/core/base/checked.h"
#include "isochron/core/base/clock.h"
#include "isochron/core/process/background_work.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/core/telemetry/trace.h"
#include "isochron/memory/allocators/buffer.h"

namespace isochron::train {
namespace {

constexpr size_t kAlignment = 64;
constinit TraceLabel kWriting(TraceCategory::kFile, "write checkpoint");

}  // namespace

CheckpointWriter::CheckpointWriter(NamedVariables variables, std::filesystem::path temporary_folder,
                                   const std::function<void(NamedBlobs&)>& first_blobs)
    : variables_(std::move(variables)), temporary_folder_(std::move(temporary_folder)) {
  size_t bytes = 0;
  std::vector<size_t> offsets;
  for (const auto& [name, variable] : variables_) {
    offsets.push_back(bytes);
    bytes = checked_add(bytes, align_up(variable.size_bytes(), kAlignment));
  }
  for (Staging& staging : staging_) {
    staging.memory = allocate_buffer(std::max<size_t>(bytes, 1), "checkpoint staging");
    std::memset(staging.memory->data(), 0, bytes);  // page faults now, not in the first save
    if (first_blobs) first_blobs(staging.blobs);
    for (const size_t offset : offsets) staging.contents.push_back(staging.memory->data() + offset);
  }
  stats_.staging_bytes = 2 * bytes;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    fail(ErrorCode::kOutOfMemory, "checkpoint", "the system could not create a thread: {}", error.what());
  }
  count(Counter::kThreads, 1);
}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
  count(Counter::kThreads, -1);
  if (!failure_) return;
  try {
    std::rethrow_exception(failure_);
  } catch (const std::exception& error) {
    emit({EventKind::kNotice, "checkpoint", error.what()});
  }
}

void CheckpointWriter::fill(Staging& staging) {
  for (size_t i = 0; i < variables_.size(); ++i) {
    variables_[i].second.tensor().read(const_cast<std::byte*>(staging.contents[i]));
  }
}

bool CheckpointWriter::has_place_for(const Request& request) const {
  return !waiting_ || waiting_->path == request.path ||
         std::ranges::find(request.replaced, waiting_->path) != request.replaced.end();
}

void CheckpointWriter::save(Request request, NamedBlobs& blobs) {
  const int64_t began_ns = now_ns();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return has_place_for(request); });
  rethrow_failure();
  if (waiting_) {
    ++stats_.coalesced;
    request.replaced.insert(request.replaced.end(), waiting_->replaced.begin(), waiting_->replaced.end());
    request.again = request.again && waiting_->again;
    waiting_.reset();  // so that the thread leaves its memory alone
  }
  std::erase(request.replaced, request.path);
  lock.unlock();
  fill(staging_[waiting_in_]);
  staging_[waiting_in_].blobs.swap(blobs);
  lock.lock();
  waiting_ = std::move(request);
  const int64_t stall_ns = now_ns() - began_ns;
  stats_.stall_ns += stall_ns;
  stats_.longest_stall_ns = std::max(stats_.longest_stall_ns, stall_ns);
  lock.unlock();
  changed_.notify_all();
}

void CheckpointWriter::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !waiting_ && !writing_; });
  rethrow_failure();
}

CheckpointWriterStats CheckpointWriter::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void CheckpointWriter::rethrow_failure() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void CheckpointWriter::run() {
  const BackgroundWork background;
  give_way_to_compute();
  name_trace_thread("checkpoint writer");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return waiting_ || stop_; });
    if (!waiting_) return;
    const Request request = std::move(*waiting_);
    waiting_.reset();
    const Staging& staging = staging_[waiting_in_];
    waiting_in_ = 1 - waiting_in_;
    writing_ = true;
    lock.unlock();
    changed_.notify_all();  // a caller waiting for this request's place can use it now
    const int64_t began_ns = now_ns();
    std::exception_ptr failure;
    try {
      write(staging, request);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    writing_ = false;
    stats_.write_ns += now_ns() - began_ns;
    if (failure) {
      failure_ = failure;
    } else if (!request.again) {
      ++stats_.saved;
    }
    changed_.notify_all();
  }
}

void CheckpointWriter::write(const Staging& staging, const Request& request) const {
  const TraceSpan span(kWriting);
  const int64_t began_ns = now_ns();
  save_checkpoint(request.path, variables_, staging.contents, request.document, staging.blobs,
                  temporary_folder_);
  for (const std::filesystem::path& old : request.replaced) {
    std::error_code ignored;
    std::filesystem::remove(old, ignored);
  }
  emit({EventKind::kCheckpoint, request.path.filename().string(), request.again ? kWrittenAgain : "written",
        0, now_ns() - began_ns});
}

}  // namespace isochron::train
