#include "isochron/core/cuda/kernel_cache.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

#include "isochron/core/base/crc32c.h"
#include "isochron/core/base/error.h"
#include "isochron/core/base/hash.h"
#include "isochron/core/files/cache_folder.h"
#include "isochron/core/files/file.h"
#include "isochron/core/telemetry/event.h"

namespace isochron::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "kernels-", kSuffix = ".cubin";
constexpr size_t kMaxFileBytes = size_t{1} << 28;

uint32_t checksum(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

/// The header of a file; `kernels` is the rest of the file.
std::string header(const std::string& of, std::string_view kernels) {
  return fmt::format("isochron kernels 1\n{}\n{} bytes, crc32c {:08x}\n", of, kernels.size(),
                     checksum(kernels));
}

/// Returns nothing unless the file holds the complete kernels for `of`.
std::optional<std::vector<char>> read_kernels(const fs::path& path, const std::string& of) {
  const std::vector<std::byte> bytes = read_regular_file(path, kMaxFileBytes);
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t begin = header(of, "").size();  // at least: its numbers may have more digits
  for (size_t at = begin, lines = 0; at <= all.size() && lines < 32; ++at, ++lines) {
    if (all[at - 1] != '\n') continue;
    const std::string_view kernels = all.substr(at);
    if (all.substr(0, at) == header(of, kernels)) return std::vector<char>(kernels.begin(), kernels.end());
  }
  return std::nullopt;
}

void notice(const fs::path& path, const std::string& text) {
  emit({EventKind::kNotice, "kernel cache", fmt::format("{}: {}", path.string(), text)});
}

}  // namespace

std::vector<char> KernelCache::compile(const std::string& text, const std::string& name, int major, int minor,
                                       bool device_runtime) {
  if (folder_.empty()) return compiler_.compile(text, name, major, minor, device_runtime);
  const std::string of =
      fmt::format("NVRTC {} {} for {}.{}{}, a text of {} bytes, crc32c {:08x}", compiler_.version(),
                  fmt::join(kCompileOptions, " "), major, minor,
                  device_runtime ? " with the device runtime" : "", text.size(), checksum(text));
  const uint64_t hash = hash_more(hash_more(kHashOfNothing, of), text);
  const fs::path path = folder_ / fmt::format("{}{:016x}{}", kPrefix, hash, kSuffix);
  std::error_code none;
  if (fs::exists(path, none)) {
    try {
      if (std::optional<std::vector<char>> kernels = read_kernels(path, of)) {
        fs::last_write_time(path, fs::file_time_type::clock::now(), none);  // used again
        return std::move(*kernels);
      }
      notice(path, "is incomplete; the kernels are compiled again");
    } catch (const Error& error) {
      notice(path, error.what());
    }
  }
  std::vector<char> kernels = compiler_.compile(text, name, major, minor, device_runtime);
  const std::string_view content(kernels.data(), kernels.size());
  try {
    fs::create_directories(folder_, none);
    write_file_atomically(path, header(of, content) + std::string(content));
    keep_newest_files(folder_, kPrefix, kSuffix, kMaxFiles);
  } catch (const Error& error) {
    notice(path, error.what());
  }
  return kernels;
}

}  // namespace isochron::cuda
