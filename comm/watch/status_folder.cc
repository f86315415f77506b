#include "isochron/comm/watch/status_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string_view>
#include <system_error>
#include <utility>

#include "isochron/core/process/background_work.h"

namespace isochron::comm {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "rank-";

/// A file is opened again for every write and read, because network file systems show other machines' changes
/// only then.
class OpenedFile {
 public:
  OpenedFile(const fs::path& path, int flags)
      : descriptor_(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644)) {}
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;
  ~OpenedFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace

StatusFolder::StatusFolder(fs::path folder, uint64_t run, int rank, int ranks)
    : path_(std::move(folder)),
      run_(run),
      rank_(rank),
      ranks_(ranks),
      leftover_(std::in_place, file_of(rank)),
      seen_(static_cast<size_t>(ranks)) {
  thread_ = std::thread([this] { work(); });
}

StatusFolder::~StatusFolder() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
  std::error_code ignored;
  fs::remove(file_of(rank_), ignored);
  ::rmdir(path_.c_str());  // fails while the folder isn't empty
}

fs::path StatusFolder::file_of(int rank) const { return path_ / fmt::format("{}{}", kPrefix, rank); }

void StatusFolder::clear(const fs::path& folder) {
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const std::string name = at->path().filename().string();
    const bool digits = name.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos;
    std::error_code ignored;
    if (name.size() > kPrefix.size() && name.starts_with(kPrefix) && digits) fs::remove(at->path(), ignored);
  }
}

void StatusFolder::remove_old(const fs::path& parent, std::string_view prefix) {
  const auto oldest = fs::file_time_type::clock::now() - std::chrono::hours(24);
  const auto is_old = [&](const fs::path& path) {
    std::error_code failed;
    const auto changed = fs::last_write_time(path, failed);
    return !failed && changed < oldest;
  };
  std::error_code failed;
  for (fs::directory_iterator at(parent, failed), end; !failed && at != end; at.increment(failed)) {
    std::error_code ignored;
    if (!at->path().filename().string().starts_with(prefix) || !fs::is_directory(at->symlink_status(ignored)))
      continue;
    bool old = is_old(at->path());
    for (fs::directory_iterator file(at->path(), ignored), last; old && !ignored && file != last;
         file.increment(ignored))
      old = is_old(file->path());
    if (old) fs::remove_all(at->path(), ignored);
  }
}

void StatusFolder::exchange(const RankStatus& own, bool look, int64_t now_ns) {
  {
    const std::scoped_lock lock(mutex_);
    next_ = own;
    look_next_ = look || (busy_ && look_next_);
    next_ns_ = now_ns;
  }
  changed_.notify_one();
}

std::vector<SeenRank> StatusFolder::seen() const {
  const std::scoped_lock lock(mutex_);
  return seen_;
}

int64_t StatusFolder::unanswered_ns(int64_t now_ns) const {
  const std::scoped_lock lock(mutex_);
  return busy_ ? now_ns - busy_since_ns_ : 0;
}

void StatusFolder::work() {
  const BackgroundWork background;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || next_.has_value(); });
    if (ending_) return;
    const RankStatus own = *std::exchange(next_, std::nullopt);
    const bool looks = std::exchange(look_next_, false);
    const int64_t now_ns = busy_since_ns_ = next_ns_;
    busy_ = true;
    lock.unlock();
    write(own);
    if (looks) look(now_ns);
    lock.lock();
    busy_ = false;
  }
}

/// If the file can't be written, the other ranks find an old one or none.
void StatusFolder::write(const RankStatus& own) {
  const fs::path path = file_of(rank_);
  const std::string text = status_text(own);
  for (int attempt = 0; attempt < 2; ++attempt) {
    const OpenedFile file(path, O_WRONLY | O_CREAT);
    if (file.get() >= 0) {
      const ssize_t ignored = ::pwrite(file.get(), text.data(), text.size(), 0);
      static_cast<void>(ignored);
      return;
    }
    std::error_code ignored;
    fs::create_directories(path_, ignored);
  }
}

void StatusFolder::look(int64_t now_ns) {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank == rank_) continue;
    std::optional<RankStatus> status;
    bool present = false;
    {
      const OpenedFile file(file_of(rank), O_RDONLY);
      std::array<char, kRankStatusBytes + 1> text;
      const ssize_t bytes = file.get() >= 0 ? ::pread(file.get(), text.data(), text.size(), 0) : -1;
      present = file.get() >= 0;
      if (bytes >= 0) status = parse_status({text.data(), static_cast<size_t>(bytes)});
    }
    const std::scoped_lock lock(mutex_);
    SeenRank& seen = seen_[static_cast<size_t>(rank)];
    seen.present = present;
    if (!status || status->run != run_ || status->rank != rank) continue;  // keeps the previous status
    if (!seen.status || seen.status->beat != status->beat) seen.changed_ns = now_ns;
    seen.status = std::move(status);
  }
}

}  // namespace isochron::comm
