// Attention and its gradient on a device: by the machine's library (16-bit tensors only) or by this project's
// own kernel, in which each block computes one tile of a head's queries or keys; the faster one is used.
#include <algorithm>
#include <utility>

#include "isochron/backends/cuda/common/block_sizes.h"
#include "isochron/backends/cuda/common/launches.h"
#include "isochron/backends/cuda/common/texts.h"
#include "isochron/backends/cuda/factories.h"
#include "isochron/backends/cuda/libraries/attention.h"
#include "isochron/backends/cuda/libraries/library_kernel.h"
#include "isochron/core/base/checked.h"
#include "isochron/core/base/error.h"

namespace isochron::ops {
namespace {

using element::kAttentionTile;
using graph::KernelRequest;

/// Builds the kernel functions of one call. Text in braces is a placeholder for an argument.
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
    request.module->add_shared(std::string(backends::texts::kAttention));
  }

  /// Work on `heads` heads per sample with `length` rows each, done by one block per tile of rows. `call` is
  /// the text of the function call up to the arguments that name the tile.
  struct Tiled {
    int64_t length, heads;
    std::string call;
  };

  /// Adds one launch for all `parts`. Parts that take longest come first.
  void add_tiles(std::span<const Tiled> parts) {
    std::string text;
    int64_t blocks = 0;
    for (const auto& [length, heads, call] : parts) {
      const int64_t tiles = (length + kAttentionTile - 1) / kAttentionTile;
      const int64_t own = s_.batch * heads * tiles;
      if (own == 0) continue;
      text += fmt::format(
          "  if (block < {0}u) {{\n"
          "    const unsigned tile = block % {1}u * {2}u, head = block / {1}u % {3}u, sample = block / "
          "{4}u;\n"
          "    {5}, {6}, sample, head, tile);\n    return;\n  }}\n  block -= {0}u;\n",
          own, tiles, kAttentionTile, heads, tiles * heads, call, number_text(s_.scale, dtype_));
      blocks += own;
    }
    if (blocks == 0) return;
    const bool few = blocks <= kFewTiles * request_.module->device().multiprocessors;
    const unsigned across = few ? kManyAcross : kFewAcross;
    kernel_->add(
        request_,
        fmt::format("// threads meet\n  constexpr Attention s = {};\n  __shared__ Tiles<{}, {}> tiles;"
                    "\n  unsigned block = blockIdx.x;\n{}",
                    shape_text(), sum(), across, text),
        row_of_blocks(request_, blocks, across * across));
  }

  std::unique_ptr<graph::Kernel> take() { return std::move(kernel_); }

  /// The type in which sums are computed: f32 or f64.
  std::string_view sum() const { return storage_type(dtype_); }
  size_t head_inputs() const { return s_.packed ? 1 : 3; }
  /// The text of the Heads of the inputs. The mask is the input that comes after the heads and `others` more
  /// inputs.
  std::string heads_text(size_t others) const {
    const std::string mask = s_.masked ? fmt::format("in{}", head_inputs() + others) : "nullptr";
    return fmt::format("Heads{{in0, in{}, in{}, {}}}", s_.packed ? 0 : 1, s_.packed ? 0 : 2, mask);
  }

 private:
  static constexpr int64_t kFewTiles = 4;  // per multiprocessor
  static constexpr unsigned kManyAcross = 16, kFewAcross = 8;

  std::string shape_text() const {
    const int64_t all = s_.heads + 2 * s_.key_heads;  // heads of a packed tensor
    return fmt::format("{{{}, {}, {}, {}, {}, {}, {}, {}, {}}}", s_.queries, s_.keys, s_.heads, s_.key_heads,
                       s_.packed ? all : s_.heads, s_.packed ? all : s_.key_heads, s_.packed ? s_.heads : 0,
                       s_.packed ? s_.heads + s_.key_heads : 0, s_.causal);
  }

  const AttentionShape& s_;
  const KernelRequest& request_;
  const DType dtype_;
  std::unique_ptr<LaunchKernel> kernel_;
};

