#include "isochron/comm/watch/rank_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <system_error>

#include "isochron/core/base/crc32c.h"

namespace isochron::comm {
namespace {

constexpr std::string_view kFirstLine = "isochron rank status 1\n";
constexpr std::string_view kLastLine = "checksum 00000000\n";
constexpr size_t kMaxTextBytes = 64;

uint32_t checksum_of(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

/// The text on one line, cut to fit into the file.
std::string line_of(std::string_view text) {
  std::string line(text.substr(0, kMaxTextBytes));
  std::ranges::replace_if(
      line, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, '?');
  return line;
}

/// Reads fields in the order of the file.
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  std::string_view text(std::string_view name) {
    const size_t end = rest_.find('\n');
    if (end == std::string_view::npos || !rest_.starts_with(name) || rest_.substr(name.size(), 1) != " ")
      return fail();
    const std::string_view value = rest_.substr(name.size() + 1, end - name.size() - 1);
    rest_.remove_prefix(end + 1);
    return value;
  }
  template <typename T>
  T number(std::string_view name, int base = 10) {
    const std::string_view digits = text(name);
    T value = 0;
    std::from_chars_result read{};
    if constexpr (std::is_floating_point_v<T>) {
      read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    } else {
      read = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    }
    if (read.ec != std::errc() || read.ptr != digits.data() + digits.size()) good_ = false;
    return value;
  }
  bool good() const { return good_; }

 private:
  std::string_view fail() {
    good_ = false;
    return {};
  }

  std::string_view rest_;
  bool good_ = true;
};

}  // namespace

std::string status_text(const RankStatus& status) {
  std::string text = fmt::format(
      "{}run {:016x}\nrank {}\nhost {}\nprocess {}\ntime {}\nbeat {}\ncollectives_entered {}\n"
      "collectives_finished {}\nwaited_s {:.3f}\ncollective {}\nbytes {}\ndoing {}\ndoing_s {:.3f}\nepoch "
      "{}\n"
      "step {}\n",
      kFirstLine, status.run, status.rank, line_of(status.host), status.process, line_of(status.time),
      status.beat, status.entered, status.finished, status.waited_s, line_of(status.label), status.bytes,
      line_of(status.doing), status.doing_s, status.epoch, status.step);
  text.resize(kRankStatusBytes - kLastLine.size() - 1, ' ');
  text += '\n';
  return text + fmt::format("checksum {:08x}\n", checksum_of(text));
}

std::optional<RankStatus> parse_status(std::string_view text) {
  if (text.size() != kRankStatusBytes || !text.starts_with(kFirstLine)) return std::nullopt;
  const std::string_view content = text.substr(0, kRankStatusBytes - kLastLine.size());
  if (text.substr(content.size()) != fmt::format("checksum {:08x}\n", checksum_of(content)))
    return std::nullopt;
  Reader reader(content.substr(kFirstLine.size()));
  RankStatus status;
  status.run = reader.number<uint64_t>("run", 16);
  status.rank = reader.number<int>("rank");
  status.host = reader.text("host");
  status.process = reader.number<int64_t>("process");
  status.time = reader.text("time");
  status.beat = reader.number<int64_t>("beat");
  status.entered = reader.number<int64_t>("collectives_entered");
  status.finished = reader.number<int64_t>("collectives_finished");
  status.waited_s = reader.number<double>("waited_s");
  status.label = reader.text("collective");
  status.bytes = reader.number<int64_t>("bytes");
  status.doing = reader.text("doing");
  status.doing_s = reader.number<double>("doing_s");
  status.epoch = reader.number<int64_t>("epoch");
  status.step = reader.number<int64_t>("step");
  if (!reader.good()) return std::nullopt;
  return status;
}

}  // namespace isochron::comm
