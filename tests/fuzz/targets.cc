#include "fuzz/targets.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "isochron/core/base/error.h"

namespace isochron::fuzz {

const std::vector<Target>& targets() {
  static const std::vector<Target> all = [] {
    std::vector<Target> result;
    for (auto&& part : {internal::command_targets(), internal::data_targets(), internal::image_targets(),
                        internal::library_targets()}) {
      result.insert(result.end(), part.begin(), part.end());
    }
    std::ranges::sort(result, {}, &Target::name);
    return result;
  }();
  return all;
}

bool accepts(const Target& target, Input input) {
  try {
    target.parse(input);
    return true;
  } catch (const Error& error) {
    // kUnsupported: a valid file of an unsupported kind.
    if (error.code() != ErrorCode::kBadFormat && error.code() != ErrorCode::kUnsupported) throw;
    return false;
  }
}

void demand(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

}  // namespace isochron::fuzz
