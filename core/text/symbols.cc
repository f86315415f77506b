#include "isochron/core/text/symbols.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace isochron {
namespace {

/// The `index`-th record of an array at `offset`, copied, for nothing in a file is aligned by promise.
template <typename Record>
std::optional<Record> record_at(std::span<const std::byte> bytes, uint64_t offset, uint64_t index) {
  Record record;
  if (offset > bytes.size() || index >= (bytes.size() - offset) / sizeof record) return std::nullopt;
  std::memcpy(&record, bytes.data() + offset + index * sizeof record, sizeof record);
  return record;
}

/// The text that begins at `offset` of `strings`, empty where it has no end.
std::string_view text_at(std::span<const std::byte> strings, uint64_t offset) {
  if (offset >= strings.size()) return {};
  const char* begin = reinterpret_cast<const char*>(strings.data()) + offset;
  const void* end = std::memchr(begin, 0, strings.size() - offset);
  return end == nullptr ? std::string_view()
                        : std::string_view(begin, static_cast<size_t>(static_cast<const char*>(end) - begin));
}

}  // namespace

FunctionNames::FunctionNames(std::span<const std::byte> bytes) {
  const auto header = record_at<Elf64_Ehdr>(bytes, 0, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64)
    return;
  relocatable_ = header->e_type == ET_DYN;
  const auto section = [&](uint64_t index) { return record_at<Elf64_Shdr>(bytes, header->e_shoff, index); };
  for (uint64_t s = 0; s < header->e_shnum; ++s) {
    const auto table = section(s);
    if (!table || table->sh_type != SHT_SYMTAB) continue;
    const auto strings = section(table->sh_link);
    if (!strings || strings->sh_offset > bytes.size() || strings->sh_size > bytes.size() - strings->sh_offset)
      continue;
    const auto names = bytes.subspan(strings->sh_offset, strings->sh_size);
    for (uint64_t i = 0; i < table->sh_size / sizeof(Elf64_Sym); ++i) {
      const auto symbol = record_at<Elf64_Sym>(bytes, table->sh_offset, i);
      if (!symbol) break;
      if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF) continue;
      functions_.push_back(
          {symbol->st_value, symbol->st_value + symbol->st_size, text_at(names, symbol->st_name)});
    }
  }
  std::ranges::stable_sort(functions_, {}, &Function::begin);
}

std::string_view FunctionNames::find(uint64_t address) const {
  const auto after = std::ranges::upper_bound(functions_, address, {}, &Function::begin);
  if (after == functions_.begin()) return {};
  const Function& function = *std::prev(after);
  return address < function.end ? function.name : std::string_view();
}

}  // namespace isochron
