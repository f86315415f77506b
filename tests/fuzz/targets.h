// The project's parsers as functions of arbitrary bytes. libfuzzer/main.cc passes them to libFuzzer (`make
// fuzz`); seeds_test.cc runs each one on its seeds in tests/fuzz/seeds/<name>/.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isochron::fuzz {

using Input = std::span<const std::byte>;
inline std::string_view text_of(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

struct Target {
  std::string name;
  /// Parses the input as a user's program would, and checks the properties of every result. A violation ends
  /// the process. Errors that the parser may report are thrown unchanged.
  void (*parse)(Input input);
};

/// By name.
const std::vector<Target>& targets();

/// Runs a target. Returns false if the input was refused with an error that bad input may cause. Any other
/// exception propagates, because it is a bug.
bool accepts(const Target& target, Input input);

/// Ends the process unless `condition` holds.
void demand(bool condition, const char* what);

namespace internal {
std::vector<Target> command_targets();
std::vector<Target> data_targets();
std::vector<Target> image_targets();
std::vector<Target> library_targets();
}  // namespace internal

}  // namespace isochron::fuzz
