#include "isochron/core/process/process_space.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace isochron {

std::string process_space() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  struct stat ids {};
  if (!(file >> boot) || ::stat("/proc/self/ns/pid", &ids) != 0) return "";
  return fmt::format("{}/{}", boot, ids.st_ino);
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace isochron
