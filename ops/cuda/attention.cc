// Attention and its gradient on a device, a tile of a head's queries or keys a block.
#include "isochron/core/error.h"
#include "isochron/ops/cuda/block_sizes.h"
#include "isochron/ops/cuda/kernels.h"
#include "isochron/ops/cuda/launches.h"
#include "isochron/ops/cuda/texts.h"

namespace isochron::ops {
namespace {

using element::kAttentionThreads;
using element::kAttentionTile;
using graph::KernelRequest;

/// Adds functions of one call; text in braces stands for what they are told.
class AttentionKernel {
 public:
  AttentionKernel(const AttentionShape& s, const KernelRequest& request)
      : s_(s),
        request_(request),
        dtype_(request.inputs[0].dtype == DType::kF64 ? DType::kF64 : DType::kF32),
        kernel_(std::make_unique<LaunchKernel>(request)) {
    for (const int64_t count : {s.queries, s.keys, s.heads + 2 * s.key_heads, s.width})
      require(count < int64_t{1} << 31, ErrorCode::kUnsupported, request.op.name,
              "{} has more positions, heads or columns than its kernel counts", request.inputs[0].str());
    request.module->add_shared(std::string(texts::kAttention));
  }

  /// A block for each tile of the `length` rows of each of `heads` heads of each sample. `call` ends with
  /// what says which of them.
  void add_tiles(int64_t length, int64_t heads, std::string_view call) {
    const int64_t tiles = (length + kAttentionTile - 1) / kAttentionTile;
    if (s_.batch * heads * tiles == 0) return;
    kernel_->add(
        request_,
        fmt::format("// threads meet\n  constexpr Attention s = {};\n  __shared__ Tiles<{}> tiles;\n"
                    "  const unsigned tile = blockIdx.x % {}u * {}u, head = blockIdx.x / {}u % {}u;\n"
                    "  const unsigned sample = blockIdx.x / {}u;\n  {}, {}, sample, head, tile);",
                    shape_text(), sum(), tiles, kAttentionTile, tiles, heads, tiles * heads, call,
                    number_text(s_.scale, dtype_)),
        row_of_blocks(request_, s_.batch * heads * tiles, kAttentionThreads));
  }

  LaunchKernel& operator*() { return *kernel_; }
  std::unique_ptr<graph::Kernel> take() { return std::move(kernel_); }

  /// f32 or f64, in which sums run.
  std::string_view sum() const { return stored_type(dtype_); }
  size_t sum_bytes() const { return dtype_size(dtype_); }
  size_t head_inputs() const { return s_.packed ? 1 : 3; }
  /// The Heads of the inputs, the mask being the one after `others` that follow them.
  std::string heads_text(size_t others) const {
    const std::string mask = s_.masked ? fmt::format("in{}", head_inputs() + others) : "nullptr";
    return fmt::format("Heads{{in0, in{}, in{}, {}}}", s_.packed ? 0 : 1, s_.packed ? 0 : 2, mask);
  }

 private:
  std::string shape_text() const {
    const int64_t all = s_.heads + 2 * s_.key_heads;  // of a packed tensor
    return fmt::format("{{{}, {}, {}, {}, {}, {}, {}, {}, {}}}", s_.queries, s_.keys, s_.heads, s_.key_heads,
                       s_.packed ? all : s_.heads, s_.packed ? all : s_.key_heads, s_.packed ? s_.heads : 0,
                       s_.packed ? s_.heads + s_.key_heads : 0, s_.causal);
  }

  const AttentionShape& s_;
  const KernelRequest& request_;
  const DType dtype_;
  std::unique_ptr<LaunchKernel> kernel_;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_attention_cuda(const AttentionShape& s, const KernelRequest& request) {
  AttentionKernel kernel(s, request);
  kernel.add_tiles(s.queries, s.heads,
                   fmt::format("attend<{}>(s, tiles, {}, out0, out1", s.width, kernel.heads_text(0)));
  return kernel.take();
}

std::unique_ptr<graph::Kernel> prepare_attention_gradient_cuda(const AttentionShape& s,
                                                               const KernelRequest& request) {
  AttentionKernel kernel(s, request);
  const size_t y = kernel.head_inputs();
  const int64_t rows = s.batch * s.queries * s.heads;
  (*kernel).need_workspace(static_cast<size_t>(rows) * kernel.sum_bytes());
  (*kernel).add_loop(request, rows,
                     fmt::format("{0} sum = 0;\n  for (unsigned c = 0; c < {1}u; ++c) sum += "
                                 "{0}(widen(in{2}[i * {1}ull + c])) * {0}(widen(in{3}[i * {1}ull + c]));\n"
                                 "  static_cast<{0}*>(workspace)[i] = sum;",
                                 kernel.sum(), s.width, y, y + 2),
                     {{Slot::kInput, y}, {Slot::kInput, y + 2}});
  const std::string of = fmt::format("(s, tiles, {}, Seeds{{in{}, in{}, static_cast<const {}*>(workspace)}}",
                                     kernel.heads_text(3), y + 2, y + 1, kernel.sum());
  kernel.add_tiles(s.queries, s.heads, fmt::format("attend_query_gradient<{}>{}, out0", s.width, of));
  kernel.add_tiles(s.keys, s.key_heads,
                   fmt::format("attend_key_gradient<{}>{}, out{}, out{}", s.width, of, s.packed ? 0 : 1,
                               s.packed ? 0 : 2));
  return kernel.take();
}

}  // namespace isochron::ops
