// A communicator over MPI. This one file is compiled into a module (module.h) once for each implementation
// that the build has found (cmake/IsochronMpi.cmake). It may therefore use only headers of this project and
// core/base/error.cc.
#define MPICH_SKIP_MPICXX 1
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "isochron/comm/mpi/module.h"
#include "isochron/comm/transport/communicator.h"
#include "isochron/core/base/error.h"

namespace isochron::comm {

namespace {

constexpr int kExitStatus = 6;                       // exit_code(kCommunication)
constexpr size_t kMaxBytes = size_t{1} << 30;        // of one message: MPI's counts are of type int
enum Tag : int { kAllToAllTag = 1, kAllGatherTag };  // so that different calls don't exchange data

/// "Open MPI 4.1.4", "MPICH 4.0.2"; for another library, the first line of its own version text.
std::string library_version() {
  char buffer[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  if (MPI_Get_library_version(buffer, &length) != MPI_SUCCESS) return "MPI";
  const std::string_view text(buffer, static_cast<size_t>(length));
  constexpr std::string_view kOpenMpi = "Open MPI v", kMpich = "MPICH Version:";
  if (text.starts_with(kOpenMpi)) {
    const std::string_view rest = text.substr(kOpenMpi.size());
    return "Open MPI " + std::string(rest.substr(0, rest.find_first_of(", \n")));
  }
  if (text.starts_with(kMpich)) {
    std::string_view rest = text.substr(kMpich.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
    return "MPICH " + std::string(rest.substr(0, rest.find_first_of(" \t\n")));
  }
  return std::string(text.substr(0, text.find('\n')));
}

std::string error_text(int code) {
  char buffer[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(code, buffer, &length) != MPI_SUCCESS) return fmt::format("MPI error {}", code);
  return std::string(buffer, static_cast<size_t>(length));
}

using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr nanoseconds kMovedData = microseconds(5);  // a poll that took this long has moved data
constexpr nanoseconds kPoll = microseconds(10);      // most messages arrive within this time
constexpr nanoseconds kYield = std::chrono::milliseconds(2);
constexpr nanoseconds kLongestNap = microseconds(100);
constexpr nanoseconds kShortestNap = microseconds(2);
constexpr nanoseconds kLostCore = microseconds(500);  // a yield that took this long let other threads compute
constexpr nanoseconds kStaysShared = std::chrono::milliseconds(50);
constexpr int kNapPart = 8;                    // a nap lasts 1/kNapPart of the time since data last moved
constexpr unsigned long kTimerSlackNs = 1000;  // 50 us by default, which is more than most naps

/// Sleeps for `duration`, with less timer slack than the thread's other sleeps.
void nap(nanoseconds duration) {
  const int slack = prctl(PR_GET_TIMERSLACK);
  prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  std::this_thread::sleep_for(duration);
  if (slack > 0) prctl(PR_SET_TIMERSLACK, static_cast<unsigned long>(slack));
}

/// Polls `complete()` until it returns true. MPI's own waits spin, on cores that the computation needs. Here
/// the thread yields between two polls, which costs least if other ranks do the same on this core, and naps
/// if no data has moved for a while. Naps begin short: otherwise a rank that waits for a napping rank would
/// nap longer than that rank, pass the delay back with the next call, and so on. If other threads compute on
/// the core, yielding to them costs one of their time slices, which is milliseconds. The thread then polls
/// for a moment and naps, and gets the core back when the nap is over.
class Waiting {
 public:
  template <typename Look>
  void until(const Look& complete) {
    Clock::time_point before = Clock::now();
    Clock::time_point idle_since = before;
    while (!complete()) {
      const Clock::time_point now = Clock::now();
      if (now - before > kMovedData) idle_since = now;  // the next piece will follow soon
      const nanoseconds idle = now - idle_since;
      const bool shared = now < shared_until_;
      const bool yields = !shared && idle < kYield;
      before = now;
      if (yields) {
        sched_yield();
      } else if (idle >= kPoll) {
        nap(std::clamp<nanoseconds>(idle / kNapPart, kShortestNap, kLongestNap));
      } else {
        continue;
      }
      before = Clock::now();
      if (yields && before - now > kLostCore) shared_until_ = before + kStaysShared;
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point shared_until_{};  // until then, other threads are assumed to compute on the core
};

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator() : exceptions_(std::uncaught_exceptions()) {
    int started = 0;
    MPI_Initialized(&started);
    require(
        started == 0, ErrorCode::kCommunication, "mpi",
        "MPI was already started in this process, and can be started only once; open only one communicator");
    int provided = MPI_THREAD_SINGLE;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
    // Errors from here on are thrown after MPI has started. If a rank ends that way, the launcher ends all
    // ranks.
    description_ = library_version();
    require(provided >= MPI_THREAD_SERIALIZED, ErrorCode::kUnsupported, "mpi",
            "{} doesn't support calls from several threads in turn (MPI_THREAD_SERIALIZED); install an MPI "
            "that does",
            description_);
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
    requests_.assign(2 * static_cast<size_t>(size_), MPI_REQUEST_NULL);
    statuses_.resize(requests_.size());
    completed_.resize(requests_.size());
    senders_.resize(static_cast<size_t>(size_));
    arrivals_.total_ns.resize(static_cast<size_t>(size_));
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;
  ~MpiCommunicator() override {
    if (failed_ || std::uncaught_exceptions() > exceptions_) {
      MPI_Abort(comm_, kExitStatus);
      return;
    }
    MPI_Comm_free(&comm_);
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string description() const override { return description_; }

  void all_to_all(const std::byte* data, std::byte* received, const Slices& slices) override {
    exchange("all_to_all", kAllToAllTag, slices.slice_bytes, [&](int peer) {
      return Peer{.send = data + slices.begin(peer),
                  .send_bytes = slices.bytes(peer),
                  .receive = received + static_cast<size_t>(peer) * slices.slice_bytes,
                  .receive_bytes = slices.bytes(rank_)};
    });
  }

  // Not MPI_Iallgatherv with MPI_IN_PLACE: Open MPI 4.1 has had bugs in in-place non-blocking collectives.
  void all_gather(std::byte* data, const Slices& slices) override {
    if (size_ > 1 && slices.total_bytes > 0) ++arrivals_.calls;
    exchange("all_gather", kAllGatherTag, slices.slice_bytes, [&](int peer) {
      return Peer{.send = data + slices.begin(rank_),
                  .send_bytes = slices.bytes(rank_),
                  .receive = data + slices.begin(peer),
                  .receive_bytes = slices.bytes(peer)};
    });
  }

  void all_reduce(std::byte* data, int64_t count, DType dtype) override {
    const MPI_Datatype type = dtype == DType::kF32   ? MPI_FLOAT
                              : dtype == DType::kF64 ? MPI_DOUBLE
                              : dtype == DType::kI64 ? MPI_INT64_T
                                                     : MPI_DATATYPE_NULL;
    require(type != MPI_DATATYPE_NULL && count >= 0, ErrorCode::kInvalidArgument, "comm",
            "all_reduce of {} {}; expected at least 0 elements of f32, f64 or i64", count, dtype_name(dtype));
    in_pieces(static_cast<size_t>(count) * dtype_size(dtype), [&](size_t begin, size_t bytes) {
      // Uses separate memory, because in-place operation isn't reliable (see all_gather).
      if (addends_.size() < bytes) addends_.resize(bytes);
      std::memcpy(addends_.data(), data + begin, bytes);
      check(MPI_Iallreduce(addends_.data(), data + begin, static_cast<int>(bytes / dtype_size(dtype)), type,
                           MPI_SUM, comm_, requests_.data()),
            "all_reduce");
      complete(1, "all_reduce");
    });
  }

  void broadcast(std::span<std::byte> data, int root) override {
    require(root >= 0 && root < size_, ErrorCode::kInvalidArgument, "comm",
            "broadcast from rank {} of a group of {}; the root must be one of its ranks", root, size_);
    in_pieces(data.size(), [&](size_t begin, size_t bytes) {
      check(MPI_Ibcast(data.data() + begin, static_cast<int>(bytes), MPI_BYTE, root, comm_, requests_.data()),
            "broadcast");
      complete(1, "broadcast");
    });
  }

  void barrier() override {
    check(MPI_Ibarrier(comm_, requests_.data()), "barrier");
    complete(1, "barrier");
  }

  Arrivals arrivals() const override { return arrivals_; }

  [[noreturn]] void abort(int exit_status) override {
    failed_ = true;
    MPI_Abort(comm_, exit_status);
    std::_Exit(exit_status);
  }
  void abort_call(int exit_status) override { abort_status_.store(exit_status, std::memory_order_relaxed); }

 private:
  struct Peer {
    const std::byte* send;
    size_t send_bytes;
    std::byte* receive;
    size_t receive_bytes;
  };

  /// Exchanges with each other rank the data that `peer_of` gives for that rank. No message is longer than
  /// `most_bytes`.
  template <typename PeerOf>
  void exchange(const char* what, int tag, size_t most_bytes, const PeerOf& peer_of) {
    for (size_t begin = 0; begin < most_bytes; begin += kMaxBytes) {
      int count = 0;
      const auto piece = [&](size_t bytes) {
        return static_cast<int>(bytes > begin ? std::min(bytes - begin, kMaxBytes) : 0);
      };
      for (int i = 1; i < size_; ++i) {
        const int from = (rank_ + size_ - i) % size_;
        const Peer peer = peer_of(from);
        if (const int bytes = piece(peer.receive_bytes); bytes > 0) {
          senders_[static_cast<size_t>(count)] = static_cast<size_t>(from);
          check(MPI_Irecv(peer.receive + begin, bytes, MPI_BYTE, from, tag, comm_, request(count++)), what);
        }
      }
      const int receives = count;
      for (int i = 1; i < size_; ++i) {
        const int to = (rank_ + i) % size_;
        const Peer peer = peer_of(to);
        if (const int bytes = piece(peer.send_bytes); bytes > 0) {
          check(MPI_Isend(peer.send + begin, bytes, MPI_BYTE, to, tag, comm_, request(count++)), what);
        }
      }
      complete(count, what, tag == kAllGatherTag ? receives : 0);
    }
  }

  /// Calls run(begin, bytes) for pieces that are small enough for MPI's counts.
  template <typename Run>
  static void in_pieces(size_t total_bytes, const Run& run) {
    for (size_t begin = 0; begin < total_bytes; begin += kMaxBytes) {
      run(begin, std::min(total_bytes - begin, kMaxBytes));
    }
  }

  MPI_Request* request(int index) { return &requests_[static_cast<size_t>(index)]; }

  /// Waits for the first `count` requests. The first `timed` of these receive from `senders_`.
  void complete(int count, const char* what, int timed = 0) {
    if (count == 0) return;
    int code = MPI_SUCCESS;
    const auto began = std::chrono::steady_clock::now();
    int left = count;
    waiting_.until([&] {
      if (const int status = abort_status_.load(std::memory_order_relaxed); status != 0) abort(status);
      if (timed == 0) {
        int done = 0;
        code = MPI_Testall(count, requests_.data(), &done, statuses_.data());
        return done != 0 || code != MPI_SUCCESS;
      }
      int done = 0;
      code = MPI_Testsome(count, requests_.data(), &done, completed_.data(), statuses_.data());
      if (code != MPI_SUCCESS || done <= 0) return code != MPI_SUCCESS || done == MPI_UNDEFINED;
      const nanoseconds arrived = std::chrono::steady_clock::now() - began;
      for (const int request : std::span(completed_).first(static_cast<size_t>(done))) {
        if (request < timed) arrivals_.total_ns[senders_[static_cast<size_t>(request)]] += arrived.count();
      }
      left -= done;
      return left == 0;
    });
    if (code == MPI_ERR_IN_STATUS) {
      for (int i = 0; i < count; ++i) {
        const int status = statuses_[static_cast<size_t>(i)].MPI_ERROR;
        if (status != MPI_SUCCESS && status != MPI_ERR_PENDING) code = status;
      }
    }
    check(code, what);
  }

  void check(int code, const char* what) {
    if (code == MPI_SUCCESS) [[likely]]
      return;
    failed_ = true;
    fail(ErrorCode::kCommunication, "mpi", "{} failed on rank {} of {}: {}", what, rank_, size_,
         error_text(code));
  }

  const int exceptions_;
  Waiting waiting_;
  MPI_Comm comm_ = MPI_COMM_WORLD;
  int rank_ = 0;
  int size_ = 1;
  bool failed_ = false;
  std::atomic<int> abort_status_{0};  // set by abort_call; 0: none
  std::string description_;
  std::vector<MPI_Request> requests_;
  std::vector<MPI_Status> statuses_;
  std::vector<int> completed_;   // requests that one poll found completed
  std::vector<size_t> senders_;  // of the receive requests
  Arrivals arrivals_;
  std::vector<std::byte> addends_;
};

}  // namespace

}  // namespace isochron::comm

extern "C" __attribute__((visibility("default"))) isochron::comm::Communicator* isochron_open_mpi_3() {
  return new isochron::comm::MpiCommunicator();
}

extern "C" __attribute__((visibility("default"))) void isochron_mpi_version_1(char* text, size_t size) {
  const std::string version = isochron::comm::library_version().substr(0, size - 1);
  std::memcpy(text, version.c_str(), version.size() + 1);
}
