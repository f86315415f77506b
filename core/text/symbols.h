// The names of a program's functions by address, from the symbol table of its ELF file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace isochron {

class FunctionNames {
 public:
  FunctionNames() = default;
  /// Reads the table of the ELF file in `bytes`; knows no name where there is no table, or a part of it lies
  /// outside of the file.
  explicit FunctionNames(std::span<const std::byte> bytes);

  /// The mangled name of the function that holds `address`, counted as in the file; empty: none known.
  std::string_view find(uint64_t address) const;
  /// Whether the file's addresses are relative to where it is loaded.
  bool relocatable() const { return relocatable_; }

 private:
  struct Function {
    uint64_t begin = 0;
    uint64_t end = 0;
    std::string_view name;  // into the bytes
  };
  std::vector<Function> functions_;  // by begin
  bool relocatable_ = true;
};

}  // namespace isochron