/// A call through the library. The library supports no masks, and causal attention only for equal numbers of
/// queries and keys.
class ByLibrary {
 public:
  ByLibrary(const AttentionShape& s, const KernelRequest& request, cuda::AttentionSpec::Pass pass)
      : s_(s), request_(request), dtype_(request.inputs[0].dtype) {
    const int64_t all = s.heads + 2 * s.key_heads;  // heads of a packed tensor
    spec_ = {.pass = pass,
             .batch = s.batch,
             .queries = s.queries,
             .keys = s.keys,
             .heads = s.heads,
             .key_heads = s.key_heads,
             .width = s.width,
             .query_step = (s.packed ? all : s.heads) * s.width,
             .key_step = (s.packed ? all : s.key_heads) * s.width,
             .causal = s.causal,
             .scale = s.scale,
             .dtype = dtype_};
  }

  /// The query, key or value heads (`which` is 0, 1 or 2) of the call's inputs or outputs.
  Slot heads(Slot::Kind kind, int64_t which) const {
    if (!s_.packed) return {kind, static_cast<size_t>(which)};
    const int64_t before = which == 0 ? 0 : s_.heads + (which - 1) * s_.key_heads;
    return {kind, 0, static_cast<size_t>(before * s_.width) * dtype_size(dtype_)};
  }
  /// The size of a tensor with one f32 number per query.
  size_t row_bytes() const {
    return static_cast<size_t>(s_.batch * s_.heads * s_.queries) * dtype_size(DType::kF32);
  }

  /// The library's candidates; empty if there is no library or it has no algorithm for the call.
  std::vector<Candidate> candidates(std::vector<Slot> tensors, size_t workspace_bytes) const {
    cuda::AttentionLibrary* library = request_.module->sources().library<cuda::AttentionSpec>();
    const bool fits = is_half(dtype_) && !s_.masked && s_.width % kAlignedElems == 0 &&
                      (!s_.causal || s_.queries == s_.keys) && one_dtype() &&
                      std::min({s_.batch, s_.queries, s_.keys, s_.heads, s_.width}) > 0;
    if (library == nullptr || !fits) return {};
    LibraryParts parts;
    cuda::LibraryAlgorithms algorithms = algorithms_of_parts(*library, parts.times);
    std::vector<size_t> bytes;
    for (const Slot& slot : tensors) {
      const size_t whole = slot.kind == Slot::kInput    ? request_.inputs[slot.index].size_bytes()
                           : slot.kind == Slot::kOutput ? request_.outputs[slot.index].size_bytes()
                                                        : workspace_bytes;
      bytes.push_back(whole);  // for a packed tensor, all of its bytes
      parts.steps.push_back(whole / static_cast<size_t>(parts.times));
    }
    if (!worth_trying(request_))
      algorithms = working_algorithms(*request_.module, std::move(algorithms), bytes);
    parts.tensors = std::move(tensors);
    parts.tensor_bytes = align_up(workspace_bytes, cuda::kDeviceAlignment);
    return candidates_of(std::move(algorithms), std::move(parts));
  }

 private:
  static constexpr int64_t kAlignedElems = 8;  // a head of 16 bits each begins at a multiple of 16 bytes

  /// The library's implementations for the whole batch. If there are none, the batch is divided into equal
  /// parts, as few as possible, because the gradient's memory grows with the square of the length. `times`:
  /// the number of parts.
  cuda::LibraryAlgorithms algorithms_of_parts(cuda::AttentionLibrary& library, int64_t& times) const {
    cuda::AttentionSpec part = spec_;
    for (times = 1; times <= s_.batch; ++times) {
      if (s_.batch % times != 0) continue;
      part.batch = s_.batch / times;
      // Each part must begin at a multiple of the library's alignment. The tensors of one number per query
      // have the smallest parts.
      const int64_t rows = part.batch * s_.heads * s_.queries;
      if (times > 1 && rows * static_cast<int64_t>(dtype_size(DType::kF32)) % cuda::kLibraryAlignment != 0)
        break;
      cuda::LibraryAlgorithms algorithms = library.algorithms(request_.module->context(), part);
      if (!algorithms.empty()) return algorithms;
    }
    times = 1;
    return {};
  }
  /// Whether all tensors have the heads' dtype, except those of one number per query, which must be f32.
  bool one_dtype() const {
    const auto fits = [&](const TensorSpec& spec) {
      return spec.dtype == (spec.shape.rank() == 3 ? DType::kF32 : dtype_);
    };
    return std::ranges::all_of(request_.inputs, fits) && std::ranges::all_of(request_.outputs, fits);
  }

