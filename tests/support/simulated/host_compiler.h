// A compiler whose device code runs on the host, and a simulated device that loads it: all that a program
// does on a GPU, without one.
#pragma once

#include <elf.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "isochron/core/cuda/compiler.h"
#include "isochron/memory/cuda/gpu.h"
#include "support/simulated/host_kernels.h"
#include "support/simulated/simulated_attention.h"
#include "support/simulated/simulated_convolutions.h"
#include "support/simulated/simulated_driver.h"
#include "support/simulated/simulated_products.h"

namespace isochron {

/// The most that a thread of one of the kernels in `cubin`, an ELF file, has on its stack, in bytes: what
/// doesn't fit in registers, arrays that are indexed at run time, and what called functions need. In the
/// section .nv.info an entry has a format, an attribute, a size and, for a frame's size, a symbol and the
/// number.
inline unsigned largest_stack_frame(const std::string& cubin) {
  constexpr uint8_t kSized = 4, kFrameSize = 0x11;
  const auto read = [&]<typename T>(size_t at, T) {
    T value{};
    require(at + sizeof value <= cubin.size(), ErrorCode::kBadFormat, "cubin", "it ends early");
    std::memcpy(&value, cubin.data() + at, sizeof value);
    return value;
  };
  const auto header = read(0, Elf64_Ehdr{});
  const auto section = [&](size_t i) { return read(header.e_shoff + i * header.e_shentsize, Elf64_Shdr{}); };
  const size_t names = section(header.e_shstrndx).sh_offset;
  unsigned largest = 0;
  for (size_t s = 0; s < header.e_shnum; ++s) {
    const Elf64_Shdr info = section(s);
    if (std::string_view(cubin.c_str() + names + info.sh_name) != ".nv.info") continue;
    for (size_t at = info.sh_offset; at < info.sh_offset + info.sh_size;) {
      const auto format = read(at, uint8_t{}), attribute = read(at + 1, uint8_t{});
      const auto size = read(at + 2, uint16_t{});
      if (format == kSized && attribute == kFrameSize) largest = std::max(largest, read(at + 8, uint32_t{}));
      at += 4 + (format == kSized ? size : 0);
    }
  }
  return largest;
}

/// Compiles `text` for a device where the toolkit is, though nothing here can run what comes of it.
/// `functions` are in it then.
inline void compile_for_devices(const std::string& text, const std::vector<std::string>& functions,
                                bool device_runtime = false) {
  // Calls of printf, which tell of indices out of range, and the sine of huge numbers need so much.
  constexpr unsigned kMostStack = 40;
  cuda::Compiler* compiler = nullptr;
  try {
    compiler = &cuda::machine_compiler();
  } catch (const Error& error) {
    GTEST_LOG_(INFO) << "not compiled for a device: " << error.what();
    return;
  }
  const KeptFile compiled(fmt::format("{} {} {} {}\n{}", compiler->version(), device_runtime, kMostStack,
                                      fmt::join(functions, " "), text),
                          ".cubin");
  if (compiled.exists()) return;
  const std::vector<char> cubin = compiler->compile(text, "device_code", 9, 0, device_runtime);
  const std::string names(cubin.begin(), cubin.end());
  for (const std::string& function : functions) {
    EXPECT_NE(names.find(function), std::string::npos) << function << " isn't in the device's code";
    if (names.find(function) == std::string::npos) return;
  }
  const unsigned stack = largest_stack_frame(names);
  EXPECT_LE(stack, kMostStack) << "a kernel keeps in memory what belongs in registers; the text begins with\n"
                               << text.substr(text.find("extern \"C\" __global__"), 2000);
  if (stack > kMostStack) return;
  const TempFolder folder;
  write_quickly(folder / "cubin", names);
  compiled.keep(folder / "cubin");
}

class HostCompiler final : public cuda::Compiler {
 public:
  /// `also_for_devices`: what each text must be good for, too.
  explicit HostCompiler(bool also_for_devices = false) : also_for_devices_(also_for_devices) {}
  int version() override { return 13000; }
  std::vector<char> compile(const std::string& text, const std::string&, int, int,
                            bool device_runtime) override {
    ++compilations;
    std::string altered = text;
    size_t barrier = 0;
    bool generated = true;  // as the bodies of kernels are, unlike what they call
    for (size_t at = 0; at < text.size(); ++at) {
      const auto is_here = [&](std::string_view what) { return text.compare(at, what.size(), what) == 0; };
      if (is_here("#ifndef ISOCHRON_OPS_CUDA")) generated = false;
      if (is_here("extern \"C\" __global__")) generated = true;
      if (!is_here(kBarrier) || generated != barriers_generated) continue;
      if (barrier++ == without_barrier) altered.replace(at, kBarrier.size(), kBarrier.size(), ' ');
    }
    barriers = std::max(barriers, barrier);
    kernels_.push_back(std::make_shared<HostKernels>(altered, check_races));
    if (also_for_devices_) {
      std::vector<std::string> functions;
      for (const auto& [name, meet] : kernels_.back()->functions()) functions.push_back(name);
      compile_for_devices(text, functions, device_runtime);
    }
    const std::string image = "host kernels " + std::to_string(kernels_.size() - 1);
    return {image.begin(), image.end()};
  }
  cuda::SimulatedContext::Loader loader() {
    return [this](std::span<const char> image) {
      const std::string text(image.begin(), image.end());
      const std::shared_ptr<HostKernels> kernels = kernels_.at(std::stoul(text.substr(text.rfind(' '))));
      std::map<std::string, cuda::SimulatedContext::LoadedKernel> loaded;
      for (const auto& [name, meet] : kernels->functions()) {
        loaded[name] = {
            kernels->argument_bytes(name),
            [kernels, function = name](const cuda::LaunchSize& size, std::span<void* const> arguments) {
              kernels->run(function, {size.grid[0], size.grid[1]}, size.block[0], arguments);
            }};
      }
      return loaded;
    };
  }

