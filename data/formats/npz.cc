// NPZ: a zip archive of .npy files. Archives are read and written by libzip.
#include <fmt/ranges.h>
#include <zip.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_set>

#include "isochron/core/base/checked.h"
#include "isochron/core/files/file.h"
#include "isochron/data/element/pipeline_memory.h"
#include "isochron/data/formats/npy.h"

namespace isochron::data {
namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr std::string_view kArrayByArray = "an .npy file for each array with data::from_npy";

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using Archive = std::unique_ptr<zip_t, Discard>;
struct CloseEntry {
  void operator()(zip_file_t* entry) const { zip_fclose(entry); }
};
struct FreeSource {
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};

/// An error of libzip's.
class ZipError {
 public:
  ZipError() { zip_error_init(&error_); }
  ZipError(const ZipError&) = delete;
  ZipError& operator=(const ZipError&) = delete;
  ~ZipError() { zip_error_fini(&error_); }
  zip_error_t* get() { return &error_; }

 private:
  zip_error_t error_;
};

[[noreturn]] void fail_zip(zip_error_t* error, const std::string& where, std::string_view mend) {
  const bool memory = zip_error_code_zip(error) == ZIP_ER_MEMORY;
  fail(memory ? ErrorCode::kOutOfMemory : ErrorCode::kBadFormat, where, "{}{}", zip_error_strerror(error),
       mend);
}

Archive open_archive(std::span<const std::byte> bytes, const std::string& where) {
  constexpr std::string_view kMend = "; is it an .npz file, or truncated?";
  require(!bytes.empty(), ErrorCode::kBadFormat, where, "the file is empty{}", kMend);  // libzip takes it
  ZipError error;
  std::unique_ptr<zip_source_t, FreeSource> source(
      zip_source_buffer_create(bytes.data(), bytes.size(), 0, error.get()));
  if (!source) fail_zip(error.get(), where, "");
  Archive archive(zip_open_from_source(source.get(), ZIP_RDONLY | ZIP_CHECKCONS, error.get()));
  if (!archive) fail_zip(error.get(), where, kMend);
  static_cast<void>(source.release());  // now the archive owns it
  return archive;
}

zip_stat_t stat_of(zip_t* archive, int64_t index, const std::string& where) {
  zip_stat_t entry;
  if (zip_stat_index(archive, static_cast<zip_uint64_t>(index), 0, &entry) != 0)
    fail_zip(zip_get_error(archive), where, "");
  constexpr zip_uint64_t kNeeded =
      ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  require((entry.valid & kNeeded) == kNeeded, ErrorCode::kBadFormat, where,
          "the zip directory doesn't describe entry {}", index);
  return entry;
}

Tensor read_entry(zip_t* archive, const zip_stat_t& entry, const std::string& where, ReadMemory& memory) {
  constexpr uint64_t kMaxExpansion = 1032;  // of deflate
  const std::string here = fmt::format("{}: entry '{}'", where, entry.name);
  require(entry.encryption_method == ZIP_EM_NONE, ErrorCode::kBadFormat, here, "is encrypted");
  require(entry.comp_method == ZIP_CM_STORE || entry.comp_method == ZIP_CM_DEFLATE, ErrorCode::kBadFormat,
          here, "compression method {} is not supported; expected stored (0) or deflated (8)",
          entry.comp_method);
  require(entry.size / kMaxExpansion <= entry.comp_size, ErrorCode::kBadFormat, here,
          "{} bytes can't be compressed to {}; is the file damaged?", entry.size, entry.comp_size);
  memory.add(entry.size);
  std::vector<std::byte> content(entry.size);
  const std::unique_ptr<zip_file_t, CloseEntry> file(zip_fopen_index(archive, entry.index, 0));
  if (!file) fail_zip(zip_get_error(archive), here, "");
  std::byte beyond;  // read at the end, when checksum and size are compared
  for (size_t done = 0;;) {
    const bool at_end = done == content.size();
    const zip_int64_t got = at_end ? zip_fread(file.get(), &beyond, 1)
                                   : zip_fread(file.get(), content.data() + done, content.size() - done);
    if (got < 0) fail_zip(zip_file_get_error(file.get()), here, ": the content is damaged");
    require(at_end == (got == 0), ErrorCode::kBadFormat, here, "expected {} bytes, got {}", content.size(),
            at_end ? "more" : std::to_string(done));
    if (at_end) return parse_npy(content, here);
    done += static_cast<size_t>(got);
  }
}

/// Adds `content`, which must stay until the archive is closed. Throws kInvalidArgument for its name.
void add_entry(zip_t* archive, const std::string& name, const std::string& content) {
  constexpr uint16_t kDate1980 = 0x21;  // 1 January 1980, so that equal arrays give equal files
  zip_source_t* const source = zip_source_buffer(archive, content.data(), content.size(), 0);
  const zip_int64_t index =
      source == nullptr ? -1 : zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    const std::string reason = zip_strerror(archive);
    zip_source_free(source);
    fail(ErrorCode::kInvalidArgument, "write_npz", "the name '{}': {}", name, reason);
  }
  const auto added = static_cast<zip_uint64_t>(index);
  if (zip_set_file_compression(archive, added, ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(archive, added, 0, kDate1980, 0) != 0)
    fail_zip(zip_get_error(archive), "write_npz", "");
}

}  // namespace