  const AttentionShape& s_;
  const KernelRequest& request_;
  const DType dtype_;
  cuda::AttentionSpec spec_;
};

std::vector<Candidate> forward_by_library(const AttentionShape& s, const KernelRequest& request) {
  const auto read = [&](size_t output) { return request.unread.empty() || !request.unread[output]; };
  if (!read(0)) return {};
  const ByLibrary call(s, request, cuda::AttentionSpec::Pass::kForward);
  const Slot y{Slot::kOutput, 0}, logs = read(1) ? Slot{Slot::kOutput, 1} : Slot{Slot::kWorkspace, 0};
  return call.candidates(
      {call.heads(Slot::kInput, 0), call.heads(Slot::kInput, 1), call.heads(Slot::kInput, 2), y, logs},
      read(1) ? 0 : call.row_bytes());
}

std::vector<Candidate> gradient_by_library(const AttentionShape& s, const KernelRequest& request) {
  const ByLibrary call(s, request, cuda::AttentionSpec::Pass::kGradient);
  const size_t first = s.packed ? 1 : 3;
  const Slot y{Slot::kInput, first}, logs{Slot::kInput, first + 1}, dy{Slot::kInput, first + 2};
  return call.candidates(
      {call.heads(Slot::kInput, 0), call.heads(Slot::kInput, 1), call.heads(Slot::kInput, 2), y, dy, logs,
       call.heads(Slot::kOutput, 0), call.heads(Slot::kOutput, 1), call.heads(Slot::kOutput, 2),
       Slot{Slot::kWorkspace, 0}},
      call.row_bytes());
}

/// The fastest of the library's algorithms and the project's own kernel, whose tiles `add_tiles` adds.
template <typename AddTiles>
std::unique_ptr<graph::Kernel> choose_attention(const AttentionShape& s, const KernelRequest& request,
                                                std::vector<Candidate> candidates,
                                                const AddTiles& add_tiles) {
  if (candidates.empty() || worth_trying(request)) {
    AttentionKernel tiles(s, request);
    add_tiles(tiles);
    candidates.push_back({"tiles", tiles.take()});
  }
  return choose_kernel(request, "cudnn", request.module->sources().library<cuda::AttentionSpec>(),
                       std::move(candidates));
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_attention_cuda(const AttentionShape& s, const KernelRequest& request) {
  return choose_attention(s, request, forward_by_library(s, request), [&](AttentionKernel& kernel) {
    const AttentionKernel::Tiled queries{
        s.queries, s.heads,
        fmt::format("attend<{}>(s, tiles, {}, out0, out1", s.width, kernel.heads_text(0))};
    kernel.add_tiles({&queries, 1});
  });
}

std::unique_ptr<graph::Kernel> prepare_attention_gradient_cuda(const AttentionShape& s,
                                                               const KernelRequest& request) {
  return choose_attention(s, request, gradient_by_library(s, request), [&](AttentionKernel& kernel) {
    const size_t y = kernel.head_inputs();
    const std::string of =
        fmt::format("(s, tiles, {}, Seeds{{in{}, in{}, in{}}}", kernel.heads_text(3), y, y + 2, y + 1);
    kernel.add_tiles(std::vector<AttentionKernel::Tiled>{
        {s.keys, s.key_heads,
         fmt::format("attend_key_gradient<{}>{}, out{}, out{}", s.width, of, s.packed ? 0 : 1,
                     s.packed ? 0 : 2)},
        {s.queries, s.heads, fmt::format("attend_query_gradient<{}>{}, out0", s.width, of)}});
  });
}

}  // namespace isochron::ops