  int compilations = 0;
  /// Kernels end with an error where their threads race.
  bool check_races = false;
  /// Which barrier of each text is left out, counted from 0 among those in the bodies of kernels or among
  /// those in what they call; `barriers`: how many the longest has.
  size_t without_barrier = SIZE_MAX, barriers = 0;
  bool barriers_generated = false;

 private:
  static constexpr std::string_view kBarrier = "__syncthreads();";
  const bool also_for_devices_;
  std::vector<std::shared_ptr<HostKernels>> kernels_;
};

/// While it lives, the process' device 0 is simulated.
class SimulatedGpu {
 public:
  explicit SimulatedGpu(const cuda::SimulatedDevice& device = {}, bool also_for_devices = false,
                        bool libraries = true)
      : compiler(also_for_devices), context(std::make_shared<cuda::SimulatedContext>(device)) {
    context->set_loader(compiler.loader());
    gpu = cuda::Gpu::create(context,
                            libraries ? cuda::KernelSources{&compiler, {&products, &convolutions, &attention}}
                                      : cuda::KernelSources{&compiler});
    before_ = cuda::set_gpu(0, gpu);
  }
  ~SimulatedGpu() { cuda::set_gpu(0, std::move(before_)); }
  SimulatedGpu(const SimulatedGpu&) = delete;
  SimulatedGpu& operator=(const SimulatedGpu&) = delete;

  static constexpr Device kDevice{DeviceKind::kCuda, 0};
  HostCompiler compiler;
  cuda::SimulatedProducts products;
  cuda::SimulatedConvolutions convolutions;
  cuda::SimulatedAttention attention;
  std::shared_ptr<cuda::SimulatedContext> context;
  std::shared_ptr<cuda::Gpu> gpu;

 private:
  std::shared_ptr<cuda::Gpu> before_;
};

}  // namespace isochron
