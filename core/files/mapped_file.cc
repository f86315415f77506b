#include "isochron/core/files/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "isochron/core/base/error.h"

namespace isochron {
namespace {

/// Bytes of the regular file `descriptor`.
size_t size_of(int descriptor, const std::string& where) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) fail(ErrorCode::kIo, where, "cannot stat: {}", std::strerror(errno));
  require(S_ISREG(info.st_mode), ErrorCode::kIo, where, "is not a regular file");
  return static_cast<size_t>(info.st_size);
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path)
    : where_(path.string()), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  require(descriptor_ >= 0, ErrorCode::kIo, where_, "cannot open: {}", std::strerror(errno));
  try {
    size_bytes_ = size_of(descriptor_, where_);
    if (size_bytes_ == 0) return;  // nothing can't be mapped
    void* data = ::mmap(nullptr, size_bytes_, PROT_READ, MAP_SHARED, descriptor_, 0);
    require(data != MAP_FAILED, ErrorCode::kIo, where_, "cannot map: {}", std::strerror(errno));
    data_ = static_cast<const std::byte*>(data);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_bytes_);
  ::close(descriptor_);
}

}  // namespace isochron