bool NpzFile::contains(std::string_view name) const {
  return std::any_of(begin(), end(), [&](const auto& array) { return array.first == name; });
}

const Tensor& NpzFile::at(std::string_view name) const {
  for (const auto& [own, tensor] : arrays_) {
    if (own == name) return tensor;
  }
  std::vector<std::string_view> names;
  for (const auto& array : arrays_) names.push_back(array.first);
  fail(ErrorCode::kOutOfRange, "npz", "no array '{}'; the file has: {}", name, fmt::join(names, ", "));
}

NpzFile parse_npz(std::span<const std::byte> bytes, const std::string& where) {
  const Archive archive = open_archive(bytes, where);
  std::vector<std::pair<std::string, Tensor>> arrays;
  std::unordered_set<std::string> names;
  ReadMemory memory(where, kArrayByArray);
  size_t held = 0;  // of the arrays
  for (int64_t i = 0; i < zip_get_num_entries(archive.get(), 0); ++i) {
    const zip_stat_t entry = stat_of(archive.get(), i, where);
    std::string name = entry.name;
    require(name.ends_with(kSuffix) && name.size() > kSuffix.size(), ErrorCode::kBadFormat, where,
            "entry '{}' is not an array; expected a name ending in {}", name, kSuffix);
    name.resize(name.size() - kSuffix.size());
    require(names.insert(name).second, ErrorCode::kBadFormat, where, "entry '{}' appears twice", entry.name);
    arrays.emplace_back(name, read_entry(archive.get(), entry, where, memory));
    held = checked_add(held, arrays.back().second.size_bytes(), where);
    memory.hold(held);
  }
  return NpzFile(std::move(arrays));
}

NpzFile read_npz(const std::filesystem::path& path) {
  const std::string where = path.string();
  ReadMemory memory(where, kArrayByArray);
  memory.hold(InputFile(path).size_bytes());
  return parse_npz(read_regular_file(path), where);
}

void write_npz(const std::filesystem::path& path, std::span<const std::pair<std::string, Tensor>> arrays) {
  constexpr std::string_view kNoArrays("PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);
  if (arrays.empty()) return write_file_atomically(path, kNoArrays);  // libzip writes no empty archives
  ZipError error;
  const std::unique_ptr<zip_source_t, FreeSource> result(
      zip_source_buffer_create(nullptr, 0, 0, error.get()));
  if (!result) fail_zip(error.get(), "write_npz", "");
  Archive archive(zip_open_from_source(result.get(), ZIP_TRUNCATE, error.get()));
  if (!archive) fail_zip(error.get(), "write_npz", "");
  zip_source_keep(result.get());  // the archive frees it, too
  std::vector<std::string> contents(arrays.size());
  std::unordered_set<std::string_view> names;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const auto& [name, tensor] = arrays[i];
    require(!name.empty() && name.size() <= 1024, ErrorCode::kInvalidArgument, "write_npz",
            "an array's name has 1 to 1024 bytes, '{}' has {}", name, name.size());
    require(names.insert(name).second, ErrorCode::kInvalidArgument, "write_npz",
            "the name '{}' appears twice", name);
    contents[i] = format_npy(tensor);
    add_entry(archive.get(), name + std::string(kSuffix), contents[i]);
  }
  if (zip_close(archive.get()) != 0) fail_zip(zip_get_error(archive.get()), "write_npz", "");
  static_cast<void>(archive.release());
  zip_stat_t size;
  if (zip_source_stat(result.get(), &size) != 0 || zip_source_open(result.get()) != 0)
    fail_zip(zip_source_error(result.get()), "write_npz", "");
  std::string bytes(size.size, '\0');
  if (zip_source_read(result.get(), bytes.data(), bytes.size()) != static_cast<zip_int64_t>(bytes.size()))
    fail_zip(zip_source_error(result.get()), "write_npz", "");
  zip_source_close(result.get());
  write_file_atomically(path, bytes);
}

}  // namespace isochron::data
