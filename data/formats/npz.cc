// NPZ: the reader goes by the zip's central directory alone, as the format asks; local headers only locate
// the data.
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "isochron/core/base/checked.h"
#include "isochron/core/files/file.h"
#include "isochron/data/element/pipeline_memory.h"
#include "isochron/data/formats/byte_reader.h"
#include "isochron/data/formats/inflate.h"
#include "isochron/data/formats/npy.h"

namespace isochron::data {
namespace {

constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint32_t kCentralSignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr size_t kEndBytes = 22;  // of the end record, without its comment
constexpr uint16_t kStored = 0, kDeflated = 8;
constexpr uint16_t kEncryptedFlag = 1;
constexpr uint16_t kDate1980 = 0x21;  // 1 January 1980, so that equal arrays give equal files
constexpr std::string_view kSuffix = ".npy";
constexpr std::string_view kArrayByArray = "an .npy file for each array with data::from_npy";

uint32_t crc_of(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

struct ZipEntry {
  std::string name;
  uint16_t flags = 0, method = 0;
  uint32_t crc = 0, packed_bytes = 0, size_bytes = 0, local_offset = 0;
};

/// Moves `reader` to the end record, which lies before a comment of at most 64 KiB.
void seek_end_record(ByteReader& reader, std::span<const std::byte> bytes) {
  for (size_t back = kEndBytes; back <= std::min(bytes.size(), kEndBytes + 0xffff); ++back) {
    const size_t offset = bytes.size() - back;
    if (bytes[offset] != std::byte{'P'}) continue;
    reader.seek(offset, "the end record");
    if (reader.take_le<uint32_t>("the end record") != kEndSignature) continue;
    reader.seek(offset + kEndBytes - 2, "the comment's length");
    if (reader.take_le<uint16_t>("the comment's length") != back - kEndBytes) continue;
    reader.seek(offset, "the end record");
    return;
  }
  fail(ErrorCode::kBadFormat, reader.where(),
       "no zip end record in {} bytes; is it an .npz file, or truncated?", bytes.size());
}

ZipEntry take_central_entry(ByteReader& reader) {
  if (reader.take_le<uint32_t>("a directory entry") != kCentralSignature) {
    reader.refuse("expected an entry of the zip directory");
  }
  ZipEntry entry;
  reader.take(4, "versions");
  entry.flags = reader.take_le<uint16_t>("flags");
  entry.method = reader.take_le<uint16_t>("the method");
  reader.take(4, "the time");
  entry.crc = reader.take_le<uint32_t>("the checksum");
  entry.packed_bytes = reader.take_le<uint32_t>("the packed size");
  entry.size_bytes = reader.take_le<uint32_t>("the size");
  const auto name_bytes = reader.take_le<uint16_t>("the name's length");
  const auto extra_bytes = reader.take_le<uint16_t>("the extra field's length");
  const auto comment_bytes = reader.take_le<uint16_t>("the comment's length");
  reader.take(8, "attributes");
  entry.local_offset = reader.take_le<uint32_t>("the entry's offset");
  entry.name = reader.take_text(name_bytes, "the name");
  reader.take(extra_bytes, "the extra field");
  reader.take(comment_bytes, "the comment");
  if (std::max({entry.packed_bytes, entry.size_bytes, entry.local_offset}) == UINT32_MAX) {
    reader.refuse("entry '{}' needs zip64, which is not supported; save its array as .npy", entry.name);
  }
  return entry;
}

std::vector<ZipEntry> read_directory(ByteReader& reader, std::span<const std::byte> bytes) {
  seek_end_record(reader, bytes);
  reader.take(8, "the end record");  // signature, disk numbers
  const auto entries_here = reader.take_le<uint16_t>("the number of entries");
  const auto entries = reader.take_le<uint16_t>("the number of entries");
  const auto directory_bytes = reader.take_le<uint32_t>("the directory's size");
  const auto directory_offset = reader.take_le<uint32_t>("the directory's offset");
  if (entries == UINT16_MAX || directory_bytes == UINT32_MAX || directory_offset == UINT32_MAX) {
    reader.refuse("zip64 archives are not supported; save the arrays one by one as .npy");
  }
  if (entries_here != entries) reader.refuse("archives of several disks are not supported");
  reader.seek(directory_offset, "the zip directory");
  std::vector<ZipEntry> result;
  for (int i = 0; i < entries; ++i) result.push_back(take_central_entry(reader));
  if (reader.offset() != uint64_t{directory_offset} + directory_bytes) {
    reader.refuse("the zip directory ends here, its size says at byte {}",
                  uint64_t{directory_offset} + directory_bytes);
  }
  return result;
}

Tensor read_entry(const ZipEntry& entry, std::span<const std::byte> bytes, const std::string& file,
                  ReadMemory& memory) {
  ByteReader reader(bytes, fmt::format("{}: entry '{}'", file, entry.name));
  if (entry.flags & kEncryptedFlag) reader.refuse("is encrypted");
  if (entry.method != kStored && entry.method != kDeflated) {
    reader.refuse("compression method {} is not supported; expected stored (0) or deflated (8)",
                  entry.method);
  }
  reader.seek(entry.local_offset, "the entry");
  if (reader.take_le<uint32_t>("the local header") != kLocalSignature)
    reader.refuse("expected a local header");
  reader.take(22, "the local header");
  const auto name_bytes = reader.take_le<uint16_t>("the name's length");
  const auto extra_bytes = reader.take_le<uint16_t>("the extra field's length");
  const std::string_view name = reader.take_text(name_bytes, "the name");
  if (name != entry.name) reader.refuse("the local header is that of '{}'", name);
  reader.take(extra_bytes, "the extra field");
  const auto packed = reader.take(entry.packed_bytes, "content");

  std::optional<std::vector<std::byte>> inflated;
  if (entry.method == kDeflated) memory.add(entry.size_bytes);
  if (entry.method == kDeflated) inflated = inflate_raw(packed, entry.size_bytes, reader.where());
  const std::span<const std::byte> content = inflated ? std::span<const std::byte>(*inflated) : packed;
  if (content.size() != entry.size_bytes) {
    reader.refuse("expected {} bytes, got {}", entry.size_bytes, content.size());
  }
  if (crc_of(content) != entry.crc) {
    reader.refuse("checksum {:08x}, expected {:08x}: the content is damaged", crc_of(content), entry.crc);
  }
  return parse_npy(content, reader.where());
}

void put_le(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

/// What the local header and the directory entry share, from the version to the extra field's length.
void put_common_fields(std::string& out, uint32_t crc, uint32_t size_bytes, std::string_view name) {
  constexpr uint16_t kVersion = 20, kNameIsUtf8 = 1 << 11;
  const bool ascii = std::ranges::all_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  put_le(out, kVersion, 2);
  put_le(out, ascii ? 0 : kNameIsUtf8, 2);  // flags
  put_le(out, kStored, 2);
  put_le(out, 0, 2);  // time
  put_le(out, kDate1980, 2);
  put_le(out, crc, 4);
  put_le(out, size_bytes, 4);
  put_le(out, size_bytes, 4);
  put_le(out, name.size(), 2);
  put_le(out, 0, 2);  // extra field
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
  ByteReader reader(bytes, where);
  std::vector<std::pair<std::string, Tensor>> arrays;
  ReadMemory memory(where, kArrayByArray);
  size_t held = 0;  // of the arrays
  for (const ZipEntry& entry : read_directory(reader, bytes)) {
    if (!entry.name.ends_with(kSuffix) || entry.name.size() == kSuffix.size()) {
      fail(ErrorCode::kBadFormat, where, "entry '{}' is no array; expected a name ending in {}", entry.name,
           kSuffix);
    }
    const std::string name = entry.name.substr(0, entry.name.size() - kSuffix.size());
    for (const auto& array : arrays) {
      require(array.first != name, ErrorCode::kBadFormat, where, "entry '{}' appears twice", entry.name);
    }
    arrays.emplace_back(name, read_entry(entry, bytes, where, memory));
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
  constexpr uint64_t kLimit = UINT32_MAX - 1;
  std::string out, directory;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const auto& [name, tensor] = arrays[i];
    require(!name.empty() && name.size() <= 1024, ErrorCode::kInvalidArgument, "write_npz",
            "an array's name has 1 to 1024 bytes, '{}' has {}", name, name.size());
    for (size_t j = 0; j < i; ++j) {
      require(arrays[j].first != name, ErrorCode::kInvalidArgument, "write_npz",
              "the name '{}' appears twice", name);
    }
    const std::string entry = name + std::string(kSuffix);
    const std::string content = format_npy(tensor);
    const uint64_t offset = out.size();
    require(offset + content.size() + directory.size() <= kLimit, ErrorCode::kUnsupported, "write_npz",
            "the file would exceed 4 GiB at '{}'; write its arrays one by one as .npy", name);
    const uint32_t crc = crc_of(std::as_bytes(std::span(content)));
    put_le(out, kLocalSignature, 4);
    put_common_fields(out, crc, static_cast<uint32_t>(content.size()), entry);
    out += entry;
    out += content;
    put_le(directory, kCentralSignature, 4);
    put_le(directory, 20, 2);  // made by
    put_common_fields(directory, crc, static_cast<uint32_t>(content.size()), entry);
    directory.append(10, '\0');  // comment, disk, attributes
    put_le(directory, offset, 4);
    directory += entry;
  }
  require(arrays.size() < UINT16_MAX && out.size() + directory.size() <= kLimit, ErrorCode::kUnsupported,
          "write_npz", "{} arrays in {} bytes exceed what a zip archive holds", arrays.size(), out.size());
  const uint64_t directory_offset = out.size();
  out += directory;
  put_le(out, kEndSignature, 4);
  put_le(out, 0, 4);  // disk numbers
  put_le(out, arrays.size(), 2);
  put_le(out, arrays.size(), 2);
  put_le(out, directory.size(), 4);
  put_le(out, directory_offset, 4);
  put_le(out, 0, 2);  // comment
  write_file_atomically(path, out);
}

}  // namespace isochron::data
