#include "isochron/core/process/standard_streams.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "isochron/core/base/error.h"
#include "isochron/core/text/terminal_text.h"

namespace isochron {
namespace {

struct EscapedStream {
  int descriptor;
  TerminalEscaper escaper = {};
  int first_error = 0;
};

// Never destroyed: the streams are flushed after all destructors.
EscapedStream g_streams[] = {{STDOUT_FILENO}, {STDERR_FILENO}};
void (*g_unread)() = nullptr;
int g_data = -1;  // where `write_data` writes; -1: keep_standard_output_for_data() wasn't called

/// Collects pieces and writes them; remembers a failed write.
class Output {
 public:
  explicit Output(int descriptor) : descriptor_(descriptor) {}
  void append(std::string_view piece) {
    while (!piece.empty()) {
      const size_t count = std::min(piece.size(), part_.size() - used_);
      std::memcpy(part_.data() + used_, piece.data(), count);
      used_ += count;
      piece.remove_prefix(count);
      if (used_ == part_.size()) flush();
    }
  }
  /// Returns 0, or errno of the write that failed.
  int flush() {
    for (size_t done = 0; done < used_ && error_ == 0;) {
      const ssize_t wrote = ::write(descriptor_, part_.data() + done, used_ - done);
      if (wrote > 0) done += static_cast<size_t>(wrote);
      if (wrote < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        wait();
      else if (wrote < 0 && errno != EINTR)
        error_ = errno;
    }
    used_ = 0;
    return error_;
  }

 private:
  /// Waits until there is room: a program that shares the terminal or pipe may have made it non-blocking.
  void wait() {
    pollfd output{.fd = descriptor_, .events = POLLOUT, .revents = 0};
    if (::poll(&output, 1, -1) < 0 && errno != EINTR) error_ = errno;
  }

  const int descriptor_;
  std::array<char, 4096> part_;
  size_t used_ = 0;
  int error_ = 0;
};

ssize_t write_escaped(void* cookie, const char* text, size_t bytes) {
  auto& stream = *static_cast<EscapedStream*>(cookie);
  Output output(stream.descriptor);
  stream.escaper.put({text, bytes}, [&](std::string_view piece) { output.append(piece); });
  const int error = output.flush();
  if (error == 0) return static_cast<ssize_t>(bytes);
  if (stream.first_error == 0) stream.first_error = error;
  if (error == EPIPE && stream.descriptor == STDOUT_FILENO && g_unread != nullptr) g_unread();
  errno = error;
  return 0;
}

int end_escaped(void* cookie) {
  auto& stream = *static_cast<EscapedStream*>(cookie);
  Output output(stream.descriptor);
  stream.escaper.finish([&](std::string_view piece) { output.append(piece); });
  return output.flush() == 0 ? 0 : EOF;
}

std::FILE* escaped(EscapedStream& stream, int buffering) {
  std::FILE* file = ::fopencookie(
      &stream, "w", {.read = nullptr, .write = write_escaped, .seek = nullptr, .close = end_escaped});
  require(file != nullptr, ErrorCode::kOutOfMemory, "standard streams", "no memory for a stream");
  std::setvbuf(file, nullptr, buffering, BUFSIZ);
  return file;
}

/// The descriptor behind `file`; -1 if `file` is neither an escaped stream nor has a descriptor.
int descriptor_of(std::FILE* file) {
  const int descriptor = ::fileno(file);
  if (descriptor >= 0) return descriptor;
  return file == stdout ? STDOUT_FILENO : file == stderr ? STDERR_FILENO : -1;
}

}  // namespace

void escape_standard_streams(void (*unread)()) {
  g_unread = unread;
  std::FILE* const output = escaped(g_streams[0], ::isatty(STDOUT_FILENO) == 1 ? _IOLBF : _IOFBF);
  std::FILE* const errors = escaped(g_streams[1], _IONBF);
  std::fflush(stdout);
  stdout = output;
  stderr = errors;
}

int standard_output_error() { return g_streams[0].first_error; }

bool is_terminal(std::FILE* file) {
  const int descriptor = descriptor_of(file);
  const char* const kind = std::getenv("TERM");
  const bool dumb = kind != nullptr && std::string_view(kind) == "dumb";
  return !dumb && descriptor >= 0 && ::isatty(descriptor) == 1;
}

int terminal_columns(std::FILE* file) {
  winsize size{};
  const int descriptor = descriptor_of(file);
  if (descriptor >= 0 && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  constexpr int kUsual = 80;
  const char* const text = std::getenv("COLUMNS");
  if (text == nullptr) return kUsual;
  int columns = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), columns);
  return error == std::errc() && *end == '\0' && columns > 0 ? columns : kUsual;
}

std::string_view row_of(std::FILE* file, std::string_view text) {
  const int most = std::max(terminal_columns(file) - 1, 1);
  size_t at = 0;
  for (int characters = 0; at < text.size(); ++at) {
    const bool continues = (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80;
    if (!continues && ++characters > most) break;
  }
  return text.substr(0, at);
}

void keep_standard_output_for_data() {
  if (g_data >= 0) return;
  std::fflush(stdout);
  g_data = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  require(g_data >= 0 && ::dup2(STDERR_FILENO, STDOUT_FILENO) >= 0, ErrorCode::kIo, "standard output",
          "cannot be kept for data: {}", std::strerror(errno));
}

void write_data(std::string_view content) {
  require(g_data >= 0, ErrorCode::kInvalidArgument, "standard output", "isn't kept for data");
  Output output(g_data);
  if (::isatty(g_data) == 1)
    output.append(escape_for_terminal(content));
  else
    output.append(content);
  const int error = output.flush();
  if (error == EPIPE && g_unread != nullptr) g_unread();
  require(error == 0, ErrorCode::kIo, "standard output", "could not be written completely: {}",
          std::strerror(error));
}

void write_terminal_command(std::FILE* file, std::string_view command) {
  std::fflush(file);
  const int descriptor = descriptor_of(file);
  if (descriptor < 0) return;
  Output output(descriptor);
  output.append(command);
  output.flush();
}

}  // namespace isochron
