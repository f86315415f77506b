// Reads information about kernels from an ELF file of device code.
#pragma once

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/core/base/error.h"

namespace isochron {

class Cubin {
 public:
  /// `bytes` live longer. Throws kBadFormat for what is no such file.
  explicit Cubin(std::string_view bytes) : bytes_(bytes), header_(read<Elf64_Ehdr>(0)) {
    require(header_.e_machine == EM_CUDA, ErrorCode::kBadFormat, "cubin", "it is for another machine");
  }
  /// Of the file that begins at `begin`; 0 where none does.
  static size_t size_at(const char* begin) {
    if (std::memcmp(begin, ELFMAG, SELFMAG) != 0) return 0;
    Elf64_Ehdr header;
    std::memcpy(&header, begin, sizeof header);
    return std::max<size_t>({sizeof header, header.e_shoff + size_t{header.e_shnum} * header.e_shentsize,
                             header.e_phoff + size_t{header.e_phnum} * header.e_phentsize});
  }
  /// As 90 for 9.0.
  unsigned compute_capability() const { return header_.e_flags >> 8 & 0xff; }

  /// The largest stack of a thread over all kernels, in bytes. It holds values that don't fit in registers,
  /// arrays that are indexed at run time, and the stacks of called functions.
  unsigned largest_stack_frame() const {
    unsigned largest = 0;
    for_each_section([&](std::string_view name, const Elf64_Shdr& section) {
      if (name != ".nv.info") return;
      for_each_entry(section, [&](uint8_t attribute, size_t value) {
        if (attribute == kFrameSize)
          largest = std::max(largest, read<uint32_t>(value + 4));  // after a symbol
      });
    });
    return largest;
  }
  /// Of each kernel, by name, the size of each argument in bytes.
  std::map<std::string, std::vector<size_t>> kernels() const {
    constexpr std::string_view kInfo = ".nv.info.";
    std::map<std::string, std::vector<size_t>> result;
    for_each_section([&](std::string_view name, const Elf64_Shdr& section) {
      if (!name.starts_with(kInfo)) return;
      std::map<unsigned, size_t> sizes;  // by place
      bool kernel = false;
      for_each_entry(section, [&](uint8_t attribute, size_t value) {
        kernel |= attribute == kArgumentBytes;
        if (attribute == kArgument) sizes[read<uint16_t>(value + 4)] = read<uint32_t>(value + 8) >> 18;
      });
      if (!kernel) return;
      std::vector<size_t>& arguments = result[std::string(name.substr(kInfo.size()))];
      for (const auto& [place, size] : sizes) arguments.push_back(size);
    });
    return result;
  }

 private:
  // Entries of .nv.info have a format, an attribute, and either a value of two bytes or a size and so much
  // more.
  static constexpr uint8_t kSized = 4, kFrameSize = 0x11, kArgument = 0x17, kArgumentBytes = 0x19;

  template <typename T>
  T read(size_t at) const {
    T value{};
    require(at <= bytes_.size() && sizeof value <= bytes_.size() - at, ErrorCode::kBadFormat, "cubin",
            "it ends early");
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return value;
  }
  void for_each_section(const std::function<void(std::string_view, const Elf64_Shdr&)>& use) const {
    const auto section = [&](size_t i) {
      return read<Elf64_Shdr>(header_.e_shoff + i * header_.e_shentsize);
    };
    const size_t names = section(header_.e_shstrndx).sh_offset;
    for (size_t s = 0; s < header_.e_shnum; ++s) {
      const Elf64_Shdr header = section(s);
      const size_t name = names + header.sh_name;
      static_cast<void>(read<char>(name));
      use(bytes_.substr(name, bytes_.find('\0', name) - name), header);
    }
  }
  void for_each_entry(const Elf64_Shdr& section, const std::function<void(uint8_t, size_t)>& use) const {
    for (size_t at = section.sh_offset; at < section.sh_offset + section.sh_size;) {
      const auto format = read<uint8_t>(at);
      use(read<uint8_t>(at + 1), at + 4);
      at += 4 + (format == kSized ? read<uint16_t>(at + 2) : 0);
    }
  }

  const std::string_view bytes_;
  const Elf64_Ehdr header_;
};

}  // namespace isochron
