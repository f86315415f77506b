// Runs a program as frameworks without memory planning do: at every run, each buffer except results is
// allocated before the first step that uses it and freed after the last step that uses it.
#pragma once

#include <memory>
#include <vector>

#include "isochron/graph/program/executor.h"

namespace isochron {
class Allocator;
}

namespace isochron::graph {

class AllocatingExecutor final : public Executor {
 public:
  /// `allocator` returns memory that the program's device can use. `device` is the executor of a device
  /// program; it is kept alive only because it owns resources of the kernels. Steps are enqueued in `stream`.
  AllocatingExecutor(Allocator& allocator, const Program& program, std::unique_ptr<Executor> device,
                     cuda::Stream stream);
  void run(Program& program) override;
  void profile(Program& program, std::span<int64_t> times_ns) override;

 private:
  struct Buffer {
    std::byte* address = nullptr;
    std::vector<Program::Patch> pointers;  // into it
    std::vector<size_t> workspaces;        // the steps whose workspace it is
  };
  void take(Program& program, size_t buffer);
  void give_back(const Program& program, size_t buffer);

  Allocator& allocator_;
  const std::unique_ptr<Executor> device_;
  const cuda::Stream stream_;
  std::vector<Buffer> buffers_;
  std::vector<std::vector<size_t>> taken_, given_;  // per step; the copies of results count as the last step
};

}  // namespace isochron::graph
