// A compiler of device code whose output runs on the host.
#pragma once

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "isochron/core/cuda/compiler.h"
#include "support/driver_library/cubin.h"
#include "support/leaks_of_others.h"
#include "support/simulated/host_kernels.h"
#include "support/simulated/simulated_driver.h"

namespace isochron {

/// `text` with at most two of the kernels that differ only in numbers, such as the kernels for an op's
/// samples. Adds the names of the remaining kernels to `functions`.
inline std::string with_two_of_a_kind(const std::string& text, std::vector<std::string>& functions) {
  constexpr std::string_view kOpening = "extern \"C\" __global__ void ";
  std::map<std::string, int> kinds;
  std::string kept;
  size_t at = 0;
  for (size_t begin; (begin = text.find(kOpening, at)) != std::string::npos;) {
    kept.append(text, at, begin - at);
    size_t end = text.find('{', begin) + 1;
    for (int open = 1; open > 0; ++end) open += text.at(end) == '{' ? 1 : text.at(end) == '}' ? -1 : 0;
    const std::string kernel = text.substr(begin, end - begin);
    std::string kind;
    for (const unsigned char c : kernel)  // without numbers, but for those in names, as of float16
      if (!std::isdigit(c) || (!kind.empty() && std::isalnum(static_cast<unsigned char>(kind.back()))))
        kind += static_cast<char>(c);
    if (++kinds[kind] <= 2) {
      kept += kernel;
      functions.push_back(kernel.substr(kOpening.size(), kernel.find('(') - kOpening.size()));
    }
    at = end;
  }
  return kept.append(text, at);
}

/// The compute capability for which a text is compiled. It depends on the text, so that many texts together
/// cover all capabilities that are built for. Texts with tensor core instructions need 8.0.
inline std::pair<int, int> capability_for(std::string_view text) {
  constexpr std::array<std::pair<int, int>, 5> kAll{{{7, 5}, {8, 0}, {9, 0}, {10, 0}, {12, 0}}};
  const size_t oldest = text.find("mma.sync") == std::string_view::npos ? 0 : 1;
  const uint64_t any = hash_more(kHashOfNothing, text) % 8191;  // a prime: all of its bits count
  return kAll[oldest + any % (kAll.size() - oldest)];
}

/// Compiles `all_kernels`, two of a kind, for a device if the toolkit is installed; nothing here can run the
/// result.
inline void compile_for_devices(const std::string& all_kernels, bool device_runtime = false) {
  cuda::Compiler* compiler = nullptr;
  try {
    compiler = &cuda::machine_compiler();
  } catch (const Error& error) {
    GTEST_LOG_(INFO) << "not compiled for a device: " << error.what();
    return;
  }
  std::vector<std::string> functions;
  const std::string text = with_two_of_a_kind(all_kernels, functions);
  const auto [major, minor] = capability_for(text);
  // Calls of printf, which tell of indices out of range, and the sine of huge numbers need so much; from 10.0
  // on, a frame is a multiple of 16 bytes.
  const unsigned most_stack = major < 10 ? 40 : 48;
  const KeptFile compiled(fmt::format("{} {}.{} {} {} {} {}\n{}", compiler->version(), major, minor,
                                      fmt::join(cuda::kCompileOptions, " "), device_runtime, most_stack,
                                      fmt::join(functions, " "), text),
                          ".cubin");
  if (compiled.exists()) return;
  const std::vector<char> cubin = [&] {
    const LeaksOfOthers linker;
    return compiler->compile(text, "device_code", major, minor, device_runtime);
  }();
  const std::string names(cubin.begin(), cubin.end());
  for (const std::string& function : functions) {
    EXPECT_NE(names.find(function), std::string::npos) << function << " isn't in the device's code";
    if (names.find(function) == std::string::npos) return;
  }
  const unsigned stack = Cubin(names).largest_stack_frame();
  EXPECT_LE(stack, most_stack) << "a kernel keeps in memory what belongs in registers, for " << major << '.'
                               << minor << "; the text begins with\n"
                               << text.substr(text.find("extern \"C\" __global__"), 2000);
  if (stack > most_stack) return;
  const TempFolder folder;
  write_quickly(folder / "cubin", names);
  compiled.keep(folder / "cubin");
}

/// As the simulated device runs them.
inline std::map<std::string, cuda::SimulatedContext::LoadedKernel> loaded_kernels(
    const std::shared_ptr<HostKernels>& kernels) {
  std::map<std::string, cuda::SimulatedContext::LoadedKernel> loaded;
  for (const auto& [name, meet] : kernels->functions()) {
    loaded[name] = {
        kernels->argument_bytes(name),
        [kernels, function = name](const cuda::LaunchSize& size, std::span<void* const> arguments) {
          kernels->run(function, {size.grid[0], size.grid[1]}, size.block[0], arguments);
        }};
  }
  return loaded;
}

class HostCompiler final : public cuda::Compiler {
 public:
  /// `also_for_devices`: what each text must be good for, too.
  explicit HostCompiler(bool also_for_devices = false) : also_for_devices_(also_for_devices) {}
  int version() override { return 13000; }
  std::vector<char> compile(const std::string& text, const std::string&, int, int,
                            bool device_runtime) override {
    ++compilations;
    kernels_.push_back(
        std::make_shared<HostKernels>(check_races ? with_numbered_barriers(text) : text, check_races));
    if (check_races && without_barrier != SIZE_MAX)
      kernels_.back()->leave_out(barrier_number(without_barrier, barriers_generated));
    if (also_for_devices_) compile_for_devices(text, device_runtime);
    const std::string image =
        fmt::format("host kernels {}\n{}", kernels_.size() - 1, kernels_.back()->listed());
    return {image.c_str(), image.c_str() + image.size() + 1};  // with its 0, as PTX
  }
  cuda::SimulatedContext::Loader loader() {
    return [this](std::span<const char> image) {
      const std::string text(image.begin(), image.end());
      return loaded_kernels(kernels_.at(std::stoul(text.substr(text.find_last_of(' ', text.find('\n'))))));
    };
  }

  int compilations = 0;
  /// Kernels end with an error where their threads race.
  bool check_races = false;
  /// Which barrier of each text is left out where races are checked, counted from 0 among those in the bodies
  /// of kernels or among those in what they call; `barriers`: how many the longest has.
  size_t without_barrier = SIZE_MAX, barriers = 0;
  bool barriers_generated = false;

 private:
  static constexpr std::string_view kBarrier = "__syncthreads();";
  static size_t barrier_number(size_t index, bool generated) { return 2 * index + (generated ? 1 : 0); }
  /// One library serves whichever barrier is left out.
  std::string with_numbered_barriers(const std::string& text) {
    std::string numbered;
    size_t found[] = {0, 0};
    bool generated = true;  // as the bodies of kernels are, unlike what they call
    for (size_t at = 0; at < text.size();) {
      const auto is_here = [&](std::string_view what) { return text.compare(at, what.size(), what) == 0; };
      if (is_here("#ifndef ISOCHRON_OPS_CUDA")) generated = false;
      if (is_here("extern \"C\" __global__")) generated = true;
      if (is_here(kBarrier)) {
        numbered += fmt::format("host_barrier({});", barrier_number(found[generated]++, generated));
        at += kBarrier.size();
      } else {
        numbered += text[at++];
      }
    }
    barriers = std::max(barriers, found[barriers_generated]);
    return numbered;
  }
  const bool also_for_devices_;
  std::vector<std::shared_ptr<HostKernels>> kernels_;
};

}  // namespace isochron
