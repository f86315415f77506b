// Runs a program as frameworks do that don't plan memory: every buffer but results is taken from an allocator
// by the first step that uses it and given back after the last, at every run.
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
  /// `allocator` hands out what the program's device can use. `device`: of a program for one, with the stream
  /// that its steps are put in; kept for what the kernels need of it.
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
  std::vector<std::vector<size_t>> taken_, given_;  // at each step; the copies of results are the last one
};

}  // namespace isochron::graph
