// One program for all targets: `fuzz --target=NAME [options of libFuzzer] [folders]`, `fuzz --list`.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "fuzz/targets.h"

namespace {

const isochron::fuzz::Target* g_target = nullptr;

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  using isochron::fuzz::targets;
  constexpr std::string_view kTarget = "--target=";
  std::string_view wanted;
  for (int i = 1; i < *count; ++i) {
    const std::string_view argument = (*arguments)[i];
    if (argument == "--list") {
      for (const auto& target : targets()) std::printf("%s\n", target.name.c_str());
      std::exit(0);
    }
    if (argument.starts_with(kTarget)) wanted = argument.substr(kTarget.size());
  }
  for (const auto& target : targets()) {
    if (target.name == wanted) g_target = &target;
  }
  if (g_target == nullptr) {
    std::fprintf(stderr, "fuzz: say --target=NAME; --list names them\n");
    std::exit(2);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  isochron::fuzz::accepts(*g_target, {reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
